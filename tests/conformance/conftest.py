"""The store on every engine, each test with an empty one. After each test the ledger must be sound."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from duly.adapters.sql.engine import Engine
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.engine_sqlite import InlineSqliteEngine, SqliteEngine
from duly.ports.store import Store
from tests.conformance.ledger import assert_ledger_is_sound
from tests.conformance.world import World
from tests.services.databases import in_memory, migrate, run_aside

ENGINES = ("sqlite", "sqlite-inline", "postgres")


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
    return await in_memory(InlineSqliteEngine())


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
