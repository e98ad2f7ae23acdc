"""Stores for tests: migrated once, copied or emptied for each."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import psycopg
import pytest

from duly.adapters.sql.engine import Engine
from duly.adapters.sql.engine_postgres import SCHEMA, PostgresEngine
from duly.adapters.sql.engine_sqlite import InlineSqliteEngine
from duly.adapters.sql.migrate import upgrade
from tests.services.postgres import Postgres

TEMPLATE = "duly_template"
KEPT = ["duly_migrations", "shards"]

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


_image: bytes | None = None


async def in_memory(engine: InlineSqliteEngine) -> InlineSqliteEngine:
    """Migrate a new store in memory: the first one step by step, the others are copies of it."""
    global _image
    if _image is None:
        await upgrade(engine)
        _image = engine._connection.serialize()
    else:
        engine._connection.deserialize(_image)
    return engine


_brooms: dict[str, psycopg.Connection[Any]] = {}


def empty(dsn: str) -> None:
    """Rows go, numbers go on: a fence or an epoch of an earlier test is never given again."""
    try:
        _sweep(_broom(dsn))
    except psycopg.OperationalError:
        # A test has ended every session of the server.
        _brooms.pop(dsn).close()
        _sweep(_broom(dsn))


def _broom(dsn: str) -> psycopg.Connection[Any]:
    """One line is kept for all tests: a new one reads the catalogue anew, thirty times as long as the sweeping takes."""
    if dsn not in _brooms:
        _brooms[dsn] = psycopg.connect(dsn, autocommit=True, options=f"-c search_path={SCHEMA} -c session_replication_role=replica")
    return _brooms[dsn]


def _sweep(connection: psycopg.Connection[Any]) -> None:
    found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename <> ALL (%s)", [SCHEMA, KEPT]).fetchall()
    statements = [
        *(f"DELETE FROM {table}" for (table,) in found),
        # The first tenant as the migrations make it: a test may have changed its quotas.
        "INSERT INTO tenants (tenant, name) VALUES (1, 'default')",
        # Nobody publishes what this one will do.
        "SELECT duly_note_events(false), duly_note_records(false)",
        "UPDATE shards SET owner = NULL, lease_until = 0, progress_at = 0",
    ]
    connection.execute(";".join(statements).encode())


@atexit.register
def _put_the_brooms_away() -> None:
    for connection in _brooms.values():
        connection.close()


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
    empty(shared_dsn)
    return shared_dsn
