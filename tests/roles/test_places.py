"""A handler that needs more than a slot (a child process) is given no more than it has places for: slots are for those who can run."""

from __future__ import annotations

import asyncio
from typing import Any

from duly.domain.lifecycle import State
from duly.ports.handlers import Attempt, Handler
from tests.roles.conftest import World


class Pool:
    """Two places, shared by whoever is given it."""

    def __init__(self, size: int = 2) -> None:
        self.size, self.wanted = size, 0
        self.go_on = asyncio.Event()

    @property
    def free(self) -> int:
        return max(self.size - self.wanted, 0)

    async def run(self, attempt: Attempt) -> Any:
        self.wanted += 1
        try:
            await self.go_on.wait()
        finally:
            self.wanted -= 1


async def quick(attempt: Attempt) -> None:
    return None


async def step(world: World, worker: Any, times: int = 4) -> None:
    for _ in range(times):
        await worker.step(world.clock.now())
        for _ in range(5):
            await asyncio.sleep(0)


async def states(world: World, ids: list[Any]) -> list[State]:
    return [(await world.show(id)).state for id in ids]


async def test_who_could_only_wait_for_a_place_keeps_no_slot_from_others(world: World) -> None:
    pool = Pool()
    world.registry.add(Handler("heavy", pool.run, places=pool))
    world.handle("quick", quick)
    heavy = await world.enqueue(await world.create(name="heavy", target={"handler": "heavy"}), 30)
    others = await world.enqueue(await world.create(name="quick", target={"handler": "quick"}), 5)
    worker = await world.worker(slots=10)

    await step(world, worker)

    assert (await states(world, heavy)).count(State.RUNNING) == 2
    assert (await states(world, heavy)).count(State.PENDING) == 28, "what has no place is left to other workers"
    assert await states(world, others) == [State.SUCCEEDED] * 5
    pool.go_on.set()
    await step(world, worker, 40)
    assert await states(world, heavy) == [State.SUCCEEDED] * 30


async def test_handlers_that_share_places_share_them(world: World) -> None:
    pool = Pool(3)
    for name in ("one", "two"):
        world.registry.add(Handler(name, pool.run, places=pool))
    ids = [id for name in ("one", "two") for id in await world.enqueue(await world.create(name=name, target={"handler": name}), 4)]
    worker = await world.worker(slots=10)

    await step(world, worker)

    assert (await states(world, ids)).count(State.RUNNING) == 3
    pool.go_on.set()
    await step(world, worker, 10)
    assert await states(world, ids) == [State.SUCCEEDED] * 8
