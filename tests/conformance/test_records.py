"""Finished executions for analysts, on both engines: none is passed over, whenever it commits, and nothing is noted without an exporter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import asyncpg
import pytest

from duly.adapters.sql.engine_postgres import SCHEMA, PostgresEngine
from duly.domain.errors import Unavailable
from duly.domain.ids import ExecutionId, execution_text, id_floor
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND
from duly.domain.lifecycle import Outcome, State
from duly.domain.records import Record
from duly.domain.retry import RetryPolicy
from duly.roles.exporter import Exporter, ExporterSettings, Lapse, LapseSettings
from tests.conformance.world import World

TTL = 30 * SECOND


@dataclass
class Kept:
    """A sink in memory that counts how often it was told."""

    records: list[Record] = field(default_factory=list)
    away: bool = False

    async def prepare(self) -> None:
        pass

    async def write(self, records: Sequence[Record]) -> None:
        if self.away:
            raise Unavailable("DULY-E501", "away")
        self.records += records

    async def close(self) -> None:
        pass

    @property
    def ids(self) -> list[ExecutionId]:
        return [record.id for record in self.records]


def exporter(world: World, sink: Kept, name: str = "me", batch: int = 100) -> Exporter:
    return Exporter(name, world.store.records, sink, ExporterSettings(batch=batch))


async def ran(world: World, count: int = 1, outcome: Outcome = Outcome.SUCCEEDED, **job: object) -> list[ExecutionId]:
    ids = await world.enqueue(await world.job(**job), count)
    await world.run(outcome)
    return ids


async def test_nothing_is_noted_before_somebody_exports(world: World) -> None:
    await ran(world, 3)

    assert (await world.store.records.unexported(100)).places == []


async def test_what_had_ended_and_what_ends_is_exported(world: World) -> None:
    sink = Kept()
    role = exporter(world, sink)
    before = await ran(world, 3)

    await role.step(world.now)
    after = await ran(world, 2)
    await role.step(world.now)

    assert sink.ids == [*before, *after]
    assert (await role.step(world.now)).did == {"exported": 0, "history": 0}


async def test_the_history_is_walked_through_by_bits_and_taken_up_again(world: World) -> None:
    ids = await ran(world, 7)
    first, second = Kept(), Kept()
    one = exporter(world, first, "one", batch=3)

    assert (await one.step(world.now)).wait == 0.0
    await one.stop()
    two = exporter(world, second, "two", batch=3)
    while (await two.step(world.now)).did["history"]:
        pass

    assert first.ids == ids[:3]
    assert second.ids == ids[3:]


async def test_what_the_sink_did_not_keep_is_exported_again(world: World) -> None:
    sink = Kept()
    role = exporter(world, sink)
    await role.step(world.now)
    ids = await ran(world, 2)

    sink.away = True
    with pytest.raises(Unavailable):
        await role.step(world.now)
    sink.away = False
    await role.step(world.now)

    assert sink.ids == ids


async def test_one_exports_at_a_time_and_another_when_he_is_gone(world: World) -> None:
    records = world.store.records

    assert await records.take("me", world.now, TTL)
    assert await records.take("me", world.now + SECOND, TTL)
    assert not await records.take("you", world.now + 2 * SECOND, TTL)
    assert await records.take("you", world.now + MINUTE, TTL)
    await records.leave("you")
    assert await records.take("me", world.now + MINUTE, TTL)


async def test_who_comes_back_after_a_lapse_begins_with_the_whole_history(world: World) -> None:
    sink = Kept()
    role = exporter(world, sink)
    old = await ran(world, 2)
    await role.step(world.now)
    lapse = Lapse(world.store.records, LapseSettings(patience=7 * DAY))

    assert (await lapse.step(world.now + DAY)).did == {"lapsed": 0}
    await ran(world)
    assert (await lapse.step(world.now + 8 * DAY)).did == {"lapsed": 1}
    assert (await world.store.records.unexported(100)).places == []
    unseen = await ran(world, 1)
    again = Kept()
    await exporter(world, again, "later").step(world.now)

    assert sink.ids == old
    assert set(again.ids) >= {*old, *unseen}
    assert len(again.ids) == 4


async def test_a_record_says_what_became_of_the_execution(world: World) -> None:
    job = await world.job("nightly", retry=RetryPolicy(max_attempts=3, initial_delay=10 * SECOND, jitter=0.0))
    sink = Kept()
    role = exporter(world, sink)
    await role.step(world.now)
    await world.enqueue(job)
    due = world.now
    world.turn(3 * SECOND)
    await world.run(Outcome.FAILED)
    world.turn(HOUR)
    await world.promote()
    worker = await world.worker()
    claimed = await world.claimed(worker)
    began = world.now
    world.turn(2 * SECOND)
    await world.finish(worker, claimed, started_at=began)

    await role.step(world.now)

    (record,) = sink.records
    assert (record.tenant, record.job, record.pool, record.handler) == ("default", "nightly", "default", "noop")
    assert (record.state, record.attempts, record.failed, record.lost) == (State.SUCCEEDED, 2, 1, 0)
    assert (record.due_at, record.started_at, record.finished_at) == (due, began, world.now)
    assert (record.lateness_ms, record.run_ms) == (3_000, 2_000)
    assert record.wait_ms == (began - due - 3 * SECOND - 10 * SECOND) / 1000
    assert record.error_message == "failed"


async def test_skipped_cancelled_and_dead_ones_are_records_too(world: World) -> None:
    sink = Kept()
    role = exporter(world, sink)
    await role.step(world.now)
    await ran(world, 1, Outcome.FAILED, retry=RetryPolicy(max_attempts=1))
    (waiting,) = await world.enqueue(await world.job(), due_in=HOUR)
    await world.cancel(waiting)

    await role.step(world.now)

    assert {(record.state, record.attempts) for record in sink.records} == {(State.DEAD, 1), (State.CANCELLED, 0)}


async def test_a_tenant_s_stretch_has_nobody_else_s(world: World) -> None:
    other = await world.add_tenant(7)
    mine, theirs = await world.job(), await world.job(tenant=other)
    ids = await world.enqueue(mine, 3)
    await world.enqueue(theirs, 4)
    await world.run()
    await world.enqueue(mine, 1, due_in=HOUR)
    first, last = id_floor(world.now - DAY), id_floor(world.now + DAY)

    whole = await world.store.records.stretch(1, first, last, 100)
    counted = await world.store.records.stretch(other, first, last, 100, counted_only=True)
    part = await world.store.records.stretch(1, first, last, 2)
    outside = await world.store.records.stretch(1, last, id_floor(world.now + 2 * DAY), 100)

    assert [record.id for record in whole.records] == ids
    assert (whole.finished, whole.unfinished, whole.reached) == (3, 1, None)
    assert (counted.records, counted.finished, counted.unfinished) == ([], 4, 0)
    assert part.reached == ids[1]
    assert (outside.records, outside.reached) == ([], None)


async def test_what_commits_late_is_exported_late_and_not_passed_over(postgres_store: str) -> None:
    """An old id whose end commits after later ones were exported: a cursor along ids or times would never see it."""
    world = World(PostgresEngine(postgres_store))
    sink = Kept()
    role = exporter(world, sink)
    await role.step(world.now)
    job = await world.job()
    (late,) = await world.enqueue(job)
    worker = await world.worker()
    claimed = await world.claimed(worker)
    slow = await asyncpg.connect(postgres_store, server_settings={"search_path": SCHEMA})
    transaction = slow.transaction()
    await transaction.start()
    await slow.fetchval("SELECT duly_complete($1, $2)", claimed.lease, execution_text(late))
    world.turn(HOUR)
    (soon,) = await ran(world)

    await role.step(world.now)
    before = sink.ids
    await transaction.commit()
    await role.step(world.now)

    assert before == [soon]
    assert sink.ids == [soon, late]
    await slow.close()
    await world.engine.close()


async def test_an_end_that_is_being_written_when_the_exporter_comes_is_not_passed_over(postgres_store: str) -> None:
    """Noting waits for whoever writes an outcome at that moment: until he has committed, no walk begins."""
    world = World(PostgresEngine(postgres_store))
    (late,) = await world.enqueue(await world.job())
    claimed = await world.claimed(await world.worker())
    slow = await asyncpg.connect(postgres_store, server_settings={"search_path": SCHEMA})
    transaction = slow.transaction()
    await transaction.start()
    await slow.fetchval("SELECT duly_complete($1, $2)", claimed.lease, execution_text(late))
    sink = Kept()
    role = exporter(world, sink)

    await role.step(world.now)
    before = sink.ids
    await transaction.commit()
    await role.step(world.now)

    assert before == []
    assert sink.ids == [late]
    await slow.close()
    await world.engine.close()


async def test_what_retention_moves_is_no_news(postgres_store: str) -> None:
    world = World(PostgresEngine(postgres_store))
    await world.store.retention.prepare(world.now, DAY)
    await world.store.records.take("me", world.now, TTL)
    (waiting,) = await world.enqueue(await world.job(), due_in=35 * DAY)
    world.turn(35 * DAY)
    await world.cancel(waiting)
    await world.store.records.drop((await world.store.records.unexported(10)).places)
    world.turn(5 * DAY)

    while await world.store.retention.prune(world.now - 30 * DAY, world.now, 1000):
        pass

    assert (await world.execution(waiting)).state is State.CANCELLED
    assert (await world.store.records.unexported(10)).places == []
    await world.engine.close()
