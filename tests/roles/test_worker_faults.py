"""What can go wrong around a worker: no execution may stay with a worker that does not work on it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import duly.roles.reports
from duly.domain.errors import TooLarge, Unavailable
from duly.domain.ids import ExecutionId
from duly.domain.instants import SECOND
from duly.domain.lifecycle import Outcome, State
from duly.ports.handlers import Attempt
from duly.roles.worker import Worker
from tests.roles.conftest import ACTOR, World, run_until_idle


class Once:
    """A port whose named call fails the first time, before or after the real one."""

    def __init__(self, real: Any, name: str, error: BaseException, *, after: bool = False) -> None:
        self._real, self._name, self._error, self._after = real, name, error, after
        self.failed = False

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if name != self._name or self.failed:
            return real

        async def fail(*args: Any, **named: Any) -> Any:
            self.failed = True
            if self._after:
                await real(*args, **named)
            raise self._error

        return fail


AWAY = Unavailable("DULY-E501", "away")


async def steps(worker: Worker, world: World, count: int = 5) -> None:
    for _ in range(count):
        try:
            await worker.step(world.clock.now())
        except Exception:
            continue
        finally:
            for _ in range(3):
                await asyncio.sleep(0)


async def quick(attempt: Attempt) -> int:
    return attempt.attempt


async def test_a_claim_whose_job_cannot_be_looked_up_is_adopted_later(world: World) -> None:
    world.handle("work", quick)
    ids = await world.enqueue(await world.create(), 3)
    worker = await world.worker()
    worker._plans._definitions = Once(world.store.definitions, "versions", AWAY)

    await steps(worker, world)

    assert {(await world.show(id)).state for id in ids} == {State.SUCCEEDED}


async def test_a_claim_that_commits_after_its_answer_was_given_up_is_found(world: World) -> None:
    world.handle("work", quick)
    ids = await world.enqueue(await world.create(), 3)
    worker = await world.worker()
    await steps(worker, world, 0)
    route = (await world.store.ready.routes())[0].number
    work = await world.store.ready.work([route], 64)
    from duly.domain.fairness import share_out

    await world.store.ready.claim(worker.heartbeat.worker, share_out(3, work, {}, counted_to=64), world.clock.now())
    for _ in range(9):
        world.clock.turn(4)
        await worker.heartbeat.beat(world.store.liveness)
        await steps(worker, world, 2)

    assert {(await world.show(id)).state for id in ids} == {State.SUCCEEDED}


async def test_what_is_just_being_reported_is_not_adopted_and_run_again(world: World) -> None:
    runs: list[int] = []

    async def count(attempt: Attempt) -> None:
        runs.append(attempt.attempt)

    world.handle("work", count)
    (id,) = await world.enqueue(await world.create())
    worker = await world.worker()
    looked = asyncio.Event()

    class Slow:
        """A finish that takes longer than a look at what the worker holds."""

        async def finish(self, *args: Any) -> Any:
            await asyncio.wait_for(looked.wait(), 5)
            return await world.store.outcomes.finish(*args)

        def __getattr__(self, name: str) -> Any:
            return getattr(world.store.outcomes, name)

    class Looked:
        """A look at what is held is noticed."""

        async def held_by(self, *args: Any) -> Any:
            held = await world.store.ready.held_by(*args)
            looked.set()
            return held

        def __getattr__(self, name: str) -> Any:
            return getattr(world.store.ready, name)

    worker._reports._outcomes, worker._ready = Slow(), Looked()
    await steps(worker, world, 1)
    worker._claim_is_unknown = True

    await steps(worker, world, 3)

    assert runs == [1]
    assert (await world.show(id)).state is State.SUCCEEDED


async def test_trust_that_was_lost_does_not_come_back(world: World) -> None:
    worker = await world.worker()
    world.clock.turn(13.5)
    assert not worker.heartbeat.is_trusted

    assert not await worker.heartbeat.beat(world.store.liveness)

    assert not worker.heartbeat.is_trusted


async def test_a_finish_that_never_arrived_is_sent_again(world: World) -> None:
    world.handle("work", quick)
    ids = await world.enqueue(await world.create(), 5)
    worker = await world.worker()
    worker._reports._outcomes = Once(world.store.outcomes, "finish", AWAY)

    await steps(worker, world)

    assert worker._reports._outcomes.failed
    assert {(await world.show(id)).state for id in ids} == {State.SUCCEEDED}


@pytest.mark.parametrize("error", [RuntimeError("a bug"), OSError("odd")])
async def test_results_survive_a_finish_that_fails_in_an_unforeseen_way(world: World, error: Exception) -> None:
    world.handle("work", quick)
    ids = await world.enqueue(await world.create(), 5)
    worker = await world.worker()
    worker._reports._outcomes = Once(world.store.outcomes, "finish", error)

    await steps(worker, world)

    assert {(await world.show(id)).state for id in ids} == {State.SUCCEEDED}


class Picky:
    """Does not take the success of one."""

    def __init__(self, world: World, id: ExecutionId, error: Exception) -> None:
        self._world, self._id, self._error = world, id, error
        self.is_picky = True

    async def finish(self, worker: int, finished: Any, closing: Any, now: int) -> Any:
        if self.is_picky and any(item.id == self._id and item.outcome is Outcome.SUCCEEDED for item in finished):
            raise self._error
        return await self._world.store.outcomes.finish(worker, finished, closing, now)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.store.outcomes, name)


async def states_of(world: World, ids: Sequence[ExecutionId]) -> list[State]:
    return [(await world.show(id)).state for id in ids]


ALL_BUT_THE_THIRD = [State.SUCCEEDED, State.SUCCEEDED, State.DEAD, State.SUCCEEDED, State.SUCCEEDED]


async def test_one_result_that_cannot_be_stored_does_not_hold_up_the_others(world: World) -> None:
    world.handle("work", quick)
    ids = await world.enqueue(await world.create(), 5)
    worker = await world.worker()
    worker._reports._outcomes = Picky(world, ids[2], RuntimeError("this one is poison"))

    await steps(worker, world)
    states = await states_of(world, ids)
    assert (states.pop(2), set(states)) == (State.RUNNING, {State.SUCCEEDED})
    assert not worker.is_idle

    world.clock.turn(6)
    assert await worker.heartbeat.beat(world.store.liveness)
    await steps(worker, world)
    assert await states_of(world, ids) == ALL_BUT_THE_THIRD
    assert worker.is_idle


async def test_a_result_that_the_store_has_an_answer_to_is_dead_at_once(world: World) -> None:
    world.handle("work", quick)
    ids = await world.enqueue(await world.create(), 5)
    worker = await world.worker()
    worker._reports._outcomes = Picky(world, ids[2], TooLarge("DULY-E120", "too large"))

    await steps(worker, world)

    assert await states_of(world, ids) == ALL_BUT_THE_THIRD


async def test_leases_may_be_lost_while_a_result_is_being_given_up(world: World) -> None:
    world.handle("work", quick)
    ids = await world.enqueue(await world.create(), 2)
    worker = await world.worker()
    picky = Picky(world, ids[0], TooLarge("DULY-E120", "too large"))

    class Forgetting(Picky):
        async def finish(self, worker_id: int, finished: Any, closing: Any, now: int) -> Any:
            if any(item.outcome is Outcome.FAILED for item in finished):
                worker._reports.forget()
            return await picky.finish(worker_id, finished, closing, now)

    worker._reports._outcomes = Forgetting(world, ids[0], RuntimeError())
    while not worker.is_idle or (await world.show(ids[0])).state is State.PENDING:
        await worker.step(world.clock.now())
        await asyncio.sleep(0)

    assert await states_of(world, ids) == [State.DEAD, State.SUCCEEDED]


async def test_a_result_is_not_given_up_for_a_fault_on_its_way(world: World) -> None:
    world.handle("work", quick)
    ids = await world.enqueue(await world.create(), 5)
    worker = await world.worker()
    worker._reports._outcomes = picky = Picky(world, ids[2], RuntimeError("the handler is closed"))

    await steps(worker, world)
    world.clock.turn(3)
    await steps(worker, world)
    picky.is_picky = False
    await steps(worker, world)

    assert set(await states_of(world, ids)) == {State.SUCCEEDED}
    assert not worker._reports.doubtful


async def test_a_result_that_a_broken_store_will_not_even_have_as_dead_is_kept_and_not_run_again(world: World) -> None:
    ran: list[ExecutionId] = []

    async def work(attempt: Attempt) -> None:
        ran.append(attempt.id)

    world.handle("work", work)
    ids = await world.enqueue(await world.create(), 3)
    worker = await world.worker(compare_every=0)
    is_broken = True

    class Broken:
        async def finish(self, worker: int, finished: Any, closing: Any, now: int) -> Any:
            if is_broken and any(item.id == ids[0] for item in finished):
                raise RuntimeError("out of order")
            return await world.store.outcomes.finish(worker, finished, closing, now)

    worker._reports._outcomes = Broken()  # type: ignore[assignment]
    await worker.take(world.clock.now())
    await asyncio.sleep(0)
    await worker.report(world.clock.now())
    world.clock.turn(duly.roles.reports.PATIENCE / SECOND)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            await worker.report(world.clock.now())
        await worker.take(world.clock.now())
        await asyncio.sleep(0)
    states = [(await world.show(id)).state for id in ids]
    is_broken = False
    await run_until_idle(worker, world.clock)

    assert states == [State.RUNNING, State.SUCCEEDED, State.SUCCEEDED]
    assert (await world.show(ids[0])).state is State.SUCCEEDED
    assert sorted(ran) == sorted(ids)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Custom(BaseException):
    pass


@pytest.mark.parametrize("error", [Unprintable(), Custom("odd"), SystemExit(3), KeyboardInterrupt()])
async def test_whatever_a_handler_raises_is_a_failure_of_its_attempt_alone(world: World, error: BaseException) -> None:
    async def bad(attempt: Attempt) -> None:
        raise error

    world.handle("bad", bad)
    world.handle("work", quick)
    failed = (await world.enqueue(await world.create(name="bad", target={"handler": "bad"}, retryPolicy={"maxAttempts": 1})))[0]
    worker = await world.worker(slots=1)
    await run_until_idle(worker, world.clock)
    after = (await world.enqueue(await world.create()))[0]
    await run_until_idle(worker, world.clock)

    assert ((await world.show(failed)).state, (await world.show(after)).state) == (State.DEAD, State.SUCCEEDED)


async def test_a_drain_that_interrupts_a_finish_reports_it_again(world: World) -> None:
    world.handle("work", quick)
    id = (await world.enqueue(await world.create()))[0]
    worker = await world.worker()
    await worker.step(world.clock.now())
    await asyncio.sleep(0)
    stuck = asyncio.Event()
    real = world.store.outcomes

    class Slow:
        async def finish(self, *args: Any) -> Any:
            await stuck.wait()

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    worker._reports._outcomes = Slow()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await worker.step(world.clock.now())
    assert not worker.is_idle
    worker._reports._outcomes = real
    await run_until_idle(worker, world.clock)

    assert (await world.show(id)).state is State.SUCCEEDED


async def test_a_claim_that_fails_does_not_leave_a_finish_behind(world: World) -> None:
    world.handle("work", quick)
    ids = await world.enqueue(await world.create(), 2)
    worker = await world.worker(slots=1)
    await worker.step(world.clock.now())
    await asyncio.sleep(0)
    worker._ready = Once(world.store.ready, "work", AWAY)

    with pytest.raises(Unavailable):
        await worker.step(world.clock.now())
    await run_until_idle(worker, world.clock)

    assert {(await world.show(id)).state for id in ids} == {State.SUCCEEDED}


async def test_a_cancel_reaches_what_has_been_claimed_and_not_started(world: World) -> None:
    gate = asyncio.Event()
    started: list[str] = []

    async def waits(attempt: Attempt) -> None:
        started.append(attempt.id.hex)
        await gate.wait()

    world.handle("work", waits)
    ids = await world.enqueue(await world.create(), 2)
    worker = await world.worker(slots=1)
    worker._appetite = 2
    await worker.step(world.clock.now())
    await asyncio.sleep(0)

    await world.executions.cancel(ACTOR, ids[1])
    await worker.heartbeat.beat(world.store.liveness)
    gate.set()
    await run_until_idle(worker, world.clock)

    assert (await world.show(ids[1])).state is State.CANCELLED
    assert started == [ids[0].hex]


async def test_what_waits_behind_long_handlers_is_given_back(world: World) -> None:
    async def endless(attempt: Attempt) -> None:
        await asyncio.Event().wait()

    world.handle("work", endless)
    ids = await world.enqueue(await world.create(), 20)
    hoarder = await world.worker(slots=2)
    hoarder._appetite = 20
    await steps(hoarder, world, 1)

    world.clock.turn(2)
    await steps(hoarder, world, 3)
    await world.dispatcher().step(world.clock.now())

    states = [(await world.show(id)).state for id in ids]
    assert (states.count(State.RUNNING), states.count(State.PENDING)) == (2, 18)


async def test_the_last_lines_of_a_handler_are_kept(world: World) -> None:
    async def talks(attempt: Attempt) -> None:
        attempt.log("info", "first", {})
        await asyncio.sleep(0)
        attempt.log("info", "last", {})

    world.handle("work", talks)
    ids = await world.enqueue(await world.create(), 5)
    worker = await world.worker()
    real = world.store.outcomes

    class Dawdling:
        async def append_logs(self, *args: Any) -> Any:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return await real.append_logs(*args)

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    worker._reports._outcomes = Dawdling()
    worker._logs._outcomes = worker._reports._outcomes
    await run_until_idle(worker, world.clock)

    for id in ids:
        assert [line.message for _, _, line in await world.executions.logs(ACTOR, id, None, 0, 10)] == ["first", "last"]


@pytest.mark.parametrize(
    "fields",
    [{"file": "caf\udce9.txt"}, {"bad\x00key": "a\x00b"}, {"deep": [{"x": float("nan")}]}, {"what": object()}, {"big": "x" * 100_000}],
)
async def test_a_strange_log_line_never_stops_a_worker(world: World, fields: dict[str, Any]) -> None:
    async def talks(attempt: Attempt) -> None:
        attempt.log("info", "look", fields)

    world.handle("work", talks)
    id = (await world.enqueue(await world.create()))[0]

    await run_until_idle(await world.worker(), world.clock)

    assert (await world.show(id)).state is State.SUCCEEDED
    assert len(await world.executions.logs(ACTOR, id, None, 0, 10)) == 1


async def test_a_log_that_cannot_be_written_does_not_hold_up_the_finish(world: World) -> None:
    async def talks(attempt: Attempt) -> None:
        attempt.log("info", "hello", {})

    world.handle("work", talks)
    id = (await world.enqueue(await world.create()))[0]
    worker = await world.worker()
    worker._logs._outcomes = Once(world.store.outcomes, "append_logs", RuntimeError("no room"))

    await run_until_idle(worker, world.clock)

    assert (await world.show(id)).state is State.SUCCEEDED


async def test_a_timeout_is_measured_by_a_clock_that_does_not_step(world: World) -> None:
    gate = asyncio.Event()

    async def waits(attempt: Attempt) -> str:
        await gate.wait()
        return "done"

    world.handle("work", waits)
    id = (await world.enqueue(await world.create(timeoutSec=600)))[0]
    worker = await world.worker()
    await steps(worker, world, 1)

    world.clock.instant += 3_600_000_000
    await steps(worker, world, 2)
    gate.set()
    await run_until_idle(worker, world.clock)

    assert (await world.show(id)).result == '"done"'


@pytest.mark.parametrize("fails", [None, AWAY, RuntimeError("not understood")], ids=["held", "away", "broken"])
async def test_a_report_that_no_message_could_hold_is_sent_in_parts_and_nothing_of_it_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch, fails: Exception | None
) -> None:
    monkeypatch.setattr(duly.roles.reports, "SMALL_REPORT", 3)
    monkeypatch.setattr(duly.roles.reports, "LARGEST_REPORT", 10)
    sent: list[int] = []

    class Counted:
        def __getattr__(self, name: str) -> Any:
            return getattr(world.store.outcomes, name)

        async def finish(self, worker: int, done: list[Any], *args: Any) -> Any:
            sent.append(len(done))
            if len(sent) == 2 and fails is not None:
                raise fails
            return await world.store.outcomes.finish(worker, done, *args)

    async def large(attempt: Attempt) -> str:
        return "x" * 10

    world.handle("work", large)
    ids = await world.enqueue(await world.create(), 10)
    worker = await world.worker(slots=20)
    worker._reports._outcomes = Counted()  # type: ignore[assignment]

    await steps(worker, world, 8)

    assert max(sent) == 3
    assert [(await world.show(id)).state for id in ids] == [State.SUCCEEDED] * 10
    assert worker.is_idle
