"""How an attempt is stopped: asked, ended, left behind; by a cancel, by a limit, by silence, by a drain."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from duly.domain.instants import SECOND, Micros
from duly.domain.lifecycle import Outcome, State
from duly.executors.python import python_handlers
from duly.ports.handlers import Attempt, ExecutorKind, Handler, PythonCall
from duly.roles.worker import Worker
from tests.roles.conftest import ACTOR, World, run_until_idle


async def begin(world: World, worker: Worker) -> None:
    """Claim what there is, and let its handlers run up to where they wait."""
    await worker.step(world.clock.now())
    for _ in range(5):
        await asyncio.sleep(0)


async def later(world: World, worker: Worker, seconds: float) -> None:
    """Let time pass in pieces that a heartbeat survives, and have the worker look each time."""
    while seconds > 0:
        world.clock.turn(min(seconds, 5))
        seconds -= 5
        await worker.heartbeat.beat(world.store.liveness)
        await worker.step(world.clock.now())
        for _ in range(5):
            await asyncio.sleep(0)


class Stubborn:
    """A coroutine that ends when it wants to; but the end of the test, which cancels it a third time, ends it too."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_end = asyncio.Event()

    async def __call__(self, attempt: Attempt) -> str:
        while not self.may_end.is_set() and self.asked < 3:
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.asked += 1
        return "my own way"


async def cancel(world: World, id: Any, kill_after: Micros | None) -> None:
    await world.store.cancels.cancel(1, [id], "somebody", world.clock.now(), kill_after)


async def test_who_is_only_asked_is_never_ended(world: World) -> None:
    stubborn = Stubborn()
    world.handle("work", stubborn)
    (id,) = await world.enqueue(await world.create(stopGraceSec=1))
    worker = await world.worker()
    await begin(world, worker)

    await cancel(world, id, None)
    await later(world, worker, 3600)
    assert ((await world.show(id)).state, stubborn.asked, worker.left_behind) == (State.RUNNING, 1, 0)
    stubborn.may_end.set()
    await run_until_idle(worker, world.clock)

    # It was asked before it ended: that is the stop, whatever it returns.
    assert ((await world.show(id)).state, (await world.show(id)).result) == (State.CANCELLED, None)


async def test_who_ignores_a_cancel_is_left_behind_after_the_grace(world: World) -> None:
    stubborn = Stubborn()
    world.handle("work", stubborn)
    (id,) = await world.enqueue(await world.create(stopGraceSec=5))
    worker = await world.worker(slots=2)
    await begin(world, worker)
    await world.executions.cancel(ACTOR, id)

    await later(world, worker, 4)
    assert (stubborn.asked, worker.left_behind) == (1, 0)
    await later(world, worker, 10)
    await run_until_idle(worker, world.clock)

    done = await world.show(id)
    assert (done.state, stubborn.asked, worker.left_behind) == (State.CANCELLED, 2, 1)
    assert "left behind" in str(done.error)
    stubborn.may_end.set()
    await run_until_idle(worker, world.clock)
    # Its slot is free again, and nothing that it returned counts.
    assert (worker.left_behind, (await world.show(id)).state) == (0, State.CANCELLED)


async def test_a_kill_may_follow_a_wish_that_only_asked(world: World) -> None:
    stubborn = Stubborn()
    world.handle("work", stubborn)
    (id,) = await world.enqueue(await world.create())
    worker = await world.worker()
    await begin(world, worker)
    await cancel(world, id, None)
    await later(world, worker, 60)

    await cancel(world, id, 3 * SECOND)
    await later(world, worker, 10)

    assert ((await world.show(id)).state, worker.left_behind) == (State.CANCELLED, 1)
    stubborn.may_end.set()


async def test_a_slot_is_lost_while_somebody_is_left_behind_in_it(world: World) -> None:
    stubborn = Stubborn()
    world.handle("work", stubborn)
    ids = await world.enqueue(await world.create(timeoutSec=1, stopGraceSec=0, retryPolicy={"maxAttempts": 1}), 2)
    worker = await world.worker(slots=1)
    await begin(world, worker)

    await later(world, worker, 20)

    stands = sorted([(await world.show(id)).state for id in ids])
    stubborn.may_end.set()
    assert stands == [State.PENDING, State.DEAD]
    stubborn.may_end.set()
    await run_until_idle(worker, world.clock)
    await run_until_idle(worker, world.clock)
    assert sorted([(await world.show(id)).state for id in ids]) == [State.SUCCEEDED, State.DEAD]


async def test_a_thread_is_told_by_its_token_and_what_it_returns_then_is_the_stop(world: World) -> None:
    began, asked = threading.Event(), threading.Event()

    def polls(attempt: Attempt) -> str:
        began.set()
        while not attempt.cancelled:
            asked.wait(0.01)
        return "ended cleanly"

    (handler,) = python_handlers({"work": PythonCall("work", ExecutorKind.THREAD, polls)}, threads=1, processes=None)
    world.registry.add(handler)
    (id,) = await world.enqueue(await world.create(timeoutSec=1, retryPolicy={"maxAttempts": 1}))
    worker = await world.worker()
    await begin(world, worker)
    await asyncio.to_thread(began.wait)

    world.clock.turn(1)
    while (await world.show(id)).state is State.RUNNING:
        await worker.step(world.clock.now())
        await asyncio.to_thread(asked.wait, 0.01)

    done = await world.show(id)
    assert (done.state, done.last_outcome, worker.left_behind) == (State.DEAD, Outcome.TIMED_OUT, 0)
    assert handler.close is not None
    await handler.close()


async def test_a_thread_that_will_not_stop_is_left_behind_and_its_checkpoint_refused(world: World) -> None:
    began, may_end, refused = threading.Event(), threading.Event(), []

    def stuck(attempt: Attempt) -> None:
        began.set()
        may_end.wait()
        try:
            attempt.keep('"late"').result()
        except Exception as error:
            refused.append(type(error).__name__)

    (handler,) = python_handlers({"work": PythonCall("work", ExecutorKind.THREAD, stuck)}, threads=1, processes=None)
    world.registry.add(handler)
    (id,) = await world.enqueue(await world.create(timeoutSec=1, stopGraceSec=1, retryPolicy={"maxAttempts": 1}))
    worker = await world.worker()
    await begin(world, worker)
    await asyncio.to_thread(began.wait)

    await later(world, worker, 20)

    done = await world.show(id)
    assert (done.state, done.last_outcome, worker.left_behind) == (State.DEAD, Outcome.TIMED_OUT, 1)
    assert "left behind" in str(done.error)
    may_end.set()
    while worker.left_behind:
        await asyncio.sleep(0.01)
    assert refused == ["LeaseLost"]
    assert await world.store.checkpoints.saved([id]) == {}
    assert handler.close is not None
    await handler.close()


async def test_a_drain_does_not_wait_for_a_grace(world: World) -> None:
    stubborn = Stubborn()
    world.handle("work", stubborn)
    (id,) = await world.enqueue(await world.create(stopGraceSec=600))
    worker = await world.worker()
    await begin(world, worker)

    worker.draining = True
    worker.release_all()
    await later(world, worker, 10)
    await run_until_idle(worker, world.clock)

    assert ((await world.show(id)).state, (await world.show(id)).last_outcome) == (State.SCHEDULED, Outcome.RELEASED)
    stubborn.may_end.set()


async def test_what_ends_while_it_is_given_back_has_succeeded(world: World) -> None:
    async def finishes(attempt: Attempt) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "just in time"
        return "never"

    world.handle("work", finishes)
    (id,) = await world.enqueue(await world.create())
    worker = await world.worker()
    await begin(world, worker)

    worker.release_all()
    await run_until_idle(worker, world.clock)

    assert ((await world.show(id)).state, (await world.show(id)).result) == (State.SUCCEEDED, '"just in time"')


async def test_a_silent_handler_is_stopped_and_one_that_beats_is_not(world: World) -> None:
    running: list[Attempt] = []

    async def waits(attempt: Attempt) -> None:
        running.append(attempt)
        await asyncio.Event().wait()

    world.handle("work", waits)
    silent, alive = await world.enqueue(await world.create(heartbeatTimeoutSec=30, retryPolicy={"maxAttempts": 1}), 2)
    worker = await world.worker()
    await begin(world, worker)
    beating = next(attempt for attempt in running if attempt.id == alive)

    for how in (beating.beat, lambda: beating.tell('{"done":1}'), beating.beat):
        await later(world, worker, 20)
        how()
    await run_some(world, worker)

    done = await world.show(silent)
    assert (done.state, done.last_outcome) == (State.DEAD, Outcome.TIMED_OUT)
    assert "no heartbeat for 30 s" in str(done.error)
    assert (await world.show(alive)).state is State.RUNNING
    worker.release_all()
    await run_until_idle(worker, world.clock)


async def run_some(world: World, worker: Worker) -> None:
    for _ in range(3):
        await worker.step(world.clock.now())
        await asyncio.sleep(0)


class TestTimeForAllAttempts:
    async def test_no_retry_is_planned_past_it(self, world: World) -> None:
        async def fails(attempt: Attempt) -> None:
            raise ValueError("no")

        world.handle("work", fails)
        policy = {"maxAttempts": 100, "backoff": "FIXED", "initialDelayMs": 40_000, "jitter": 0}
        (id,) = await world.enqueue(await world.create(executionTimeoutSec=60, retryPolicy=policy))
        worker, dispatcher = await world.worker(), world.dispatcher()
        await run_until_idle(worker, world.clock)
        assert (await world.show(id)).state is State.SCHEDULED

        await later(world, worker, 40)
        await dispatcher.step(world.clock.now())
        await run_until_idle(worker, world.clock)

        done = await world.show(id)
        assert (done.state, done.attempt, done.last_outcome) == (State.DEAD, 2, Outcome.FAILED)
        assert (json.loads(done.error or "")["type"], json.loads(done.error or "")["reason"]) == ("ValueError", "execution timeout")

    async def test_it_bounds_an_attempt_that_has_a_longer_limit(self, world: World) -> None:
        deadlines: list[Any] = []

        async def waits(attempt: Attempt) -> None:
            deadlines.append(attempt.deadline)
            await asyncio.Event().wait()

        world.handle("work", waits)
        (id,) = await world.enqueue(await world.create(executionTimeoutSec=30, timeoutSec=600))
        due = world.clock.now()
        world.clock.turn(10)
        worker = await world.worker()
        await begin(world, worker)

        await later(world, worker, 15)
        assert (await world.show(id)).state is State.RUNNING
        await later(world, worker, 5)
        await run_until_idle(worker, world.clock)

        done = await world.show(id)
        assert deadlines == [due + 30 * SECOND]
        assert (done.state, done.last_outcome) == (State.DEAD, Outcome.TIMED_OUT)
        assert json.loads(done.error or "")["reason"] == "execution timeout"

    async def test_what_is_taken_past_it_does_not_run(self, world: World) -> None:
        ran: list[Attempt] = []

        async def runs(attempt: Attempt) -> None:
            ran.append(attempt)

        world.handle("work", runs)
        (id,) = await world.enqueue(await world.create(executionTimeoutSec=30))
        world.clock.turn(30)
        await run_until_idle(await world.worker(), world.clock)

        done = await world.show(id)
        assert (ran, done.state, done.last_outcome) == ([], State.DEAD, Outcome.TIMED_OUT)
        assert json.loads(done.error or "")["reason"] == "execution timeout"


async def _settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_when_one_that_was_left_behind_comes_back_what_waits_is_run(world: World) -> None:
    comes_back, ends = asyncio.Event(), asyncio.Event()

    async def work(attempt: Attempt) -> None:
        until = {"stubborn": comes_back, "long": ends}.get(attempt.payload)
        while until is not None and not until.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await until.wait()

    async def pass_time(seconds: int) -> None:
        for _ in range(seconds * 2):
            world.clock.turn(0.5)
            await worker.heartbeat.beat(world.store.liveness)
            await worker.step(world.clock.now())
            await _settled()

    world.handle("work", work)
    limited = await world.create(name="limited", timeoutSec=1, stopGraceSec=0)
    plain = await world.create(name="plain")
    worker = await world.worker(slots=4)
    await world.enqueue(limited, payload='"stubborn"')
    await pass_time(5)
    assert worker.left_behind == 1
    worker._appetite = 100
    await world.enqueue(plain, 3, payload='"long"')
    world.clock.turn(0.01)
    ids = await world.enqueue(plain, 3)
    await worker.step(world.clock.now())
    await _settled()

    comes_back.set()
    await _settled()
    await pass_time(2)

    assert [(await world.show(id)).state for id in ids] == [State.SUCCEEDED] * 3
    ends.set()
    await pass_time(1)
    assert worker.is_idle


@pytest.mark.parametrize("batch", [None, 5])
async def test_a_handler_that_cancels_its_own_task_has_failed_and_nobody_else(world: World, batch: int | None) -> None:
    async def work(attempt: Attempt) -> None:
        if attempt.payload == "cancels":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)

    async def many(attempts: Sequence[Attempt]) -> list[None]:
        for attempt in attempts:
            await work(attempt)
        return [None] * len(attempts)

    if batch is None:
        world.handle("work", work)
    else:
        world.registry.add(Handler("work", work, batch=batch, run_many=many))
    once = {"retryPolicy": {"maxAttempts": 1}} | ({} if batch is None else {"batch": batch})
    cancelling, job = await world.create(name="cancelling", **once), await world.create(name="plain", **once)
    bad = await world.enqueue(cancelling, 3, payload='"cancels"')
    good = await world.enqueue(job, 40)
    worker = await world.worker(slots=2)

    for _ in range(40):
        await worker.step(world.clock.now())
        await _settled()

    assert [(await world.show(id)).state for id in good] == [State.SUCCEEDED] * 40
    assert [(await world.show(id)).state for id in bad] == [State.DEAD] * 3
    assert "cancelled itself" in str((await world.show(bad[0])).error)
    assert worker.is_idle
