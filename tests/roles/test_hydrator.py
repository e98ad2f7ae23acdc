"""The hydrator: what comes up is in the index before it is due, and an index with a gap is filled at once."""

from __future__ import annotations

import asyncio

import pytest

from duly.adapters.memory.hot_index import MemoryHotIndex
from duly.domain.instants import SECOND
from duly.domain.shards import SHARDS, shard_of
from duly.roles.dispatcher import Dispatcher, DispatcherSettings
from duly.roles.hydrator import Hydrator, HydratorSettings
from duly.roles.ownership import Ownership, OwnershipSettings
from duly.usecases.quotas import Directory
from tests.roles.conftest import World


class Pair:
    """A dispatcher and its hydrator, on one index."""

    def __init__(self, world: World, **settings: int) -> None:
        self.index = MemoryHotIndex()
        self.ownership = Ownership("d1", world.store.leases, world.clock, OwnershipSettings())
        self.dispatcher = Dispatcher(
            self.ownership,
            world.store.schedules,
            world.store.definitions,
            Directory(world.store.tenants, world.clock),
            self.index,
            world.transport,
            world.clock,
            DispatcherSettings(),
        )
        self.hydrator = Hydrator(
            self.ownership,
            world.store.schedules,
            self.index,
            world.transport,
            HydratorSettings(**settings),  # type: ignore[arg-type]
        )


async def test_what_comes_up_is_met_in_time(world: World) -> None:
    pair = Pair(world)
    await world.create(schedule="* * * * *")
    world.clock.turn(59.5)
    await pair.dispatcher.step(world.clock.now())

    assert (await pair.hydrator.step(world.clock.now())).did == {"hydrated": 1}

    step = await pair.dispatcher.step(world.clock.now())
    assert step.wait == pytest.approx(0.5)


async def test_a_dispatcher_that_gets_shards_has_its_hydrator_fill_them_at_once(world: World) -> None:
    pair = Pair(world)
    assert (await pair.hydrator.step(world.clock.now())).did == {}
    waiting = asyncio.create_task(pair.hydrator.wait(60))
    await asyncio.sleep(0)
    assert not waiting.done()

    await pair.dispatcher.step(world.clock.now())

    async with asyncio.timeout(30):
        await waiting
    await pair.hydrator.step(world.clock.now())
    await pair.dispatcher.step(world.clock.now())
    assert not await pair.index.wait_gap(0)


async def test_where_there_is_more_than_it_may_bring_it_comes_again_sooner(world: World) -> None:
    pair = Pair(world, limit=3)
    await pair.dispatcher.step(world.clock.now())
    for second in range(2, 12, 2):
        await world.create(name=f"job-{second}", runAt=f"2026-03-01T12:00:{second:02d}Z")

    step = await pair.hydrator.step(world.clock.now())

    assert step.did == {"hydrated": 3}
    assert step.wait == pytest.approx(3.0)
    assert await pair.index.take(range(SHARDS), world.clock.now()) == world.clock.now() + 2 * SECOND


async def test_only_what_is_within_the_window_is_brought(world: World) -> None:
    pair = Pair(world)
    await pair.dispatcher.step(world.clock.now())
    near = await world.create(name="near", runAt="2026-03-01T12:00:30Z")
    await world.create(name="far", runAt="2026-03-01T12:00:31Z")

    await pair.hydrator.step(world.clock.now())

    assert await pair.index.take([shard_of(near.id)], world.clock.now()) == world.clock.now() + 30 * SECOND
    assert await pair.index.take(range(SHARDS), world.clock.now() + 30 * SECOND) is None


async def test_instants_that_were_announced_are_met_each_in_time_without_the_index(world: World) -> None:
    pair = Pair(world)
    await pair.dispatcher.step(world.clock.now())
    now = world.clock.now()
    for at in (now + 3 * SECOND // 10, now + 2 * SECOND // 10, now + 3600 * SECOND):
        await world.transport.announce_due(at)
    await pair.dispatcher.wait(1.0)

    assert (await pair.dispatcher.step(world.clock.now())).wait == pytest.approx(0.2)
    world.clock.turn(0.25)
    assert (await pair.dispatcher.step(world.clock.now())).wait == pytest.approx(0.05)
    world.clock.turn(0.1)
    assert (await pair.dispatcher.step(world.clock.now())).wait == 1.0


async def test_a_dispatcher_that_knows_of_nothing_looks_all_the_same(world: World) -> None:
    """Whatever became of every hint: the store is asked again within a second."""
    pair = Pair(world)
    await world.create(schedule="* * * * *")

    while not await world.all():
        step = await pair.dispatcher.step(world.clock.now())
        assert step.wait <= 1.0
        world.clock.turn(step.wait)

    [fired] = await world.all()
    assert 0 <= fired.created_at - fired.due_at <= SECOND
