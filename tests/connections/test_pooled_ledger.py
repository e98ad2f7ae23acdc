"""Fire, claim and finish through a real PgBouncer in transaction mode: the same promises, from the same suite."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from duly.adapters.sql.engine import Engine
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.postgres.address import Pooler
from tests.conformance.conftest import opened
from tests.conformance.test_outcomes import TestRefused as _Refused
from tests.conformance.test_ready import TestClaim as _Claim
from tests.conformance.test_schedules import TestFire as _Fire
from tests.conformance.world import World


@pytest.fixture
async def engine(pooled_dsn: str) -> AsyncIterator[Engine]:
    engine = PostgresEngine(pooled_dsn)
    async with opened(engine):
        yield engine
        assert engine.way.pooler is Pooler.TRANSACTION


@pytest.fixture
def world(engine: Engine) -> World:
    return World(engine)


class TestFireThroughAPooler(_Fire):
    """Every fact of a fire."""


class TestClaimThroughAPooler(_Claim):
    """Every fact of a claim."""


class TestFinishThroughAPooler(_Refused):
    """Every fact of a report that is refused, and of what beside it is not."""
