"""Ownership when somebody tells who is there: rightly, wrongly, or not at all."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from duly.domain.instants import SECOND, to_rfc3339
from duly.domain.shards import SHARDS, heirs_of, shard_of
from duly.ports.presence import LeaseService
from duly.roles.ownership import Ownership, OwnershipSettings
from tests.roles.conftest import World


class Told:
    """Says what it is told to say."""

    def __init__(self, *gone: str) -> None:
        self.gone = set(gone)
        self.news = asyncio.Event()

    async def enter(self, name: str) -> None: ...

    async def leave(self) -> None: ...

    def left(self) -> frozenset[str]:
        return frozenset(self.gone)

    async def changed(self) -> None:
        await self.news.wait()
        self.news.clear()

    async def look(self) -> LeaseService:
        return LeaseService("told", is_reachable=True)


async def _three(world: World, *told: Told) -> list[Ownership]:
    """Three that have shared the shards."""
    made = [Ownership(f"d{n}", world.store.leases, world.clock, OwnershipSettings(), one) for n, one in enumerate(told, 1)]
    for _ in range(4):
        world.clock.turn(2)
        for one in made:
            await one.refresh(world.clock.now())
    assert sum(len(one.epochs()) for one in made) == SHARDS
    return made


async def test_the_heirs_of_one_who_is_said_to_have_left_do_not_wait_for_late_work(world: World) -> None:
    first, second = Told(), Told()
    heir, other, dead = await _three(world, first, second, Told())
    before = dict(dead.epochs())

    for told in (first, second):
        told.gone.add("d3")
    world.clock.turn(0.2)
    await heir.refresh(world.clock.now())
    await other.refresh(world.clock.now())

    now = heir.epochs() | other.epochs()
    assert len(now) == SHARDS
    assert all(now[shard] > epoch for shard, epoch in before.items())
    assert not heir.epochs().keys() & other.epochs().keys()


async def test_of_two_believers_the_one_of_the_old_epoch_commits_nothing(world: World) -> None:
    told = Told()
    believer, *others = await _three(world, told, Told(), Told())
    at = world.clock.now() + SECOND
    job = await world.create(runAt=to_rfc3339(at))
    former = next((one for one in others if shard_of(job.id) in one.epochs()), others[0])
    world.clock.turn(1)

    told.gone = {"d2", "d3"}
    await believer.refresh(world.clock.now())

    assert former.epochs().keys() <= believer.epochs().keys(), "both believe"
    for owner in (former, believer, former):
        dispatcher = world.dispatcher()
        dispatcher._ownership = owner
        await dispatcher._fire(owner.epochs(), world.clock.now())
    assert len(await world.all()) == 1
    due = await world.store.schedules.due_schedules(range(SHARDS), world.clock.now(), 10)
    assert due == []


async def test_one_who_was_said_to_have_left_and_lives_is_handed_his_shards_when_the_hint_is_dropped(world: World) -> None:
    told = Told()
    first, living, third = await _three(world, told, Told(), Told())
    mine = set(living.epochs())
    told.gone = {"d2"}
    world.clock.turn(1)
    await first.refresh(world.clock.now())
    taken = mine & first.epochs().keys()

    told.gone = set()
    for _ in range(6):
        world.clock.turn(2)
        for one in (first, living, third):
            await one.refresh(world.clock.now())

    assert taken
    assert set(living.epochs()) == mine


async def test_one_who_is_said_to_be_there_and_is_dead_is_found_by_the_leases(world: World) -> None:
    heir, other, _dead = await _three(world, Told(), Told(), Told())

    for _ in range(6):
        world.clock.turn(2)
        await heir.refresh(world.clock.now())
        await other.refresh(world.clock.now())

    assert len(heir.epochs() | other.epochs()) == SHARDS


async def test_news_makes_the_next_look_come_at_once(world: World) -> None:
    told = Told()
    heir, _, _ = await _three(world, told, Told(), Told())
    world.clock.turn(0.2)
    await heir.refresh(world.clock.now())
    told.gone = {"d3"}
    assert not await heir.refresh(world.clock.now()), "the next glance is not due"

    told.news.set()
    await heir.news()

    assert await heir.refresh(world.clock.now())


async def test_who_rests_is_woken_by_news(world: World) -> None:
    told = Told()
    dispatcher = world.dispatcher()
    dispatcher._ownership = Ownership("d1", world.store.leases, world.clock, OwnershipSettings(), told)
    resting = asyncio.create_task(dispatcher.wait(60))

    told.news.set()

    async with asyncio.timeout(30):
        await resting


async def test_a_believer_who_comes_too_late_to_take_strikes_nobody_off(world: World) -> None:
    told = Told()
    first, living, third = await _three(world, told, Told(), Told())
    epochs = dict(living.epochs())

    class Late:
        """What he sees is old by the time he takes: everybody has stirred since."""

        def __getattr__(self, name: str) -> Any:
            async def call(*args: Any) -> Any:
                if name == "take":
                    world.clock.turn(0.01)
                    for one in (living, third):
                        await world.store.leases.stir(one.name, sorted(one.epochs()), world.clock.now())
                return await getattr(world.store.leases, name)(*args)

            return call

    first._leases = Late()  # type: ignore[assignment]
    told.gone = {"d2", "d3"}
    world.clock.turn(0.2)
    await first.refresh(world.clock.now())

    assert living.epochs() == epochs
    assert not first.epochs().keys() & epochs.keys()
    assert await world.store.leases.announce_dispatcher("d1", world.clock.now(), OwnershipSettings().ttl) == ["d1", "d2", "d3"]


async def test_one_without_shards_among_others_rests_for_a_glance(world: World) -> None:
    await _three(world, Told(), Told(), Told())
    newcomer = Ownership("d4", world.store.leases, world.clock, OwnershipSettings(), Told())

    rests = []
    for _ in range(3):
        await newcomer.refresh(world.clock.now())
        rests.append(newcomer.longest_rest())
        world.clock.turn(0.125)

    assert newcomer.epochs() == {}
    assert rests == [OwnershipSettings().glance_every] * 3


async def test_the_look_at_which_somebody_s_time_is_up_comes_when_it_is_due(world: World) -> None:
    heir, other, dead = await _three(world, Told(), Told(), Told())
    shard = min(shard for shard in dead.epochs() if heirs_of(shard, ["d1", "d2"])[0] == "d1")
    await _work_in(world, shard)
    world.clock.turn(0.25)
    settings = OwnershipSettings()

    slept = 0
    while shard not in heir.epochs():
        await heir.refresh(world.clock.now())
        await other.refresh(world.clock.now())
        rest = heir.longest_rest() or settings.glance_every
        slept += rest
        world.clock.turn(rest / SECOND)

    # Seen as late at once, and taken when its owner had been still for so long; the last rest is after that.
    assert slept <= settings.still_for + 2 * settings.glance_every


async def _work_in(world: World, shard: int) -> None:
    """Something that is due now, in this shard."""
    for nth in itertools.count():
        job = await world.create(name=f"job-{nth}")
        if shard_of(job.id) == shard:
            await world.enqueue(job, run_at=world.clock.now() + 1)
            world.clock.turn(0.000_001)
            return
