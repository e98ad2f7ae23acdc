"""One call for several executions: each keeps its own attempt, outcome and cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from duly.domain.lifecycle import Outcome, State
from duly.ports.endings import GiveUp, Snooze
from duly.ports.handlers import Attempt, Handler
from tests.roles.conftest import World, run_until_idle


def handle(world: World, function: Any, batch: int = 10) -> None:
    async def single(attempt: Attempt) -> Any:
        raise AssertionError("a batch is not run one by one")

    world.registry.add(Handler("work", single, run_many=function, batch=batch))


async def states(world: World, ids: Sequence[Any]) -> list[State]:
    return [(await world.show(id)).state for id in ids]


async def test_what_was_claimed_together_is_one_call_up_to_its_size(world: World) -> None:
    calls: list[list[Any]] = []

    async def doubles(attempts: Sequence[Attempt]) -> list[int]:
        calls.append([attempt.payload for attempt in attempts])
        return [attempt.payload * 2 for attempt in attempts]

    handle(world, doubles, batch=4)
    job = await world.create(batch=4)
    ids = [(await world.enqueue(job, payload=str(n)))[0] for n in range(10)]

    # Two slots take two batches.
    worker = await world.worker(slots=2)
    await worker.step(world.clock.now())
    await asyncio.sleep(0)
    assert sorted(len(call) for call in calls) == [4, 4]
    await run_until_idle(worker, world.clock)

    assert [(await world.show(id)).result for id in ids] == [str(n * 2) for n in range(10)]
    assert sorted(number for call in calls for number in call) == list(range(10))


async def test_versions_of_other_jobs_are_not_mixed_in(world: World) -> None:
    calls: list[set[str]] = []

    async def notes(attempts: Sequence[Attempt]) -> None:
        calls.append({attempt.version.spec.name for attempt in attempts})

    handle(world, notes)
    for name in ("one", "two"):
        await world.enqueue(await world.create(name=name, batch=10), 3)

    await run_until_idle(await world.worker(slots=1), world.clock)

    assert sorted(calls, key=sorted) == [{"one"}, {"two"}]


async def test_an_item_may_fail_alone(world: World) -> None:
    async def picky(attempts: Sequence[Attempt]) -> list[Any]:
        return [1, ValueError("odd"), GiveUp("hopeless"), Snooze("1m"), {1, 2}]

    handle(world, picky)
    ids = await world.enqueue(await world.create(batch=10), 5)

    await run_until_idle(await world.worker(), world.clock)

    by_state = sorted([((await world.show(id)).state, (await world.show(id)).last_outcome) for id in ids])
    assert by_state == [
        (State.SCHEDULED, Outcome.FAILED),
        (State.SCHEDULED, Outcome.RELEASED),
        (State.SUCCEEDED, Outcome.SUCCEEDED),
        (State.SUCCEEDED, Outcome.SUCCEEDED),
        (State.DEAD, Outcome.FAILED),
    ]


async def test_an_exception_fails_all_and_a_wrong_number_of_results_too(world: World) -> None:
    async def fails(attempts: Sequence[Attempt]) -> None:
        raise ValueError("all of them")

    async def miscounts(attempts: Sequence[Attempt]) -> list[int]:
        return [1]

    for function, words in ((fails, "all of them"), (miscounts, "1 results for 3 executions")):
        handle(world, function)
        ids = await world.enqueue(await world.create(name=function.__name__, batch=10, retryPolicy={"maxAttempts": 1}), 3)
        await run_until_idle(await world.worker(), world.clock)

        assert await states(world, ids) == [State.DEAD] * 3
        assert all([words in str((await world.show(id)).error) for id in ids])


async def test_one_of_them_may_be_cancelled_and_the_rest_go_on(world: World) -> None:
    gate, seen = asyncio.Event(), []

    async def waits(attempts: Sequence[Attempt]) -> None:
        seen.extend(attempts)
        await gate.wait()

    handle(world, waits)
    ids = await world.enqueue(await world.create(batch=10), 3)
    worker = await world.worker()
    await worker.step(world.clock.now())
    await asyncio.sleep(0)

    await world.store.cancels.cancel(1, ids[:1], "somebody", world.clock.now(), 5_000_000)
    await worker.heartbeat.beat(world.store.liveness)
    await worker.step(world.clock.now())
    assert sorted((attempt.id in ids[:1], attempt.cancelled) for attempt in seen) == [(False, False), (False, False), (True, True)]
    assert await states(world, ids) == [State.RUNNING] * 3
    world.clock.turn(6)
    await worker.heartbeat.beat(world.store.liveness)
    for _ in range(3):
        await worker.step(world.clock.now())
    # Its grace is over: its part in the call has ended, the call goes on.
    assert await states(world, ids) == [State.CANCELLED, State.RUNNING, State.RUNNING]
    gate.set()
    await run_until_idle(worker, world.clock)

    assert await states(world, ids) == [State.CANCELLED, State.SUCCEEDED, State.SUCCEEDED]


async def test_when_all_of_them_are_cancelled_the_call_is(world: World) -> None:
    async def waits(attempts: Sequence[Attempt]) -> None:
        await asyncio.Event().wait()

    handle(world, waits)
    ids = await world.enqueue(await world.create(batch=10), 3)
    worker = await world.worker()
    await worker.step(world.clock.now())
    await asyncio.sleep(0)

    for id in ids:
        await world.store.cancels.cancel(1, [id], "somebody", world.clock.now())
        await worker.heartbeat.beat(world.store.liveness)
        await worker.step(world.clock.now())
    await run_until_idle(worker, world.clock)

    assert await states(world, ids) == [State.CANCELLED] * 3


async def test_a_limit_ends_the_call_for_all(world: World) -> None:
    async def waits(attempts: Sequence[Attempt]) -> None:
        await asyncio.Event().wait()

    handle(world, waits)
    ids = await world.enqueue(await world.create(batch=10, timeoutSec=10, retryPolicy={"maxAttempts": 1}), 3)
    worker = await world.worker()
    await worker.step(world.clock.now())
    await asyncio.sleep(0)

    world.clock.turn(10)
    await worker.heartbeat.beat(world.store.liveness)
    await run_until_idle(worker, world.clock)

    assert [((await world.show(id)).state, (await world.show(id)).last_outcome) for id in ids] == [(State.DEAD, Outcome.TIMED_OUT)] * 3


async def test_a_batch_takes_one_slot(world: World) -> None:
    gate, calls = asyncio.Event(), []

    async def waits(attempts: Sequence[Attempt]) -> None:
        calls.append(len(attempts))
        await gate.wait()

    handle(world, waits, batch=5)
    await world.enqueue(await world.create(batch=5), 20)
    worker = await world.worker(slots=3)
    for _ in range(5):
        await worker.step(world.clock.now())
        await asyncio.sleep(0)

    assert calls == [5, 5, 5]
    gate.set()
    await run_until_idle(worker, world.clock)
    assert calls == [5, 5, 5, 5]
