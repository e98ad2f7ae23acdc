"""What the pruner removes, and what it must keep."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from duly.adapters.sql.engine import Lane
from duly.domain.execution import LogLine
from duly.domain.instants import DAY, HOUR
from duly.domain.lifecycle import Outcome, State
from duly.ports.store import ExecutionFilter
from tests.conformance.ledger import raw
from tests.conformance.world import START, World

TODAY = START // DAY * DAY


@pytest.fixture
def postgres_store(migrated_dsn: str) -> str:
    """A database of its own: partitions are made and dropped."""
    return migrated_dsn


async def prune(world: World, before: int, limit: int = 2) -> int:
    """Prune until there is nothing left to do; answers in how many rounds."""
    rounds = 0
    while await world.store.retention.prune(before, world.now, limit):
        rounds += 1
        assert rounds < 50, "pruning does not end"
    return rounds


async def kept(world: World) -> set[UUID]:
    return {execution.id for execution in await world.store.insights.executions(ExecutionFilter(1, limit=1000))}


async def partitions(world: World) -> set[str]:
    rows = await raw(world.engine, "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r' AND relname NOT LIKE '%default'")
    return {row["relname"] for row in rows}


@pytest.fixture
async def old_world(request: pytest.FixtureRequest, world: World) -> World:
    """A world that has partitions for its days, or whose pruner came too late to make them."""
    if request.param == "partitioned":
        await world.store.retention.prepare(world.now, 3 * DAY)
    return world


everywhere = pytest.mark.parametrize(
    ("engine", "old_world"),
    [("sqlite", "whole"), ("sqlite-inline", "whole"), ("postgres", "partitioned"), ("postgres", "in the default partition")],
    indirect=True,
)


class TestPrune:
    @everywhere
    async def test_old_finished_executions_go_with_all_that_is_theirs(self, old_world: World) -> None:
        world = old_world
        job = await world.job()
        old = await world.enqueue(job, 5)
        worker = await world.worker(ttl=HOUR)
        claimed = await world.claimed(worker)
        await world.store.outcomes.append_logs(worker, [(claimed.lease, run_id, 1, LogLine(world.now, "INFO", "line")) for run_id in old])
        await world.cancel(old[0])
        await world.finish(worker, claimed, Outcome.CANCELLED)
        world.turn(2 * DAY)
        new = await world.enqueue(job, 2)
        await world.run()

        assert await prune(world, world.now - DAY) > 0

        assert await kept(world) == set(new)
        for table in ("logs", "attempts", "cancels"):
            assert await raw(world.engine, f"SELECT id FROM {table}") == []

    @everywhere
    async def test_whatever_is_not_final_stays_however_old(self, old_world: World) -> None:
        world = old_world
        job = await world.job()
        later, ready = await world.enqueue(job, due_in=100 * DAY), await world.enqueue(job)
        await world.run(Outcome.FAILED)
        retrying, ready = ready, await world.enqueue(job)
        worker = await world.worker(ttl=100 * DAY)
        running = (await world.claimed(worker)).ids
        ready = await world.enqueue(job)
        world.turn(50 * DAY)

        await prune(world, world.now - DAY)

        live = {*later, *retrying, *running, *ready}
        assert await kept(world) == live
        assert await world.outcomes_of(retrying[0]) == [Outcome.FAILED]
        await world.promote()
        assert set(await world.run()) == {*ready, *retrying}

    @everywhere
    async def test_what_survived_its_day_can_still_finish_and_go(self, old_world: World) -> None:
        world = old_world
        (run_id,) = await world.enqueue(await world.job())
        worker = await world.worker(ttl=100 * DAY)
        claimed = await world.claimed(worker)
        world.turn(10 * DAY)
        await prune(world, world.now - DAY)

        assert await world.finish(worker, claimed) == set()

        assert await world.state(run_id) is State.SUCCEEDED
        world.turn(10 * DAY)
        await prune(world, world.now - DAY)
        assert await kept(world) == set()

    @everywhere
    async def test_what_ended_lately_stays_however_old_it_is(self, old_world: World) -> None:
        world = old_world
        (run_id,) = await world.enqueue(await world.job(), due_in=20 * DAY)
        world.turn(20 * DAY)
        await world.promote()
        await world.run(Outcome.FAILED)
        world.turn(HOUR)
        await world.promote()
        await world.run()

        await prune(world, world.now - DAY)

        assert await world.state(run_id) is State.SUCCEEDED
        assert await world.outcomes_of(run_id) == [Outcome.FAILED, Outcome.SUCCEEDED]
        world.turn(2 * DAY)
        await prune(world, world.now - DAY)
        assert await kept(world) == set()

    @everywhere
    async def test_pruning_nothing_is_done_at_once(self, old_world: World) -> None:
        world = old_world
        ids = await world.enqueue(await world.job(), 2)
        await world.run()

        assert await prune(world, START - DAY) == 0

        assert await kept(world) == set(ids)

    async def test_expired_idempotency_keys_go(self, world: World) -> None:
        job = await world.job()
        for nth, lasts in enumerate((HOUR, 3 * DAY)):
            await world.store.intake.enqueue_once(1, world.new_executions(job, 1), world.key(f"key-{nth}", lasts=lasts), world.now)
        world.turn(HOUR)

        await prune(world, world.now - DAY)

        assert [row["key"] for row in await raw(world.engine, "SELECT key FROM idempotency")] == ["key-1"]

    async def test_workers_long_lost_go_unless_they_hold_something(self, world: World) -> None:
        await world.enqueue(await world.job())
        holder, gone = await world.worker(), await world.worker()
        await world.claimed(holder)
        await world.store.losses.bury_workers(world.now + HOUR)
        world.turn(3 * DAY)

        await prune(world, world.now - DAY)

        assert [row["id"] for row in await raw(world.engine, "SELECT id FROM workers")] == [holder]
        assert gone != holder

    @everywhere
    async def test_concurrent_pruners_do_no_harm(self, old_world: World) -> None:
        world = old_world
        job = await world.job()
        await world.enqueue(job, 20)
        await world.run()
        live = await world.enqueue(job)
        world.turn(10 * DAY)

        await asyncio.gather(*(prune(world, world.now - DAY) for _ in range(3)))

        assert await kept(world) == set(live)


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
class TestPartitions:
    async def test_days_ahead_are_made_once(self, world: World) -> None:
        assert await world.store.retention.prepare(world.now, 2 * DAY) == 12

        assert await world.store.retention.prepare(world.now, 2 * DAY) == 0
        assert await world.store.retention.prepare(world.now, 3 * DAY) == 4
        assert "executions_20241004" in await partitions(world)

    async def test_rows_land_in_the_partition_of_their_day(self, world: World) -> None:
        await world.store.retention.prepare(world.now, DAY)

        await world.enqueue(await world.job(), 2)
        await world.run()

        assert (await raw(world.engine, "SELECT count(*) AS n FROM executions_20241004"))[0]["n"] == 2
        assert (await raw(world.engine, "SELECT count(*) AS n FROM outcomes_default"))[0]["n"] == 0

    async def test_a_day_that_has_begun_in_the_default_partition_stays_there_as_a_whole(self, world: World) -> None:
        await world.enqueue(await world.job(), 2)
        await world.run()

        assert await world.store.retention.prepare(world.now, 0) == 0

        assert await partitions(world) == set()

    async def test_days_behind_are_dropped_one_by_one(self, world: World) -> None:
        await world.store.retention.prepare(world.now, 3 * DAY)

        assert await prune(world, TODAY + 2 * DAY) == 2

        assert {name.rsplit("_")[-1] for name in await partitions(world)} == {"20241006", "20241007"}

    async def test_days_are_dropped_though_keys_run_out_all_the_time(self, world: World) -> None:
        await world.store.retention.prepare(world.now, 3 * DAY)
        job = await world.job()
        await world.store.intake.enqueue_once(1, world.new_executions(job, 1), world.key("key", lasts=1), world.now)
        before = await partitions(world)

        await world.store.retention.prune(TODAY + 2 * DAY, world.now + 2, 100)

        assert await raw(world.engine, "SELECT key FROM idempotency") == []
        assert await partitions(world) < before

    async def test_concurrent_preparations_make_each_once(self, world: World) -> None:
        made = await asyncio.gather(*(world.store.retention.prepare(world.now, 2 * DAY) for _ in range(3)))

        assert sum(made) == 12

    async def test_a_reader_of_the_history_is_waited_for_by_nobody(self, world: World) -> None:
        await world.store.retention.prepare(world.now, 3 * DAY)
        engine = world.engine

        async with engine._pools[Lane.GENERAL].connection() as reader, reader.transaction():
            await reader.fetch("SELECT count(*) FROM executions")
            async with asyncio.timeout(30):
                dropped = await world.store.retention.prune(TODAY + 2 * DAY, world.now, 100)
                await world.enqueue(await world.job())

        assert dropped == 0
        assert await world.store.retention.prune(TODAY + 2 * DAY, world.now, 100) == 1

    async def test_lines_stand_in_their_day_and_go_with_it_but_for_those_of_what_stays(self, world: World) -> None:
        await world.store.retention.prepare(world.now, DAY)
        job = await world.job()
        ids = await world.enqueue(job, 2)
        worker = await world.worker()
        for claimed in [await world.claimed(worker, 1) for _ in ids]:
            lines = [(claimed.lease, id, 1, LogLine(world.now, "info", "line")) for id in claimed.ids]
            await world.store.outcomes.append_logs(worker, lines)
            if claimed.ids == ids[:1]:
                await world.finish(worker, claimed)
        before = await raw(world.engine, "SELECT tableoid::regclass::text AS place FROM logs")

        world.turn(40 * DAY)
        await prune(world, world.now - 30 * DAY, limit=100)

        after = await raw(world.engine, "SELECT id, tableoid::regclass::text AS place FROM logs")
        assert {row["place"].rpartition("_")[0] for row in before} == {"logs"}
        assert not any("default" in row["place"] for row in before)
        assert [(row["id"], row["place"]) for row in after] == [(ids[1], "logs_default")]
        assert [line.message for _, _, line in await world.store.insights.logs(ids[1], None, 0, 10)] == ["line"]
