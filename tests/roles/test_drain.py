"""A worker that drains: its grace is over when it is over, whatever happens in that moment."""

from __future__ import annotations

import asyncio

import pytest

from duly.domain.lifecycle import State
from duly.ports.handlers import Attempt
from tests.roles.conftest import World
from tests.roles.test_halves import shift_of


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
