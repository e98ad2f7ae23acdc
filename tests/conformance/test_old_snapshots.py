"""Somebody's transaction stays open for long: what goes meanwhile cannot be cleaned away, and must not be in anybody's way."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from duly.adapters.sql.engine import Lane
from duly.adapters.sql.engine_postgres import SCHEMA, PostgresEngine
from duly.adapters.sql.engine_sqlite import LARGEST_LOG, SqliteEngine
from duly.adapters.sql.migrate import upgrade
from duly.adapters.sql.postgres.look_back import BACK, EVER, LookBack
from duly.adapters.sql.postgres.sweep import CROWDED
from duly.domain.instants import HOUR
from duly.domain.job import Job
from duly.domain.lifecycle import State
from duly.domain.shards import SHARDS
from duly.verify.recording import install_postgres
from tests.conformance.ledger import raw
from tests.conformance.test_plans import Explainer, captured
from tests.conformance.world import START, World

CLAIMED = 20_000
MIB = 1 << 20


@pytest.fixture
async def world(migrated_dsn: str) -> AsyncIterator[World]:
    """A store of its own: its queue gets dead rows by the thousand."""
    engine = PostgresEngine(migrated_dsn)
    yield World(engine)
    await engine.close()


@asynccontextmanager
async def open_transaction(world: World, look: str) -> AsyncIterator[None]:
    connection = await asyncpg.connect(world.engine.dsn, server_settings={"search_path": SCHEMA})
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            await connection.fetch(look)
            yield
    finally:
        await connection.close()


async def churn(world: World, job: Job, rows: int = CLAIMED) -> None:
    """As many as that came and were claimed: their rows are dead, and known to be."""
    row = f"{job.version.route}, 1, {START} - {rows} + n, md5('churn' || n)::uuid, 1, 0"
    async with world.engine._pools[Lane.GENERAL].connection() as connection:
        await connection.execute(f"INSERT INTO ready SELECT {row} FROM generate_series(1, {rows}) n")
        # Thousands are joined with thousands, which no read of the product does.
        await connection.execute(
            f"""BEGIN; SET LOCAL enable_hashjoin = on;
                DELETE FROM ready WHERE rank <= {START} AND id IN (SELECT md5('churn' || n)::uuid FROM generate_series(1, {rows}) n);
                COMMIT"""
        )
        await connection.execute("SELECT pg_stat_force_next_flush()")
        await connection.execute("SELECT 1")


async def pages_of_a_claim(world: World, job: Job, explainer: Explainer) -> int:
    worker = await world.worker(ttl=HOUR)
    plan = await explainer.plan(*(await captured(world.engine, lambda: world.claim(worker, 10, of=[job]))))
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def sweep(world: World) -> Any:
    return await world.store.losses.unstick(world.now, 100)


async def test_the_log_of_sqlite_is_cut_again_when_an_old_reader_has_gone(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    engine = SqliteEngine(str(path))
    await upgrade(engine)
    await engine.script("CREATE TABLE bulk (content BLOB);")
    log = Path(f"{path}-wal")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM bulk").fetchall()
        for _ in range(2 * LARGEST_LOG // MIB):
            await raw(engine, f"INSERT INTO bulk VALUES (zeroblob({MIB}))")
        assert log.stat().st_size > 2 * LARGEST_LOG

    # The next commit moves the log's content to the file, the one after it starts the log anew.
    for _ in range(3):
        await raw(engine, "INSERT INTO bulk VALUES (zeroblob(1))")

    assert log.stat().st_size <= LARGEST_LOG
    await engine.close()


async def test_a_claim_does_not_walk_past_all_that_was_claimed_since_an_old_snapshot(world: World) -> None:
    job = await world.job()
    explainer = Explainer(world.engine)
    waiting = await world.enqueue(job, 5)
    async with open_transaction(world, "SELECT count(*) FROM tenants"):
        await churn(world, job)
        crowded = await pages_of_a_claim(world, job, explainer)

        await sweep(world)

        assert crowded > 300
        assert await pages_of_a_claim(world, job, explainer) < 100
        assert await world.states(waiting) == [State.PENDING] * 5
        assert (await world.claimed(await world.worker(), of=[job])).ids == waiting


async def test_what_moves_with_its_queue_does_not_become_ready_again(world: World) -> None:
    await install_postgres(world.engine.dsn)
    job = await world.job()
    waiting = await world.enqueue(job, 3)
    before = await raw(world.engine, "SELECT pg_relation_filenode('ready') AS file")

    await world.engine.fetch("renew_queue", {})

    assert await raw(world.engine, "SELECT pg_relation_filenode('ready') AS file") != before
    assert await world.states(waiting) == [State.PENDING] * 3
    assert (await raw(world.engine, "SELECT count(*) AS n FROM verify_events WHERE kind = 'run.ready'"))[0]["n"] == 3


async def test_a_queue_that_is_long_beside_what_is_dead_stays_where_it_is(world: World) -> None:
    job = await world.job()
    waiting = await world.enqueue(job, CLAIMED // 4 + 100)
    async with open_transaction(world, "SELECT count(*) FROM tenants"):
        await churn(world, job)
        before = await raw(world.engine, "SELECT pg_relation_filenode('ready') AS file")

        await sweep(world)
        await world.engine.fetch("renew_queue", {})

        assert await raw(world.engine, "SELECT pg_relation_filenode('ready') AS file") == before
    assert len((await world.claimed(await world.worker(), CLAIMED, of=[job])).ids) == len(waiting)


async def test_a_queue_that_became_long_because_its_claims_became_slow_moves(world: World) -> None:
    job = await world.job()
    waiting = await world.enqueue(job, 3_000)
    async with open_transaction(world, "SELECT count(*) FROM tenants"):
        await churn(world, job)
        before = await raw(world.engine, "SELECT pg_relation_filenode('ready') AS file")

        await sweep(world)

        assert await raw(world.engine, "SELECT pg_relation_filenode('ready') AS file") != before
    assert len((await world.claimed(await world.worker(), CLAIMED, of=[job])).ids) == len(waiting)


async def test_nobody_takes_the_lock_for_a_queue_that_is_too_long_to_move(world: World) -> None:
    job = await world.job()
    async with open_transaction(world, "SELECT count(*) FROM tenants"):
        async with world.engine._pools[Lane.GENERAL].connection() as connection:
            row = f"{job.version.route}, 1, {START} + n, md5('waits' || n)::uuid, 1, 0"
            await connection.execute(f"INSERT INTO ready SELECT {row} FROM generate_series(1, 51000) n")
        await churn(world, job, 220_000)

        [found] = await world.engine.fetch("dead_in_queue", CROWDED)

    assert not found["crowded"]


async def test_the_more_is_dead_the_longer_the_lock_is_waited_for(world: World) -> None:
    job = await world.job()
    await world.enqueue(job, 5)
    async with open_transaction(world, "SELECT count(*) FROM tenants"):
        await churn(world, job, 40_000)
        before = await raw(world.engine, "SELECT pg_relation_filenode('ready') AS file")
        async with world.engine._pools[Lane.GENERAL].connection() as claim:
            # A claim that takes 150 ms, as they do past that many.
            await claim.execute("BEGIN; LOCK TABLE ready IN ROW EXCLUSIVE MODE")
            renewed = asyncio.create_task(sweep(world))
            await claim.execute("SELECT pg_sleep(0.15); COMMIT")
            await renewed

        assert await raw(world.engine, "SELECT pg_relation_filenode('ready') AS file") != before


async def test_nobody_waits_for_long_behind_a_reader_of_the_queue(world: World) -> None:
    job = await world.job()
    waiting = await world.enqueue(job, 5)
    async with open_transaction(world, "SELECT count(*) FROM ready"):
        await churn(world, job)

        async with asyncio.timeout(30):
            await asyncio.gather(sweep(world), *(world.enqueue(job) for _ in range(5)))

        assert len((await world.claimed(await world.worker(), of=[job])).ids) == len(waiting) + 5


async def test_a_claim_and_an_enqueue_beside_the_sweep_lose_nothing(world: World) -> None:
    job = await world.job()
    worker = await world.worker(ttl=HOUR)
    enqueued: list[Any] = []
    claimed: list[Any] = []
    async with open_transaction(world, "SELECT count(*) FROM tenants"):
        await churn(world, job)

        async def renew() -> None:
            for _ in range(20):
                await world.engine.fetch("renew_queue", {})

        async def enqueue() -> None:
            for _ in range(60):
                enqueued.extend(await world.enqueue(job, 3))

        async def claim() -> None:
            for _ in range(60):
                found = await world.claim(worker, 4, of=[job])
                claimed.extend(found.ids if found else ())

        await asyncio.gather(renew(), enqueue(), enqueue(), claim(), claim())
        while found := await world.claim(worker, 1000, of=[job]):
            claimed.extend(found.ids)

    assert sorted(claimed, key=lambda id: id.int) == sorted(enqueued, key=lambda id: id.int)


# ------------------------------------------------------------ what is due


class Looks:
    """A look back with a clock turned by hand, and how far back each look went."""

    def __init__(self, world: World) -> None:
        self.at = 0.0
        self.whole_takes = 0.0
        self.since: list[int] = []
        self._world = world
        self._back = LookBack(world.engine, "schedules", lambda: self.at)

    async def due(self) -> list[Any]:
        async def look(since: int) -> Any:
            self.since.append(since)
            self.at += self.whole_takes if since == EVER else 0.0
            params = {"shards": list(range(SHARDS)), "since": since, "now": self._world.now, "quota": 10}
            return await self._world.engine.fetch("due_schedules", params, Lane.CLAIM)

        return [row["job_id"] for row in await self._back.look(look, len, self._world.now)]


async def advance_often(world: World, rounds: int = 20_000) -> None:
    """Schedules that came due and were advanced, as often as that; dead rows, and known to be."""
    async with world.engine._pools[Lane.GENERAL].connection() as connection:
        row = f"md5('job' || n)::uuid, n % {SHARDS}, {START} - {HOUR} + n, 1"
        await connection.execute(f"INSERT INTO schedules SELECT {row} FROM generate_series(1, {rounds}) n")
        await connection.execute(f"DELETE FROM schedules WHERE next_fire_at <= {START} - {HOUR} + {rounds}")
        await connection.execute("SELECT pg_stat_force_next_flush()")
        await connection.execute("SELECT 1")


async def test_the_longer_a_look_at_the_whole_takes_the_more_seldom_it_is_done(world: World) -> None:
    looks = Looks(world)
    looks.whole_takes = 0.5
    async with open_transaction(world, "SELECT count(*) FROM tenants"):
        await advance_often(world)

        while looks.at < 60:
            await looks.due()
            looks.at += 0.25

    assert 4 <= looks.since.count(EVER) <= 60 / (20 * looks.whole_takes) + 1


async def test_a_look_for_what_is_due_does_not_walk_past_all_that_was_due_since_an_old_snapshot(world: World) -> None:
    job = await world.job(every=HOUR, anchor=START)
    explainer = Explainer(world.engine)
    looks = Looks(world)
    async with open_transaction(world, "SELECT count(*) FROM tenants"):
        await advance_often(world)

        assert await looks.due() == [job.id]
        looks.at += 0.1
        await raw(world.engine, f"UPDATE schedules SET next_fire_at = {START + HOUR}")
        assert await looks.due() == []
        looks.at += 0.1
        assert await looks.due() == []

        assert looks.since == [EVER, EVER, START - BACK]
        pages = []
        for since in (EVER, START - BACK):
            params = {"shards": list(range(SHARDS)), "since": since, "now": START, "quota": 10}
            plan = await explainer.plan("due_schedules", params, Lane.CLAIM)
            pages.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
        assert pages[0] > 500
        assert pages[1] < 200


async def test_what_is_overdue_is_found_all_the_same(world: World) -> None:
    looks = Looks(world)
    async with open_transaction(world, "SELECT count(*) FROM tenants"):
        await advance_often(world)
        assert await looks.due() == []
        late = await world.job(every=HOUR, anchor=START)
        await raw(world.engine, f"UPDATE schedules SET next_fire_at = {START - HOUR}")

        looks.at += 0.5
        assert await looks.due() == []
        looks.at += 0.5
        assert await looks.due() == [late.id]


async def test_what_is_overdue_is_found_however_much_is_due(world: World) -> None:
    looks = Looks(world)
    async with open_transaction(world, "SELECT count(*) FROM tenants"):
        await advance_often(world)
        assert await looks.due() == []
        punctual, late = await world.jobs(2, every=HOUR, anchor=START)
        await raw(world.engine, f"UPDATE schedules SET next_fire_at = {START - HOUR} WHERE job_id = '{late.id}'")

        found = []
        for _ in range(6):
            looks.at += 1.0
            found.append(await looks.due())

        assert found[:4] == [[punctual.id]] * 4
        assert set(found[5]) == {punctual.id, late.id}


async def test_a_table_that_is_clean_is_always_looked_at_as_a_whole(world: World) -> None:
    looks = Looks(world)

    for _ in range(5):
        looks.at += 0.01
        await looks.due()

    assert looks.since == [EVER] * 5
