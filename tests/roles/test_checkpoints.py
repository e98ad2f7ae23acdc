"""Checkpoints and progress, from the handler to the store and back into the next attempt."""

from __future__ import annotations

import asyncio
import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from duly import LeaseLost
from duly.domain.errors import TooLarge, Unavailable
from duly.domain.execution import Saved
from duly.domain.instants import MINUTE
from duly.domain.lifecycle import State
from duly.executors.python import python_handlers
from duly.ports.handlers import Attempt, ExecutorKind, PythonCall
from duly.roles.keeper import CheckpointKeeper
from duly.sdk.checkpoint import LARGEST_CHECKPOINT
from duly.sdk.context import Context
from duly.wire.executions import execution_view
from tests.roles.conftest import World, run_until_idle

POLICY = {"maxAttempts": 3, "backoff": "FIXED", "initialDelayMs": 1000, "jitter": 0}


async def test_the_next_attempt_begins_with_the_last_acknowledged_one(world: World) -> None:
    found: list[Any] = []

    async def counts(attempt: Attempt) -> int:
        ctx = Context(attempt)
        found.append(ctx.last_checkpoint)
        for row in range(ctx.last_checkpoint or 0, 10):
            await ctx.checkpoint(row + 1)
            if row + 1 in (3, 7) and found[-1] != row + 1 and len(found) < 3:
                raise RuntimeError("half way")
        return int(ctx.last_checkpoint)

    world.handle("work", counts)
    (id,) = await world.enqueue(await world.create(retryPolicy=POLICY))
    worker, dispatcher = await world.worker(), world.dispatcher()
    for _ in range(3):
        for _ in range(20):
            await worker.step(world.clock.now())
            await asyncio.sleep(0.001)
        await run_until_idle(worker, world.clock)
        world.clock.turn(1)
        await worker.heartbeat.beat(world.store.liveness)
        await dispatcher.step(world.clock.now())

    done = await world.show(id)
    assert (done.state, done.result, found) == (State.SUCCEEDED, "10", [None, 3, 7])
    view = execution_view(done)
    assert view.checkpoint is not None
    # Numbers grow over the attempts.
    assert view.checkpoint.number == 10


async def test_a_thread_waits_until_it_is_committed(world: World) -> None:
    committed: list[Saved | None] = []
    saved, looked = threading.Event(), threading.Event()

    def saves(attempt: Attempt) -> None:
        Context(attempt).checkpoint({"row": 1})
        saved.set()
        looked.wait(10)

    (handler,) = python_handlers({"work": PythonCall("work", ExecutorKind.THREAD, saves)}, threads=1, processes=None)
    world.registry.add(handler)
    (id,) = await world.enqueue(await world.create())
    worker = await world.worker()
    await worker.step(world.clock.now())

    assert await asyncio.to_thread(saved.wait, 10)
    committed.append((await world.store.checkpoints.saved([id])).get(id))
    looked.set()
    while (await world.show(id)).state is State.RUNNING:
        await worker.step(world.clock.now())
        await asyncio.sleep(0.001)

    assert committed == [Saved(1, '{"row":1}', None, world.clock.now())]
    assert handler.close is not None
    await handler.close()


async def test_one_that_is_too_large_is_refused_and_nothing_is_written(world: World) -> None:
    async def saves(attempt: Attempt) -> str:
        ctx = Context(attempt)
        await ctx.checkpoint("x" * (LARGEST_CHECKPOINT - 2))
        with pytest.raises(TooLarge) as refused:
            await ctx.checkpoint("x" * (LARGEST_CHECKPOINT - 1))
        return refused.value.code

    world.handle("work", saves)
    (id,) = await world.enqueue(await world.create())
    worker = await world.worker()
    await worker.step(world.clock.now())
    while (await world.show(id)).state is State.RUNNING:
        await asyncio.sleep(0.001)
        await worker.step(world.clock.now())

    assert (await world.show(id)).result == '"DULY-E130"'
    assert (await world.store.checkpoints.saved([id]))[id].number == 1


async def test_who_no_longer_holds_the_execution_is_told(world: World) -> None:
    lost, outcome = asyncio.Event(), asyncio.Queue[str]()

    async def saves(attempt: Attempt) -> None:
        await lost.wait()
        try:
            await Context(attempt).checkpoint(1)
        except LeaseLost:
            await outcome.put("lost")

    world.handle("work", saves)
    (id,) = await world.enqueue(await world.create())
    worker = await world.worker()
    await worker.step(world.clock.now())
    await asyncio.sleep(0)

    # Buried by the sweeper while it still trusts itself: only the store can say no.
    later = world.clock.now() + MINUTE
    await world.store.losses.bury_workers(later)
    await world.sweeper().step(later)
    lost.set()

    assert await outcome.get() == "lost"
    assert await world.store.checkpoints.saved([id]) == {}


async def test_several_at_once_are_committed_in_their_order(world: World) -> None:
    async def saves(attempt: Attempt) -> None:
        ctx = Context(attempt)
        await asyncio.gather(*(ctx.checkpoint(number) for number in range(10)))

    world.handle("work", saves)
    (id,) = await world.enqueue(await world.create())
    worker = await world.worker()
    await worker.step(world.clock.now())
    while (await world.show(id)).state is State.RUNNING:
        await asyncio.sleep(0.001)
        await worker.step(world.clock.now())

    assert (await world.show(id)).state is State.SUCCEEDED
    assert (await world.store.checkpoints.saved([id]))[id].checkpoint == "9"


async def test_a_store_that_is_away_for_a_moment_costs_only_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    save, tries = world.store.checkpoints.save, []

    async def answers_late(*args: Any) -> bool:
        tries.append(args[3])
        kept = await save(*args)
        if len(tries) < 3:
            # It was written, and the answer is lost.
            raise Unavailable("DULY-E501", "away")
        return kept

    monkeypatch.setattr(world.store.checkpoints, "save", answers_late)

    async def saves(attempt: Attempt) -> None:
        await Context(attempt).checkpoint("kept")

    world.handle("work", saves)
    (id,) = await world.enqueue(await world.create())
    worker = await world.worker()
    await worker.step(world.clock.now())
    while (await world.show(id)).state is State.RUNNING:
        await asyncio.sleep(0.01)
        await worker.step(world.clock.now())

    assert ((await world.show(id)).state, tries) == (State.SUCCEEDED, [1, 1, 1])


async def test_progress_is_shown_while_it_runs_and_after_its_end(world: World) -> None:
    gate = asyncio.Event()

    async def works(attempt: Attempt) -> None:
        ctx = Context(attempt)
        for row in range(100):
            ctx.progress(row, 200, "reading")
        await gate.wait()
        ctx.progress(200, 200)

    world.handle("work", works)
    (id,) = await world.enqueue(await world.create())
    worker = await world.worker()
    await worker.step(world.clock.now())
    await asyncio.sleep(0)
    await worker.step(world.clock.now())

    def progress(text: Any) -> Any:
        return json.loads(bytes(text))

    assert progress(execution_view(await world.show(id)).progress) == {"done": 99, "total": 200, "message": "reading"}
    gate.set()
    await run_until_idle(worker, world.clock)
    assert progress(execution_view(await world.show(id)).progress) == {"done": 200, "total": 200}


async def test_a_number_that_nobody_waited_for_is_not_used_again() -> None:
    """It may be committed, and with other data it would be refused: then a handler that runs would be told that its lease is lost."""
    committed: list[tuple[int, str]] = []
    answers = asyncio.Event()

    async def save(worker: int, lease: int, id: Any, number: int, data: str, now: int) -> bool:
        committed.append((number, data))
        await answers.wait()
        return True

    checkpoints: Any = SimpleNamespace(save=save)
    heartbeat: Any = SimpleNamespace(worker=1, is_trusted=True)
    attempt: Any = SimpleNamespace(extras=SimpleNamespace(kept=None), kept=None, over=False, fence=1, id=None)
    clock: Any = SimpleNamespace(now=lambda: 0)
    keeper = CheckpointKeeper(checkpoints, heartbeat, clock)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.wrap_future(keeper.keep(attempt, "1")), 0.01)
    attempt.kept = attempt.extras.kept
    answers.set()
    await asyncio.wrap_future(keeper.keep(attempt, "2"))

    assert committed == [(1, "1"), (2, "2")]
    assert attempt.kept.data == "2"
