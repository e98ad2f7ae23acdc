"""A worker takes and reports side by side: neither waits for the other, and nothing is lost between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from duly.domain.errors import Unavailable
from duly.domain.execution import Finished
from duly.domain.lifecycle import State
from duly.ports.handlers import Attempt
from duly.ports.store import Outcomes, WorkerAbout
from duly.roles.heartbeat import HeartbeatSettings
from duly.roles.shift import Shift
from duly.roles.worker import Worker, WorkerSettings
from tests.roles.conftest import ACTOR, World, run_until_idle

AWAY = Unavailable("DULY-E501", "away")


class Before:
    """Outcomes of which one call begins only when `first` has ended."""

    def __init__(self, real: Outcomes, name: str, first: Callable[[], Awaitable[Any]]) -> None:
        self._real, self._name, self._first = real, name, first

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if name != self._name:
            return real

        async def later(*args: Any) -> Any:
            await self._first()
            return await real(*args)

        return later


class NoHeart:
    """The clock of these tests stands still, and so does the end of a worker's trust."""

    def stop(self) -> None:
        return None

    def beat_now(self) -> None:
        return None


def shift_of(world: World, outcomes: Any, *, transport: Any = None, **settings: Any) -> Shift:
    """A worker's, on a store with these outcomes."""
    return Shift(
        replace(world.store, outcomes=outcomes),
        world.transport if transport is None else transport,
        world.registry,
        world.clock,
        world.entropy,
        WorkerSettings(name="w", look_for_routes_every=-1, look_for_work_every=-1, **settings),
        WorkerAbout("default"),
        lambda heartbeat, every, on_news: NoHeart(),
        heartbeat=HeartbeatSettings(),
        grace=30.0,
    )


@asynccontextmanager
async def on_shift(world: World, outcomes: Any, **settings: Any) -> AsyncIterator[asyncio.Event]:
    """A worker at work, on a store with these outcomes; it ends at the event, and has ended after it."""
    shift = shift_of(world, outcomes, **settings)
    stop = asyncio.Event()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(shift.run(stop))
        yield stop
        stop.set()


async def quick(attempt: Attempt) -> int:
    return attempt.attempt


async def settled(task: asyncio.Task[Any]) -> None:
    """Until it has come to where it waits."""
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()


@pytest.mark.parametrize("slots", [1, 50])
async def test_whoever_is_ready_while_a_report_is_under_way_begins_meanwhile(world: World, slots: int) -> None:
    begun = {1: asyncio.Event(), 2: asyncio.Event()}

    async def begins(attempt: Attempt) -> None:
        begun[attempt.payload].set()

    world.handle("work", begins)
    job = await world.create()
    reporting = asyncio.Event()

    async def until_the_second_has_begun() -> None:
        reporting.set()
        await begun[2].wait()

    async with on_shift(world, Before(world.store.outcomes, "finish", until_the_second_has_begun), slots=slots):
        ids = await world.enqueue(job, payload="1")
        await reporting.wait()
        ids += await world.enqueue(job, payload="2")
        await begun[2].wait()

    assert [(await world.show(id)).state for id in ids] == [State.SUCCEEDED] * 2


async def test_what_is_being_reported_at_the_stop_is_waited_for(world: World) -> None:
    world.handle("work", quick)
    reporting, accepted = asyncio.Event(), asyncio.Event()

    async def until_it_is_accepted() -> None:
        reporting.set()
        await accepted.wait()

    async with on_shift(world, Before(world.store.outcomes, "finish", until_it_is_accepted)) as stop:
        id = (await world.enqueue(await world.create()))[0]
        await reporting.wait()
        stop.set()
        for _ in range(20):
            await asyncio.sleep(0)
        accepted.set()

    assert (await world.show(id)).state is State.SUCCEEDED


async def test_a_store_that_takes_no_report_gets_no_further_work_done(world: World) -> None:
    runs: list[str] = []

    async def counted(attempt: Attempt) -> None:
        runs.append(attempt.id.hex)

    world.handle("work", counted)
    ids = await world.enqueue(await world.create(), 40)
    worker = await world.worker(slots=4, largest_batch=4)

    async def away() -> None:
        raise AWAY

    worker._reports._outcomes = Before(world.store.outcomes, "finish", away)
    for _ in range(10):
        await worker.take(world.clock.now())
        await asyncio.sleep(0)
        with pytest.raises(Unavailable):
            await worker.report(world.clock.now())

    assert len(runs) == 8, "twice what it takes at once"
    worker._reports._outcomes = world.store.outcomes
    worker.wake.clear()
    await worker.report(world.clock.now())
    assert worker.wake.is_set(), "now there is room"
    await run_until_idle(worker, world.clock)
    assert [(await world.show(id)).state for id in ids] == [State.SUCCEEDED] * 40
    assert len(runs) == 40


@pytest.mark.parametrize("call", ["append_logs", "finish"])
async def test_what_is_on_its_way_to_the_store_is_not_run_again(world: World, call: str) -> None:
    runs: list[int] = []

    async def talks(attempt: Attempt) -> None:
        runs.append(attempt.attempt)
        attempt.log("info", "hello", {})

    world.handle("work", talks)
    id = (await world.enqueue(await world.create()))[0]
    worker = await world.worker()
    goes_on = asyncio.Event()
    worker._reports._outcomes = worker._logs._outcomes = Before(world.store.outcomes, call, goes_on.wait)
    await worker.take(world.clock.now())
    await asyncio.sleep(0)
    report = asyncio.create_task(worker.report(world.clock.now()))
    await settled(report)

    worker._claim_is_unknown = True
    assert (await worker.take(world.clock.now())).did == {"claimed": 0}
    is_idle_meanwhile = worker.is_idle
    goes_on.set()
    await report

    assert (runs, is_idle_meanwhile, worker.is_idle) == ([1], False, True)
    assert (await world.show(id)).state is State.SUCCEEDED
    assert [line.message for _, _, line in await world.executions.logs(ACTOR, id, None, 0, 10)] == ["hello"]


async def test_who_is_not_trusted_reports_nothing(world: World) -> None:
    world.handle("work", quick)
    id = (await world.enqueue(await world.create()))[0]
    worker = await world.worker()
    await worker.take(world.clock.now())
    await asyncio.sleep(0)

    world.clock.turn(13.5)
    assert (await worker.report(world.clock.now())).did == {}

    assert (await world.show(id)).state is State.RUNNING
    await _forgets(worker, world)


async def test_a_report_that_fails_after_the_trust_is_lost_is_not_sent_again(world: World) -> None:
    world.handle("work", quick)
    id = (await world.enqueue(await world.create()))[0]
    worker = await world.worker()
    sent: list[Finished] = []
    goes_on = asyncio.Event()

    async def away() -> None:
        await goes_on.wait()
        sent.extend(worker._reports.sending)
        raise AWAY

    worker._reports._outcomes = Before(world.store.outcomes, "finish", away)
    await worker.take(world.clock.now())
    await asyncio.sleep(0)
    report = asyncio.create_task(worker.report(world.clock.now()))
    await settled(report)

    world.clock.turn(13.5)
    await worker.take(world.clock.now())
    assert not worker.is_idle, "its report is on its way"
    goes_on.set()
    with pytest.raises(Unavailable):
        await report
    await _forgets(worker, world)
    await worker.report(world.clock.now())

    assert len(sent) == 1
    assert (await world.show(id)).state is State.RUNNING


async def _forgets(worker: Worker, world: World) -> None:
    await worker.take(world.clock.now())
    assert worker.is_idle


class Deaf:
    """A transport on which nobody can wait for a cancel."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.asked = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def wait_cancel(self, timeout: float) -> bool:
        self.asked.set()
        raise RuntimeError("the handler is closed")


async def test_a_worker_that_cannot_hear_of_cancels_works_and_ends_in_order(world: World) -> None:
    world.handle("work", quick)
    deaf = Deaf(world.transport)

    async with on_shift(world, world.store.outcomes, transport=deaf):
        await deaf.asked.wait()
        id = (await world.enqueue(await world.create()))[0]
        while (await world.show(id)).state is not State.SUCCEEDED:
            await asyncio.sleep(0)
