"""What a worker does with what it claims."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from duly.domain.errors import Unavailable
from duly.domain.instants import SECOND
from duly.domain.job import JobVersion
from duly.domain.lifecycle import Outcome, State
from duly.ports.endings import Failure
from duly.ports.handlers import Attempt
from duly.roles.reports import UNREADABLE_WAIT
from duly.wire.executions import execution_view
from tests.roles.conftest import ACTOR, World, run_until_idle


async def echo(attempt: Attempt) -> Any:
    return attempt.payload


async def test_a_handler_s_result_becomes_the_outcome(world: World) -> None:
    world.handle("work", echo)
    job = await world.create(payload={"n": 1})
    own, other = (await world.enqueue(job))[0], (await world.enqueue(job, payload='{"n":2}'))[0]

    await run_until_idle(await world.worker(), world.clock)

    assert [(await world.show(id)).result for id in (own, other)] == ['{"n":1}', '{"n":2}']
    assert {(await world.show(id)).state for id in (own, other)} == {State.SUCCEEDED}


async def test_a_payload_that_cannot_be_decoded_is_dead_and_says_so(world: World) -> None:
    world.handle("work", echo)
    job = await world.create(retryPolicy={"maxAttempts": 9})
    bad, good = (await world.enqueue(job, payload='{"n":1e400}'))[0], (await world.enqueue(job, payload='{"n":2}'))[0]

    await run_until_idle(await world.worker(), world.clock)

    assert [(await world.show(id)).state for id in (bad, good)] == [State.DEAD, State.SUCCEEDED]
    assert "PayloadUnreadable" in str((await world.show(bad)).error)


async def test_what_a_newer_release_wrote_goes_back_with_its_slot(world: World) -> None:
    world.handle("work", echo)
    job = await world.create(maxConcurrent=1)
    id = (await world.enqueue(job))[0]
    old, new = await world.worker(), await world.worker()
    old._plans._definitions = _ReadsNothing()  # type: ignore[assignment]

    await run_until_idle(old, world.clock)
    world.clock.turn(UNREADABLE_WAIT / SECOND)
    await world.dispatcher().step(world.clock.now())
    await run_until_idle(new, world.clock)

    assert (await world.show(id)).state is State.SUCCEEDED


class _ReadsNothing:
    """The definitions as an old release sees them when a new one has written them all."""

    async def versions(self, numbers: object) -> dict[int, JobVersion]:
        return {}


async def test_a_failure_waits_for_its_retry_and_then_succeeds(world: World) -> None:
    async def flaky(attempt: Attempt) -> int:
        if attempt.attempt < 3:
            raise ValueError("not yet")
        return attempt.attempt

    world.handle("work", flaky)
    job = await world.create(retryPolicy={"maxAttempts": 3, "initialDelayMs": 1000, "jitter": 0})
    id = (await world.enqueue(job))[0]
    worker, dispatcher = await world.worker(), world.dispatcher()

    await run_until_idle(worker, world.clock)
    waiting = await world.show(id)
    assert (waiting.state, waiting.last_outcome, waiting.next_attempt_at) == (
        State.SCHEDULED,
        Outcome.FAILED,
        world.clock.now() + 1_000_000,
    )
    assert '"type":"ValueError"' in str(waiting.error)

    for seconds in (1, 2):
        world.clock.turn(seconds)
        await dispatcher.step(world.clock.now())
        await run_until_idle(worker, world.clock)
    done = await world.show(id)
    assert (done.state, done.attempt, done.result) == (State.SUCCEEDED, 3, "3")
    assert [attempt.outcome for attempt in await world.executions.attempts(ACTOR, id)] == [
        Outcome.FAILED,
        Outcome.FAILED,
        Outcome.SUCCEEDED,
    ]


async def test_a_retry_does_not_start_before_its_time(world: World) -> None:
    world.handle("work", _raise(ValueError("no")))
    id = (await world.enqueue(await world.create(retryPolicy={"initialDelayMs": 5000, "jitter": 0})))[0]
    worker, dispatcher = await world.worker(), world.dispatcher()
    await run_until_idle(worker, world.clock)

    world.clock.turn(4.999)
    await dispatcher.step(world.clock.now())
    await run_until_idle(worker, world.clock)

    assert (await world.show(id)).attempt == 2
    assert (await world.show(id)).state is State.SCHEDULED


async def test_the_last_failure_is_a_dead_letter(world: World) -> None:
    world.handle("work", _raise(ValueError("no")))
    id = (await world.enqueue(await world.create(retryPolicy={"maxAttempts": 1})))[0]

    await run_until_idle(await world.worker(), world.clock)

    assert (await world.show(id)).state is State.DEAD


async def test_a_failure_that_forbids_a_retry_is_dead_at_once(world: World) -> None:
    world.handle("work", _raise(Failure("bad address", retry=False)))
    id = (await world.enqueue(await world.create(retryPolicy={"maxAttempts": 9})))[0]

    await run_until_idle(await world.worker(), world.clock)

    assert (await world.show(id)).state is State.DEAD


async def test_a_failure_may_say_when_to_try_again(world: World) -> None:
    world.handle("work", _raise(Failure("busy", retry_after=42_000_000)))
    id = (await world.enqueue(await world.create()))[0]

    await run_until_idle(await world.worker(), world.clock)

    assert (await world.show(id)).next_attempt_at == world.clock.now() + 42_000_000


async def test_a_result_that_is_not_json_fails_and_says_so(world: World) -> None:
    async def strange(attempt: Attempt) -> Any:
        return object()

    world.handle("work", strange)
    id = (await world.enqueue(await world.create(retryPolicy={"maxAttempts": 1})))[0]

    await run_until_idle(await world.worker(), world.clock)

    assert "object" in str((await world.show(id)).error)


async def test_a_handler_that_waits_keeps_only_its_own_slot(world: World) -> None:
    gate = asyncio.Event()

    async def sometimes(attempt: Attempt) -> str:
        if attempt.payload:
            await gate.wait()
        return "done"

    world.handle("work", sometimes)
    job = await world.create()
    slow = (await world.enqueue(job, payload="true"))[0]
    quick = await world.enqueue(job, 10, payload="false")
    worker = await world.worker(slots=2)

    for _ in range(20):
        await worker.step(world.clock.now())
        await asyncio.sleep(0)
    assert {(await world.show(id)).state for id in quick} == {State.SUCCEEDED}
    assert (await world.show(slow)).state is State.RUNNING

    gate.set()
    await run_until_idle(worker, world.clock)
    assert (await world.show(slow)).state is State.SUCCEEDED


async def test_a_handler_past_its_timeout_is_stopped_and_counted_as_timed_out(world: World) -> None:
    stopped = _endless(world)
    id = (await world.enqueue(await world.create(timeoutSec=10, retryPolicy={"maxAttempts": 1})))[0]
    worker = await world.worker()
    await worker.step(world.clock.now())
    await asyncio.sleep(0)

    world.clock.turn(10)
    await world.store.liveness.renew(worker.heartbeat.worker, world.clock.now(), 60_000_000)
    await worker.heartbeat.beat(world.store.liveness)
    await run_until_idle(worker, world.clock)

    done = await world.show(id)
    assert stopped == [True]
    assert (done.state, done.last_outcome) == (State.DEAD, Outcome.TIMED_OUT)
    assert "10 s" in str(done.error)


async def test_a_cancel_reaches_a_running_handler_with_the_heartbeat(world: World) -> None:
    async def endless(attempt: Attempt) -> None:
        await asyncio.Event().wait()

    world.handle("work", endless)
    id = (await world.enqueue(await world.create()))[0]
    worker = await world.worker()
    await worker.step(world.clock.now())
    await asyncio.sleep(0)

    asked = await world.executions.cancel(ACTOR, id)
    assert asked.state is State.RUNNING
    await worker.heartbeat.beat(world.store.liveness)
    await run_until_idle(worker, world.clock)

    assert (await world.show(id)).state is State.CANCELLED


async def test_a_stop_of_one_handler_never_reaches_the_next_in_its_runner(world: World) -> None:
    async def stubborn(attempt: Attempt) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "finished all the same"
        return "unreachable"

    world.handle("work", stubborn)
    world.handle("other", echo)
    first = (await world.enqueue(await world.create(timeoutSec=1)))[0]
    worker = await world.worker(slots=1)
    await worker.step(world.clock.now())
    await asyncio.sleep(0)
    second = (await world.enqueue(await world.create(name="other", target={"handler": "other"}), payload="1"))[0]

    world.clock.turn(1)
    await run_until_idle(worker, world.clock)
    await run_until_idle(worker, world.clock)

    assert ((await world.show(first)).last_outcome, (await world.show(first)).result) == (Outcome.TIMED_OUT, None)
    assert (await world.show(second)).state is State.SUCCEEDED


async def test_a_worker_takes_only_handlers_that_it_offers(world: World) -> None:
    world.handle("known", echo)
    id = (await world.enqueue(await world.create(target={"handler": "unknown"})))[0]

    await run_until_idle(await world.worker(), world.clock)

    assert (await world.show(id)).state is State.PENDING


async def test_a_worker_takes_only_its_pool_and_labels(world: World) -> None:
    world.handle("work", echo)
    elsewhere = (await world.enqueue(await world.create(name="a", target={"handler": "work", "pool": "etl"})))[0]
    needy = (await world.enqueue(await world.create(name="b", target={"handler": "work", "requires": {"gpu": ""}})))[0]
    fits = (await world.enqueue(await world.create(name="c", target={"handler": "work", "requires": {"region": "eu"}})))[0]

    await run_until_idle(await world.worker(labels={"region": "eu", "disk": "ssd"}), world.clock)

    assert [(await world.show(id)).state for id in (elsewhere, needy, fits)] == [State.PENDING, State.PENDING, State.SUCCEEDED]


async def test_an_untrusted_worker_stops_its_handlers_and_writes_nothing(world: World) -> None:
    stopped = _endless(world)
    id = (await world.enqueue(await world.create()))[0]
    worker = await world.worker()
    await worker.step(world.clock.now())
    await asyncio.sleep(0)

    world.clock.turn(14)
    await run_until_idle(worker, world.clock)

    assert stopped == [True]
    assert (await world.show(id)).state is State.RUNNING


async def test_what_an_untrusted_worker_was_to_report_wakes_nobody_again(world: World) -> None:
    """A drain waits for either of the two events: one that stays set would have it turn in a circle."""
    worker = await world.worker()
    worker.to_report = asyncio.Event()
    worker.wake.set()
    worker.to_report.set()

    world.clock.turn(14)
    step = await worker.step(world.clock.now())

    assert step.did == {"untrusted": 1}
    assert not worker.wake.is_set()
    assert not worker.to_report.is_set()


async def test_what_a_lost_worker_ran_is_run_by_another_and_its_own_finish_is_refused(world: World) -> None:
    gate = asyncio.Event()

    async def waits(attempt: Attempt) -> int:
        if attempt.attempt == 1:
            await gate.wait()
        return attempt.attempt

    world.handle("work", waits)
    id = (await world.enqueue(await world.create()))[0]
    paused, other, dispatcher = await world.worker(), None, world.dispatcher()
    await paused.step(world.clock.now())
    await asyncio.sleep(0)

    world.clock.instant += 16_000_000
    await world.sweeper().step(world.clock.now())
    world.clock.instant += 1_000_000
    await dispatcher.step(world.clock.now())
    other = await world.worker()
    await run_until_idle(other, world.clock)
    gate.set()
    await run_until_idle(paused, world.clock)

    done = await world.show(id)
    assert (done.state, done.attempt, done.result) == (State.SUCCEEDED, 2, "2")
    assert paused.refused == 1


async def test_a_drain_gives_back_what_did_not_end_at_no_cost(world: World) -> None:
    async def endless(attempt: Attempt) -> None:
        await asyncio.Event().wait()

    world.handle("work", endless)
    ids = await world.enqueue(await world.create(retryPolicy={"maxAttempts": 1}), 3)
    worker = await world.worker(slots=2)
    await worker.step(world.clock.now())
    await asyncio.sleep(0)

    worker.draining = True
    worker.release_all()
    await run_until_idle(worker, world.clock)

    shown = [await world.show(id) for id in ids]
    assert {execution.state for execution in shown} <= {State.SCHEDULED, State.PENDING}
    assert all(execution.last_outcome in (Outcome.RELEASED, None) for execution in shown)
    await world.dispatcher().step(world.clock.now())
    assert {(await world.show(id)).state for id in ids} == {State.PENDING}


async def test_a_finish_whose_answer_was_lost_is_sent_again(world: World) -> None:
    world.handle("work", echo)
    ids = await world.enqueue(await world.create(), 5)
    worker = await world.worker()
    losing = _LosesAnswers(world.store.outcomes)
    worker._reports._outcomes = losing

    await worker.step(world.clock.now())
    await asyncio.sleep(0)
    for _ in range(2):
        try:
            await worker.step(world.clock.now())
        except Unavailable:
            continue
    await run_until_idle(worker, world.clock)

    assert losing.lost == 1
    assert {(await world.show(id)).state for id in ids} == {State.SUCCEEDED}
    assert worker.refused == 0


async def test_a_claim_whose_answer_was_lost_is_adopted(world: World) -> None:
    world.handle("work", echo)
    ids = await world.enqueue(await world.create(), 5)
    worker = await world.worker()
    worker._ready = _LosesClaim(world.store.ready)

    with contextlib.suppress(Unavailable):
        await worker.step(world.clock.now())
    await run_until_idle(worker, world.clock)

    assert {(await world.show(id)).state for id in ids} == {State.SUCCEEDED}


async def test_log_lines_are_kept_with_their_attempt(world: World) -> None:
    async def talks(attempt: Attempt) -> None:
        attempt.log("info", "hello\x00there", {"n": 1})

    world.handle("work", talks)
    id = (await world.enqueue(await world.create()))[0]

    await run_until_idle(await world.worker(), world.clock)

    [(_, attempt, line)] = await world.executions.logs(ACTOR, id, None, 0, 10)
    assert (attempt, line.level, line.message, line.fields) == (1, "info", "hello\ufffdthere", {"n": 1})


async def test_short_handlers_are_claimed_in_growing_batches(world: World) -> None:
    world.handle("work", echo)
    await world.enqueue(await world.create(), 400)
    worker = await world.worker(slots=10)
    claimed: list[int] = []

    while not claimed or claimed[-1]:
        claimed.append((await worker.step(world.clock.now())).did["claimed"])
        for _ in range(3):
            await asyncio.sleep(0)

    assert claimed[:4] == [10, 40, 160, 190]


def _endless(world: World) -> list[bool]:
    """A handler that never ends by itself; the list says how often it was stopped."""
    stopped: list[bool] = []

    async def endless(attempt: Attempt) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    world.handle("work", endless)
    return stopped


def _raise(error: Exception) -> Any:
    async def handler(attempt: Attempt) -> None:
        raise error

    return handler


class _LosesAnswers:
    """Commits the first finish and loses its answer."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.lost = 0

    async def finish(self, *args: Any) -> Any:
        answer = await self._real.finish(*args)
        if not self.lost:
            self.lost += 1
            raise Unavailable("DULY-E501", "the answer was lost")
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _LosesClaim:
    """Commits the first claim and loses its answer."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._lost = False

    async def claim(self, *args: Any) -> Any:
        answer = await self._real.claim(*args)
        if not self._lost:
            self._lost = True
            raise Unavailable("DULY-E501", "the answer was lost")
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


async def test_a_retry_that_starts_on_time_is_not_late(world: World) -> None:
    async def flaky(attempt: Attempt) -> int:
        if attempt.attempt == 1:
            raise ValueError("not yet")
        return attempt.attempt

    world.handle("work", flaky)
    id = (await world.enqueue(await world.create(retryPolicy={"initialDelayMs": 30_000, "jitter": 0})))[0]
    worker, dispatcher = await world.worker(), world.dispatcher()
    await run_until_idle(worker, world.clock)
    for _ in range(3):
        world.clock.turn(10)
        await worker.heartbeat.beat(world.store.liveness)
    await dispatcher.step(world.clock.now())
    await run_until_idle(worker, world.clock)

    done = await world.show(id)
    assert (done.attempt, execution_view(done).lateness_ms) == (2, 0)
