"""The store on every engine, each test with an empty one. After each test the ledger must be sound."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from duly.adapters.sql.engine import Engine
from duly.adapters.sql.engine_postgres import SCHEMA, PostgresEngine
from duly.adapters.sql.engine_sqlite import InlineSqliteEngine, SqliteEngine
from duly.adapters.sql.migrate import upgrade
from duly.ports.store import Store
from tests.conformance.ledger import assert_ledger_is_sound
from tests.conformance.world import World
from tests.services.postgres import Postgres

TEMPLATE = "duly_template"
KEPT = ["duly_migrations", "shards", "tenants"]
ENGINES = ("sqlite", "sqlite-inline", "postgres")

_numbers = itertools.count(1)


def run_aside(work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Run a coroutine on a loop of its own, whatever loop the test framework keeps here."""
    failures: list[BaseException] = []

    def main() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=main)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


async def migrate(engine: Engine) -> None:
    await upgrade(engine)
    await engine.close()


async def empty(dsn: str) -> None:
    """Rows go, numbers go on: a fence or an epoch of an earlier test is never given again."""
    connection = await asyncpg.connect(dsn, server_settings={"search_path": SCHEMA})
    found = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1 AND tablename <> ALL ($2)", SCHEMA, KEPT)
    deletes = [f"DELETE FROM {row['tablename']};" for row in found]
    await connection.execute("SET session_replication_role = replica;" + "".join(deletes) + "DELETE FROM tenants WHERE tenant > 1;")
    await connection.execute("UPDATE shards SET owner = NULL, lease_until = 0, progress_at = 0")
    await connection.close()


@pytest.fixture(scope="session")
def migrated_template(postgres_server: Postgres) -> str:
    """A migrated database that tests copy: quicker than migrating each anew."""
    dsn = postgres_server.create_database(TEMPLATE, linguistic=True)
    run_aside(lambda: migrate(PostgresEngine(dsn)))
    return TEMPLATE


@pytest.fixture
def migrated_dsn(postgres_server: Postgres, migrated_template: str) -> Iterator[str]:
    """A fresh, migrated PostgreSQL database."""
    name = f"conformance_{next(_numbers)}"
    yield postgres_server.create_database(name, template=migrated_template)
    postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def shared_dsn(postgres_server: Postgres, migrated_template: str) -> str:
    """One database for all tests that can do with an emptied one: creating each anew would be most of their time."""
    return postgres_server.create_database("conformance_shared", template=migrated_template)


@pytest.fixture
def postgres_store(shared_dsn: str) -> str:
    """The database behind `engine`. A module whose tests change the schema overrides it with `migrated_dsn`."""
    run_aside(lambda: empty(shared_dsn))
    return shared_dsn


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file that tests copy: every migration anew would wait for the disk."""
    path = tmp_path_factory.mktemp("template") / "duly.db"
    run_aside(lambda: migrate(SqliteEngine(str(path))))
    return path


@pytest.fixture
def sqlite_path(tmp_path: Path, sqlite_template: Path) -> str:
    """A fresh, migrated SQLite file."""
    return str(shutil.copy(sqlite_template, tmp_path / "duly.db"))


def opener(kind: str, request: pytest.FixtureRequest) -> Callable[[], Engine]:
    """Opens one more engine on the test's store: as another process would."""
    if kind == "postgres":
        dsn = request.getfixturevalue("postgres_store")
        return lambda: PostgresEngine(dsn)
    path = request.getfixturevalue("sqlite_path")
    return lambda: SqliteEngine(path)


@asynccontextmanager
async def opened(engine: Engine) -> AsyncIterator[Engine]:
    """An engine for as long as the block lasts, and a sound ledger at its end."""
    try:
        yield engine
        await assert_ledger_is_sound(engine)
    finally:
        await engine.close()


async def inline_engine() -> InlineSqliteEngine:
    """A migrated store in memory."""
    engine = InlineSqliteEngine()
    await upgrade(engine)
    return engine


@pytest.fixture(params=ENGINES)
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    """Each engine in turn."""
    found = await inline_engine() if request.param == "sqlite-inline" else opener(request.param, request)()
    async with opened(found):
        yield found


@pytest.fixture
def world(engine: Engine) -> World:
    return World(engine)


@pytest.fixture
def store(world: World) -> Store:
    return world.store


@pytest.fixture(params=("sqlite", "postgres"))
def open_engine(request: pytest.FixtureRequest) -> Callable[[], AbstractAsyncContextManager[Engine]]:
    """For races: as many engines on one store as a test wants, each with connections of its own."""
    make = opener(request.param, request)
    return lambda: opened(make())
