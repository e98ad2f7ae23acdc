"""Enqueueing and completing in a transaction of the user's own, with every library that is supported, on a real server."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa

from duly import App, Conflict, Context, DulyError, Invalid, LeaseLost, NotFound, TooLarge, Unavailable
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.domain.ids import ExecutionId, parse_execution_id
from duly.domain.instants import MINUTE, from_datetime
from duly.domain.lifecycle import State
from duly.ports.handlers import Attempt
from duly.ports.store import ExecutionFilter
from duly.sdk.task import Task
from tests.conformance.world import World
from tests.sdk.libraries import ASYNC, BLOCKING, django_database
from tests.services.databases import empty, migrate, run_aside
from tests.services.postgres import Postgres

LIBRARIES = sorted({**ASYNC, **BLOCKING})


def declare(store: str) -> tuple[App, Task[Any, Any]]:
    app = App("shop", store=store)

    @app.job
    async def send_mail(ctx: Context, word: str, ratio: float = 1.0) -> None:
        """Sends it."""

    return app, send_mail


@pytest.fixture(scope="session")
def migrated_once(postgres_server: Postgres) -> str:
    """One store for all of these tests, emptied for each: making it anew would be most of their time."""
    dsn = postgres_server.create_database("using", linguistic=True)
    run_aside(lambda: migrate(PostgresEngine(dsn)))
    return dsn


@pytest.fixture
def store_dsn(migrated_once: str) -> str:
    empty(migrated_once)
    return migrated_once


@pytest.fixture
async def app(store_dsn: str) -> AsyncIterator[App]:
    made, _ = declare(store_dsn)
    await made.publish()
    yield made
    await made.close()


@pytest.fixture
def send_mail(app: App) -> Task[Any, Any]:
    return app.tasks["send_mail"]


@pytest.fixture
async def world(app: App, store_dsn: str) -> AsyncIterator[World]:
    """The same store behind the application's back."""
    engine = PostgresEngine(store_dsn)
    yield World(engine, now=time.time_ns() // 1000)
    await engine.close()


@pytest.fixture
async def connection(app: App, store_dsn: str) -> AsyncIterator[asyncpg.Connection]:
    made = await asyncpg.connect(store_dsn)
    yield made
    await made.close()


async def play(library: str, dsn: str, work: Any) -> None:
    """What a user of the library writes; a blocking one in a thread, where it belongs."""
    if library in ASYNC:

        async def awaited(connection: Any, word: str) -> None:
            await work(connection, word)

        await ASYNC[library](dsn, awaited)
    else:
        await asyncio.to_thread(BLOCKING[library], dsn, work)


async def executions(world: World) -> list[Any]:
    return (await world.store.insights.executions(ExecutionFilter(1, limit=100)))[::-1]


@pytest.mark.parametrize("library", LIBRARIES)
async def test_what_commits_is_enqueued_once_and_what_is_undone_never(
    library: str, store_dsn: str, send_mail: Task[Any, Any], world: World
) -> None:
    await play(library, store_dsn, lambda connection, word: send_mail.using(connection).enqueue(word))

    found = await executions(world)
    assert [(execution.payload, execution.state) for execution in found] == [('{"word":"kept"}', State.PENDING)]


@pytest.mark.parametrize("library", LIBRARIES)
async def test_an_enqueue_is_told_its_transaction_and_its_delay(
    library: str, store_dsn: str, app: App, send_mail: Task[Any, Any], world: World
) -> None:
    def enqueue(connection: Any, word: str) -> Any:
        job = send_mail if library in ASYNC else app.sync.send_mail
        return job.enqueue(word, delay="5m", tx=connection)

    await play(library, store_dsn, enqueue)

    (found,) = await executions(world)
    assert (found.payload, found.state) == ('{"word":"kept"}', State.SCHEDULED)
    assert abs(found.due_at - world.now - 5 * MINUTE) < MINUTE


async def test_two_transactions_and_one_that_nobody_awaits_are_refused(
    app: App, send_mail: Task[Any, Any], connection: asyncpg.Connection
) -> None:
    with pytest.raises(Invalid, match="two transactions"):
        send_mail.using(connection).enqueue("word", tx=connection)
    with pytest.raises(Invalid, match="of an async library"):
        app.sync.send_mail.enqueue("word", tx=connection)


@pytest.mark.parametrize("library", LIBRARIES)
async def test_what_commits_is_completed_and_what_is_undone_still_runs(
    library: str, store_dsn: str, send_mail: Task[Any, Any], world: World
) -> None:
    runs = {word: parse_execution_id(await send_mail.enqueue(word)) for word in ("kept", "savepoint", "undone")}
    contexts = await running(world)

    await play(library, store_dsn, lambda connection, word: contexts[runs[word]].complete_with(connection, {"b": 1.0, "a": [word]}))

    assert await world.states(runs.values()) == [State.SUCCEEDED, State.RUNNING, State.RUNNING]
    done = await world.execution(runs["kept"])
    assert (done.result, done.started_at) == ('{"b":1.0,"a":["kept"]}', 77)


async def running(world: World) -> dict[ExecutionId, Context]:
    """The context of every execution that is ready, claimed by one worker."""
    claimed = await world.claimed(await world.worker())
    contexts = {}
    for nth, id in enumerate(claimed.ids):
        version = await world.version(claimed.job_versions[nth])
        attempt = Attempt(id, claimed.attempts[nth], 0, claimed.lease, world.now, version, claimed.payloads[nth], lambda: world.now, "w")
        attempt.started_at = 77
        contexts[id] = Context(attempt)
    return contexts


# ---------------------------------------------------------------- the calls


async def test_every_way_to_enqueue_is_there(connection: asyncpg.Connection, send_mail: Task[Any, Any], world: World) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    using = send_mail.using(connection)

    async with connection.transaction():
        first = await using.enqueue_in("5m", "in", ratio=1e22)
        second = await using.enqueue_at(tomorrow, word="at")
        many = await using.enqueue_many([{"word": "a"}, {"word": "b"}])
        none = await using.enqueue_many([])

    found = await executions(world)
    assert [execution.id for execution in found] == [parse_execution_id(run) for run in (first, second, *many)]
    assert none == []
    assert [execution.payload for execution in found] == ['{"word":"in","ratio":1e22}', '{"word":"at"}', '{"word":"a"}', '{"word":"b"}']
    assert found[0].due_at - found[0].created_at == 5 * MINUTE
    assert found[1].due_at == from_datetime(tomorrow)


async def test_an_open_result_set_of_the_user_s_cursor_is_left_alone(store_dsn: str, send_mail: Task[Any, Any]) -> None:
    def read() -> list[Any]:
        with psycopg.connect(store_dsn) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT generate_series(1, 3)")
            seen = [cursor.fetchone()]
            send_mail.using(cursor).enqueue("between")
            return seen + cursor.fetchall()

    assert await asyncio.to_thread(read) == [(1,), (2,), (3,)]


async def test_arguments_are_checked_against_the_signature(connection: asyncpg.Connection, send_mail: Task[Any, Any]) -> None:
    using = send_mail.using(connection)

    for wrong, code in (
        (lambda: using.enqueue(word=7), "DULY-E117"),
        (lambda: using.enqueue(), "DULY-E117"),
        (lambda: using.enqueue("a\0b"), "DULY-E110"),
        (lambda: using.enqueue_in("soon", "word"), "DULY-E104"),
        (lambda: using.enqueue_at(datetime(2026, 1, 1), "word"), "DULY-E105"),
        (lambda: using.enqueue_many([{"word": "a"}, {"name": "b"}]), "DULY-E117"),
    ):
        with pytest.raises(Invalid) as refused:
            wrong()
        assert refused.value.code == code


# ---------------------------------------------------------------- what cannot be used


@pytest.mark.parametrize("library", LIBRARIES)
async def test_a_database_without_duly_is_named(library: str, postgres_dsn: str) -> None:
    _, send_mail = declare("sqlite://:memory:")

    with pytest.raises(Unavailable) as refused:
        await play(library, postgres_dsn, lambda connection, word: send_mail.using(connection).enqueue(word))

    assert refused.value.code == "DULY-E503"
    assert "duly db upgrade" in str(refused.value)


@pytest.mark.parametrize("library", LIBRARIES)
async def test_a_job_that_nobody_published_is_named(library: str, store_dsn: str, app: App) -> None:
    @app.job
    def later(word: str) -> None: ...

    with pytest.raises(NotFound) as refused:
        await play(library, store_dsn, lambda connection, word: later.using(connection).enqueue(word))

    assert refused.value.code == "DULY-E204"
    assert "has no job 'later'" in refused.value.message
    assert "Publish it first" in str(refused.value.hint)


async def test_the_store_s_refusals_keep_their_kind(
    connection: asyncpg.Connection, app: App, send_mail: Task[Any, Any], world: World
) -> None:
    with pytest.raises(TooLarge) as refused:
        await send_mail.using(connection).enqueue("x" * 300_000)
    assert refused.value.code == "DULY-E109"

    job = await world.store.definitions.job_named(1, "send_mail")
    assert job is not None
    await world.cancel_job(job)
    with pytest.raises(Conflict) as cancelled:
        await send_mail.using(connection).enqueue("x")
    assert cancelled.value.code == "DULY-E210"


async def test_other_databases_and_other_things_are_refused(send_mail: Task[Any, Any]) -> None:
    found: list[DulyError] = []

    def refuse(connection: Any) -> None:
        with pytest.raises(Invalid) as refused:
            send_mail.using(connection).enqueue("word")
        found.append(refused.value)

    def in_a_thread() -> None:
        plain = sqlite3.connect(":memory:")
        refuse(plain)
        plain.close()
        engine = sa.create_engine("sqlite://")
        with engine.connect() as connection:
            refuse(connection)
        engine.dispose()
        refuse(django_database("sqlite3", ":memory:"))
        refuse(object())

    await asyncio.to_thread(in_a_thread)

    assert {error.code for error in found} == {"DULY-E131"}
    words = [error.message for error in found]
    assert "SQLite" in words[0]
    assert "sqlite" in words[1]
    assert "SQLite" in words[2]
    assert "builtins.object" in words[3]


async def test_errors_that_are_not_about_duly_stay_the_library_s_own(connection: asyncpg.Connection, send_mail: Task[Any, Any]) -> None:
    transaction = connection.transaction()
    await transaction.start()
    with pytest.raises(asyncpg.DivisionByZeroError):
        await connection.execute("SELECT 1 / 0")

    with pytest.raises(asyncpg.InFailedSQLTransactionError):
        await send_mail.using(connection).enqueue("word")

    await transaction.rollback()


def test_no_library_is_imported_for_the_looking() -> None:
    looks = """
import sys
from duly.sdk.drivers import line_to
try:
    line_to(object())
except Exception as error:
    print(error.code)
print(sorted(sys.modules.keys() & {"asyncpg", "psycopg", "sqlalchemy", "django"}))
"""
    done = subprocess.run([sys.executable, "-c", looks], capture_output=True, text=True, check=True)

    assert done.stdout.split("\n")[:2] == ["DULY-E131", "[]"]


# ---------------------------------------------------------------- completing


async def test_completing_needs_a_transaction(
    store_dsn: str, connection: asyncpg.Connection, send_mail: Task[Any, Any], world: World
) -> None:
    await send_mail.enqueue("word")
    [context] = (await running(world)).values()

    def autocommit() -> None:
        with psycopg.connect(store_dsn, autocommit=True) as plain, pytest.raises(Invalid, match="No transaction is open"):
            context.complete_with(plain)

    await asyncio.to_thread(autocommit)
    with pytest.raises(Invalid, match="No transaction is open") as refused:
        await context.complete_with(connection)

    assert refused.value.code == "DULY-E131"


@pytest.mark.parametrize("library", ["asyncpg connection", "psycopg connection"])
async def test_who_has_lost_the_lease_is_told(library: str, store_dsn: str, send_mail: Task[Any, Any], world: World) -> None:
    run = parse_execution_id(await send_mail.enqueue("word"))
    [context] = (await running(world)).values()
    world.turn(MINUTE)
    await world.lose()

    with pytest.raises(LeaseLost) as lost:
        await play(library, store_dsn, lambda connection, word: context.complete_with(connection))

    assert lost.value.code == "DULY-E241"
    assert await world.state(run) is State.SCHEDULED


async def test_a_result_that_cannot_be_stored_is_refused_before_anything_is_written(
    connection: asyncpg.Connection, world: World, send_mail: Task[Any, Any]
) -> None:
    await send_mail.enqueue("word")
    [context] = (await running(world)).values()

    async with connection.transaction():
        with pytest.raises(Invalid, match="not JSON"):
            await context.complete_with(connection, object())
        with pytest.raises(TooLarge):
            await context.complete_with(connection, "x" * (1 << 20))
        await context.complete_with(connection, "small")
