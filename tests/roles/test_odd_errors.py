"""Whatever a handler raises ends its attempt, once, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Any, NoReturn

import pytest

from duly.domain.lifecycle import Outcome, State
from duly.ports.endings import kinds_of
from duly.ports.handlers import Attempt, Handler
from duly.roles.calls import Running
from duly.roles.endings import LONGEST_MESSAGE
from tests.roles.conftest import World, run_until_idle
from tests.roles.odd_errors import ODD, Interrupting


@pytest.mark.parametrize("which", ODD)
async def test_an_error_that_cannot_be_told_ends_its_attempt_only(world: World, which: str) -> None:
    make, kind, name = ODD[which]

    async def work(attempt: Attempt) -> None:
        if attempt.payload == "odd":
            raise make()

    world.handle("work", work)
    job = await world.create(retryPolicy={"maxAttempts": 1})
    (odd,) = await world.enqueue(job, payload='"odd"')
    (plain,) = await world.enqueue(job)

    await run_until_idle(await world.worker(slots=1), world.clock)

    stands = await world.show(odd)
    assert (stands.state, stands.last_outcome) == (State.DEAD, Outcome.FAILED)
    told: dict[str, Any] = json.loads(stands.error or "{}")
    assert told["type"] == kind
    assert len(told["message"]) <= LONGEST_MESSAGE
    assert name in kinds_of(make())
    assert (await world.show(plain)).state is State.SUCCEEDED


async def test_words_that_interrupt_are_replaced(world: World) -> None:
    async def work(attempt: Attempt) -> None:
        raise Interrupting

    world.handle("work", work)
    (id,) = await world.enqueue(await world.create(retryPolicy={"rules": [{"error": "ValueError", "retry": False}]}))

    await run_until_idle(await world.worker(), world.clock)

    stands = await world.show(id)
    assert stands.state is State.DEAD
    assert json.loads(stands.error or "{}")["message"] == "(a Interrupting that cannot be printed)"


@pytest.mark.parametrize("which", ODD)
async def test_an_error_of_a_batch_ends_each_of_its_attempts_once(world: World, which: str) -> None:
    make, kind, _ = ODD[which]
    calls: list[list[Any]] = []

    async def work(attempts: Sequence[Attempt]) -> list[Any]:
        payloads = [attempt.payload for attempt in attempts]
        calls.append(payloads)
        if "all" in payloads:
            raise make()
        return [make() if payload == "odd" else payload for payload in payloads]

    world.registry.add(Handler("work", lambda attempt: work([attempt]), run_many=work, batch=3))
    job = await world.create(retryPolicy={"maxAttempts": 1}, batch=3)
    worker, stand = await world.worker(slots=1), {}
    for payloads in (["one", "odd", "two"], ["three", "all", "four"]):
        ids = {payload: (await world.enqueue(job, payload=json.dumps(payload)))[0] for payload in payloads}
        await run_until_idle(worker, world.clock)
        stand |= {payload: await world.show(id) for payload, id in ids.items()}

    assert [sorted(call) for call in calls] == [["odd", "one", "two"], ["all", "four", "three"]]
    assert {payload for payload, one in stand.items() if one.state is State.SUCCEEDED} == {"one", "two"}
    assert {json.loads(one.error)["type"] for one in stand.values() if one.error} == {kind}
    assert {one.state for one in stand.values()} == {State.SUCCEEDED, State.DEAD}
    assert worker.refused == 0


class Refusing(list[Any]):
    """Results that end before they should."""

    def __iter__(self) -> Iterator[Any]:
        yield 1
        raise GeneratorExit


class Hourless(tzinfo):
    """Whoever writes its times down is interrupted."""

    def utcoffset(self, at: datetime | None) -> NoReturn:
        raise KeyboardInterrupt


async def test_results_of_a_batch_that_cannot_be_read_end_each_of_its_attempts_once(world: World) -> None:
    results = [Refusing([1, 2]), [1, datetime(2026, 1, 1, tzinfo=Hourless())]]

    async def work(attempts: Sequence[Attempt]) -> list[Any]:
        return results.pop(0)

    world.registry.add(Handler("work", lambda attempt: work([attempt]), run_many=work, batch=2))
    job, worker = await world.create(retryPolicy={"maxAttempts": 1}, batch=2), await world.worker(slots=1)
    stand = []
    while results:
        ids = await world.enqueue(job, 2)
        await run_until_idle(worker, world.clock)
        stand += [await world.show(id) for id in ids]

    assert [one.state for one in stand[:2]] == [State.DEAD, State.DEAD]
    assert sorted(one.state for one in stand[2:]) == [State.SUCCEEDED, State.DEAD]
    assert [json.loads(one.error)["type"] for one in stand if one.error] == ["GeneratorExit", "GeneratorExit", "KeyboardInterrupt"]
    assert worker.refused == 0


async def test_a_handler_that_closes_itself_has_failed(world: World) -> None:
    async def work(attempt: Attempt) -> None:
        raise GeneratorExit

    world.handle("work", work)
    (id,) = await world.enqueue(await world.create(timeoutSec=20, retryPolicy={"maxAttempts": 2, "initialDelayMs": 0}))

    worker = await world.worker()
    await run_until_idle(worker, world.clock)

    assert [attempt.outcome for attempt in await world.store.insights.attempts(id)] == [Outcome.FAILED]
    assert (await world.show(id)).state is not State.RUNNING


@pytest.mark.parametrize("batch", [1, 2])
async def test_a_runner_that_is_closed_ends_without_a_word(world: World, batch: int) -> None:
    async def work(attempts: Any) -> None:
        await asyncio.Event().wait()

    world.registry.add(Handler("work", work, run_many=work, batch=2))
    await world.enqueue(await world.create(batch=batch))
    worker = await world.worker()
    runners = worker._runners
    made: list[Any] = []
    run = runners._run
    runners._run = lambda: made.append(run()) or made[-1]  # type: ignore[method-assign, func-returns-value]
    await worker.step(world.clock.now())
    await asyncio.sleep(0)
    [running] = runners._tasks

    await asyncio.to_thread(made[0].close)

    assert not runners.done
    running.cancel()
    with pytest.raises(RuntimeError, match="cannot reuse"):
        await running


async def test_a_runner_that_a_handler_cancels_before_it_begins_leaves_its_work_to_another(world: World) -> None:
    seen: list[Any] = []
    all_seen = asyncio.Event()

    async def work(attempt: Attempt) -> None:
        seen.append(attempt.id)
        if len(seen) == 1:
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                if task.get_name() == "duly-runner":
                    task.cancel()
            await all_seen.wait()
        if len(seen) == 4:
            all_seen.set()

    world.handle("work", work)
    ids = await world.enqueue(await world.create(), 4)
    worker = await world.worker(slots=2)
    while not worker._runners.buffer:
        await worker.step(world.clock.now())
    # Another one for what is left, which has not begun when the first handler runs.
    worker._runners._start(1)

    await run_until_idle(worker, world.clock)

    assert sorted(seen) == sorted(ids)
    assert {(await world.show(id)).state for id in ids} == {State.SUCCEEDED}


async def test_what_is_left_of_a_runner_that_dies_is_run(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def work(attempt: Attempt) -> None:
        return None

    world.handle("work", work)
    ids = await world.enqueue(await world.create(), 3)
    worker = await world.worker(slots=1)
    runners, begin = worker._runners, Running.begin
    faults = [OSError("a bug")]

    def fail(call: Running, *args: Any) -> None:
        if faults:
            raise faults.pop()
        begin(call, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Running, "begin", fail)
        for _ in range(10):
            await worker.step(world.clock.now())
            await asyncio.sleep(0)

        assert "a runner died" in caplog.text
        assert not runners.buffer
        # The one that it had taken is found when the worker compares what it has with what it holds.
        world.clock.turn(4)
        assert await worker.heartbeat.beat(world.store.liveness)
        worker._compared_at -= worker.settings.compare_every
        await run_until_idle(worker, world.clock)

    assert {(await world.show(id)).state for id in ids} == {State.SUCCEEDED}
