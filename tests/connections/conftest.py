"""Poolers and proxies before a real PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping

import pytest

from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.services import ServiceMissing
from duly.services.pgbouncer import PgBouncer
from duly.verify.proxy import Link
from tests.conftest import service_missing
from tests.services.databases import empty
from tests.services.postgres import Postgres


def pooler_of(server: Postgres, settings: Mapping[str, str] | None = None) -> PgBouncer:
    """A pooler before this server, not started yet."""
    try:
        return PgBouncer(server, settings)
    except ServiceMissing as error:
        service_missing("PgBouncer", str(error))


@pytest.fixture(scope="session")
def pgbouncer(postgres_server: Postgres) -> Iterator[PgBouncer]:
    """One pooler per test process, in transaction mode, before the server of the tests."""
    with pooler_of(postgres_server) as pooler:
        yield pooler


@pytest.fixture
def pooled_dsn(pgbouncer: PgBouncer, shared_dsn: str) -> str:
    """An emptied database, through the pooler. Nothing in the URL says so."""
    empty(shared_dsn)
    return pgbouncer.dsn(shared_dsn.rpartition("/")[2])


@pytest.fixture
async def link(postgres_server: Postgres) -> AsyncIterator[Link]:
    """A link to the server that can be made to fail; `through` gives a DSN that leads over it."""
    link = Link("test/store", "127.0.0.1", postgres_server.port)
    await link.listen()
    yield link
    await link.close()


@pytest.fixture
async def linked(link: Link, postgres_server: Postgres, shared_dsn: str) -> AsyncIterator[PostgresEngine]:
    """An engine over the link."""
    empty(shared_dsn)
    engine = PostgresEngine(through(link, shared_dsn, postgres_server))
    yield engine
    await engine.close()


def through(link: Link, dsn: str, server: Postgres) -> str:
    """The same database over the link."""
    return dsn.replace(f":{server.port}/", f":{link.port}/")
