"""Lost workers, and the loop that steps every role."""

from __future__ import annotations

import asyncio

from duly.domain.errors import Unavailable
from duly.domain.lifecycle import State
from duly.ports.handlers import Attempt
from duly.roles import loop
from tests.roles.conftest import World


async def endless(attempt: Attempt) -> None:
    await asyncio.Event().wait()


async def test_a_job_that_kills_its_worker_three_times_is_quarantined_with_the_cause(world: World) -> None:
    world.handle("work", endless)
    id = (await world.enqueue(await world.create()))[0]
    dispatcher, sweeper = world.dispatcher(), world.sweeper()

    for _ in range(3):
        worker = await world.worker()
        await worker.step(world.clock.now())
        world.clock.turn(16)
        await sweeper.step(world.clock.now())
        world.clock.turn(2)
        await dispatcher.step(world.clock.now())

    dead = await world.show(id)
    assert dead.state is State.DEAD
    assert "killed its worker 3 times" in str(dead.error)


async def test_a_live_worker_is_left_alone(world: World) -> None:
    world.handle("work", endless)
    id = (await world.enqueue(await world.create()))[0]
    worker = await world.worker()
    await worker.step(world.clock.now())

    for _ in range(5):
        world.clock.turn(5)
        assert await worker.heartbeat.beat(world.store.liveness)
        await world.sweeper().step(world.clock.now())

    assert (await world.show(id)).state is State.RUNNING


async def test_a_buried_worker_cannot_renew(world: World) -> None:
    worker = await world.worker()
    world.clock.turn(16)
    await world.sweeper().step(world.clock.now())

    assert not await worker.heartbeat.beat(world.store.liveness)
    assert not worker.heartbeat.is_trusted


async def test_the_loop_backs_off_while_the_world_is_away_and_goes_on_when_it_is_back(world: World) -> None:
    stop = asyncio.Event()

    class Flaky:
        name = "flaky"
        steps = 0

        async def step(self, now: int) -> loop.Step:
            self.steps += 1
            if self.steps == 1:
                raise Unavailable("DULY-E501", "away")
            if self.steps == 2:
                raise RuntimeError("a bug")
            stop.set()
            return loop.Step(0.0)

    role = Flaky()
    async with asyncio.timeout(30):
        await loop.run(role, world.clock, stop, lambda bits: 0)

    assert role.steps == 3


async def test_a_hint_ends_the_rest_early(world: World) -> None:
    stop, hint = asyncio.Event(), asyncio.Event()

    class Patient:
        name = "patient"
        steps = 0

        async def step(self, now: int) -> loop.Step:
            self.steps += 1
            if self.steps == 2:
                stop.set()
            hint.set()
            return loop.Step(3600.0)

    role = Patient()
    async with asyncio.timeout(30):
        await loop.run(role, world.clock, stop, lambda bits: 0, lambda seconds: hint.wait())

    assert role.steps == 2
