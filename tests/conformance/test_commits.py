"""What a commit promises: nobody is answered before it, and time goes on inside it."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from typing import Any

import asyncpg
import pytest

from duly.adapters.sql.engine_postgres import SCHEMA, PostgresEngine
from duly.adapters.sql.engine_sqlite import SqliteEngine
from duly.adapters.sql.migrate import upgrade
from duly.adapters.sql.statements import statements
from duly.domain.errors import Unavailable
from duly.domain.instants import HOUR, SECOND
from duly.domain.overlap import OverlapPolicy
from tests.conformance.test_model import FaultyInline
from tests.conformance.test_plans import captured
from tests.conformance.world import START, World


class Held(sqlite3.Connection):
    """A connection whose next COMMIT waits until it is let go, and is then refused as on a full disk."""

    armed = False
    reached = threading.Event()
    let_go = threading.Event()

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if sql == "COMMIT" and Held.armed:
            Held.armed = False
            Held.reached.set()
            assert Held.let_go.wait(30)
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return super().execute(sql, *args)


async def test_nobody_is_answered_before_the_commit(sqlite_path: str, monkeypatch: Any) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: connect(*args, **options | {"factory": Held}))
    engine = SqliteEngine(sqlite_path)
    world = World(engine)
    job = await world.job()
    Held.armed = True

    asking = asyncio.create_task(world.store.intake.enqueue(world.new_executions(job, 1), world.now))
    await asyncio.to_thread(Held.reached.wait, 30)
    for _ in range(20):
        await asyncio.sleep(0)
    was_answered = asking.done()
    Held.let_go.set()
    (answer,) = await asyncio.gather(asking, return_exceptions=True)

    assert not was_answered
    assert isinstance(answer, Exception)
    assert await world.of_job(job) == []
    await engine.close()


@pytest.mark.parametrize("nth", range(4))
async def test_a_fire_is_written_with_the_move_of_its_schedule_or_not_at_all(nth: int) -> None:
    engine = FaultyInline()
    await upgrade(engine)
    world = World(engine)
    job = await world.job(every=HOUR)
    await world.own_shards()
    firing = await world.decide()

    engine.arm(nth, False)
    with contextlib.suppress(Unavailable):
        await world.fire(firing)
    engine.disarm()

    has_moved = (await world.read(job.id)).next_fire_at != START
    assert len(await world.of_job(job)) == int(has_moved)
    await engine.close()


async def test_a_long_transaction_reads_the_clock_and_not_its_own_beginning(migrated_dsn: str) -> None:
    connection = await asyncpg.connect(migrated_dsn, server_settings={"search_path": SCHEMA})
    async with connection.transaction():
        first = await connection.fetchval("SELECT duly_now()")

        later = await connection.fetchval("SELECT duly_now()")

    await connection.close()
    assert later > first


@pytest.mark.parametrize(("what", "waits"), [("timer", False), ("cancelled", True), ("fire", False), ("skipped", True)])
async def test_a_dispatcher_waits_for_the_disk_only_for_what_is_final(migrated_dsn: str, what: str, waits: bool) -> None:
    """What a crash takes back of the rest is done again to the same end, and whoever claims it waits for both."""
    engine = PostgresEngine(migrated_dsn)
    world = World(engine)
    await world.own_shards()
    job = await world.job(every=HOUR, overlap=OverlapPolicy.SKIP)
    if what in ("timer", "cancelled"):
        (id,) = await world.enqueue(job, due_in=SECOND)
        world.turn(2 * SECOND)
        if what == "cancelled":
            await world.wish(id)
        name, params, _ = await captured(engine, world.promote)
    else:
        if what == "skipped":
            await world.fire()
            world.turn(HOUR)
        firing = await world.decide()
        name, params, _ = await captured(engine, lambda: world.fire(firing))
    statement = statements("postgres")[name]
    connection = await asyncpg.connect(migrated_dsn, server_settings={"search_path": SCHEMA, "plan_cache_mode": "force_generic_plan"})
    async with connection.transaction():
        (row,) = await connection.fetch(statement.text, *(params[each] for each in statement.names))
        setting = await connection.fetchval("SHOW synchronous_commit")
    afterwards = await connection.fetchval("SHOW synchronous_commit")
    await connection.close()
    await engine.close()

    assert row["moved" if name == "promote" else "fired"] == 1
    assert row["cancelled" if name == "promote" else "skipped"] == int(waits)
    assert (setting, afterwards) == ("on" if waits else "off", "on")
