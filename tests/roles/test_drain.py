"""A worker that drains: its grace is over when it is over, whatever happens in that moment."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from duly.domain.lifecycle import State
from duly.ports.handlers import Attempt
from tests.roles.conftest import ACTOR, World, run_until_idle
from tests.roles.test_halves import AWAY, Before, settled, shift_of


@pytest.mark.parametrize("turns", range(12))
async def test_a_grace_that_ends_just_when_the_heartbeat_has_news_is_over(world: World, turns: int) -> None:
    async def stays(attempt: Attempt) -> None:
        await asyncio.Event().wait()

    world.handle("work", stays)
    id = (await world.enqueue(await world.create()))[0]
    shift = shift_of(world, world.store.outcomes)
    worker = await shift.register()
    await worker.take(world.clock.now())
    worker.draining = True
    draining = asyncio.create_task(shift._step_until_idle(worker))
    await asyncio.sleep(0.01)

    worker.on_news()()
    for _ in range(turns):
        await asyncio.sleep(0)
    draining.cancel()
    await asyncio.wait((draining,), timeout=1.0)
    was_over = draining.done()
    worker.release_all()
    await shift._step_until_idle(worker)

    assert was_over
    assert (await world.show(id)).state is State.SCHEDULED


async def test_a_grace_that_ends_while_last_lines_are_sent_costs_none_of_them(world: World) -> None:
    async def talks(attempt: Attempt) -> None:
        attempt.log("info", "hello", {})

    world.handle("work", talks)
    id = (await world.enqueue(await world.create()))[0]
    worker = await world.worker()
    worker._logs._outcomes = Before(world.store.outcomes, "append_logs", asyncio.Event().wait)
    await worker.take(world.clock.now())
    await asyncio.sleep(0)
    report = asyncio.create_task(worker.report(world.clock.now()))
    await settled(report)
    report.cancel()
    await asyncio.wait((report,))
    worker._logs._outcomes = world.store.outcomes
    await run_until_idle(worker, world.clock)

    assert (await world.show(id)).state is State.SUCCEEDED
    assert [line.message for _, _, line in await world.executions.logs(ACTOR, id, None, 0, 10)] == ["hello"]


async def test_a_claim_whose_answer_is_lost_at_the_stop_is_asked_for_before_the_worker_retires(world: World) -> None:
    async def quick(attempt: Attempt) -> None:
        return None

    world.handle("work", quick)
    id = (await world.enqueue(await world.create()))[0]
    shift = shift_of(world, world.store.outcomes)
    stop = asyncio.Event()

    class Unheard:
        """A queue of which nobody hears the first claim's answer."""

        def __getattr__(self, name: str) -> Any:
            return getattr(world.store.ready, name)

        async def claim(self, *args: Any) -> Any:
            await world.store.ready.claim(*args)
            stop.set()
            raise AWAY

    shift._store = replace(world.store, ready=Unheard())
    await shift.run(stop)
    await world.sweeper().step(world.clock.now())

    found = await world.show(id)
    assert (found.state, found.attempt) == (State.SUCCEEDED, 1)
