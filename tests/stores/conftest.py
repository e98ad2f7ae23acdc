"""Two stores of one kind: SQLite files, and two databases of one PostgreSQL server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from duly.adapters.sql.engine_postgres import PostgresEngine
from tests.conformance.conftest import inline_engine, opened
from tests.services.databases import empty
from tests.services.postgres import Postgres
from tests.stores.moving import Two


@pytest.fixture(scope="session")
def two_databases(postgres_server: Postgres, migrated_template: str) -> tuple[str, str]:
    """Two databases for all tests: they are emptied, since making them anew would be most of the time."""
    first, second = (postgres_server.create_database(f"stores_{letter}", template=migrated_template) for letter in "ab")
    return first, second


@pytest.fixture(params=["sqlite-inline", "postgres"])
async def two(request: pytest.FixtureRequest) -> AsyncIterator[Two]:
    """Two empty stores; at the end both ledgers must be sound."""
    if request.param == "postgres":
        dsns: tuple[str, str] = request.getfixturevalue("two_databases")
        for dsn in dsns:
            empty(dsn)
        first, second = (PostgresEngine(dsn) for dsn in dsns)
        async with opened(first), opened(second):
            yield Two(first, second)
    else:
        async with opened(await inline_engine()) as a, opened(await inline_engine()) as b:
            yield Two(a, b)
