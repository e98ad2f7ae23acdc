"""The outbox on both engines: every change is noted once a herald is there, in order, whenever it commits; and nothing without one."""

from __future__ import annotations

import asyncpg
import pytest

from duly.adapters.sql.engine_postgres import SCHEMA, PostgresEngine
from duly.domain.events import Happened, event_of, type_of
from duly.domain.execution import Claimed
from duly.domain.ids import execution_text
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND
from duly.domain.lifecycle import Outcome
from duly.domain.retry import RetryPolicy
from tests.conformance.world import World

TTL = 15 * SECOND


async def told(world: World) -> list[Happened]:
    """What is in the outbox, which is emptied."""
    noted = await world.store.outbox.read(1000)
    await world.store.outbox.drop(noted.places)
    return list(noted.happened)


async def run_once(world: World, outcome: Outcome = Outcome.SUCCEEDED) -> Claimed:
    worker = await world.worker()
    claimed = await world.claimed(worker)
    await world.store.outcomes.finish(worker, await world.ended(claimed, outcome), [claimed.lease], world.now)
    return claimed


async def test_nothing_is_noted_before_somebody_publishes(world: World) -> None:
    await world.enqueue(await world.job(), 3)
    await run_once(world)

    assert await told(world) == []


async def test_the_life_of_an_execution_is_told_in_order(world: World) -> None:
    await world.store.outbox.take("me", world.now, TTL)
    job = await world.job("nightly")
    (run_id,) = await world.enqueue(job)
    first = await run_once(world, Outcome.FAILED)
    world.turn(HOUR)
    await world.promote()
    second = await run_once(world)

    events = [event_of(happened) for happened in await told(world)]

    assert [event["type"].removeprefix("execution.") for event in events] == ["created", "dispatched", "failed", "dispatched", "succeeded"]
    assert {event["executionId"] for event in events} == {execution_text(run_id)}
    assert {(event["job"], event["tenant"]) for event in events} == {("nightly", "default")}
    assert len({event["id"] for event in events}) == 5
    assert [event.get("fence") for event in events] == [None, first.lease, first.lease, second.lease, second.lease]
    assert [event.get("attempt") for event in events] == [None, 1, 1, 2, 2]
    assert (events[2]["outcome"], events[4]["state"]) == ("FAILED", "SUCCEEDED")
    assert events[2]["nextAttemptAt"] is not None
    assert await told(world) == []


async def test_a_dead_letter_and_a_cancelled_one_are_told(world: World) -> None:
    await world.store.outbox.take("me", world.now, TTL)
    job = await world.job(retry=RetryPolicy(max_attempts=1))
    await world.enqueue(job)
    await run_once(world, Outcome.FAILED)
    (waits,) = await world.enqueue(job, due_in=HOUR)
    await world.store.cancels.cancel(1, [waits], "ann", world.now)

    types = [type_of(happened) for happened in await told(world)]

    assert types.count("execution.dead") == 1
    assert types.count("execution.cancelled") == 1


async def test_a_batch_is_told_whole_and_by_bits(world: World) -> None:
    await world.store.outbox.take("me", world.now, TTL)
    ids = await world.enqueue(await world.job(), 30)
    await run_once(world)

    seen: list[Happened] = []
    while (noted := await world.store.outbox.read(1)).places:
        seen += noted.happened
        await world.store.outbox.drop(noted.places)

    for kind in ("created", "dispatched", "succeeded"):
        assert sorted(item.id for item in seen if type_of(item) == f"execution.{kind}") == sorted(ids)


async def test_what_was_not_dropped_is_read_again(world: World) -> None:
    await world.store.outbox.take("me", world.now, TTL)
    await world.enqueue(await world.job(), 2)

    assert await world.store.outbox.read(10) == await world.store.outbox.read(10)


async def test_one_publishes_at_a_time_and_another_when_he_is_gone(world: World) -> None:
    outbox = world.store.outbox

    assert await outbox.take("me", world.now, TTL)
    assert await outbox.take("me", world.now + SECOND, TTL)
    assert not await outbox.take("you", world.now + 2 * SECOND, TTL)
    assert await outbox.take("you", world.now + MINUTE, TTL)
    assert not await outbox.take("me", world.now + MINUTE, TTL)
    await outbox.leave("you")
    assert await outbox.take("me", world.now + MINUTE, TTL)


async def test_an_outbox_that_nobody_empties_is_closed(world: World) -> None:
    outbox = world.store.outbox
    await outbox.take("me", world.now, TTL)
    await world.enqueue(await world.job(), 2)

    assert not await outbox.lapse(world.now - DAY)
    assert len(await told(world)) == 2
    await world.enqueue(await world.job(), 2)
    assert await outbox.lapse(world.now + DAY)

    await world.enqueue(await world.job(), 2)
    assert await told(world) == []
    assert not await outbox.lapse(world.now + DAY)


async def test_what_commits_late_is_told_late_and_not_passed_over(postgres_store: str) -> None:
    world = World(PostgresEngine(postgres_store))
    await world.store.outbox.take("me", world.now, TTL)
    await world.job("transactional")
    slow = await asyncpg.connect(postgres_store, server_settings={"search_path": SCHEMA})
    transaction = slow.transaction()
    await transaction.start()
    late = await slow.fetchval("SELECT duly_enqueue('transactional', '{}'::jsonb)")
    (soon,) = await world.enqueue(await world.job())

    before = [happened.id for happened in await told(world)]
    await transaction.commit()
    after = [execution_text(happened.id) for happened in await told(world)]

    assert before == [soon]
    assert after == [late]
    await slow.close()
    await world.engine.close()


@pytest.mark.parametrize("days", [40])
async def test_what_retention_moves_is_no_news(postgres_store: str, days: int) -> None:
    world = World(PostgresEngine(postgres_store))
    await world.store.retention.prepare(world.now, DAY)
    await world.store.outbox.take("me", world.now, TTL)
    await world.enqueue(await world.job(), 1)
    await told(world)
    world.turn(days * DAY)

    while await world.store.retention.prune(world.now - 30 * DAY, world.now, 1000):
        pass

    assert await told(world) == []
    await world.engine.close()
