"""Who owns which shard."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable
from typing import Any

from duly.domain.errors import Unavailable
from duly.domain.instants import HOUR, MINUTE, SECOND, Micros, to_rfc3339
from duly.domain.job import Job
from duly.domain.shards import SHARDS, shard_of
from duly.roles.ownership import Ownership, OwnershipSettings
from tests.roles.conftest import ACTOR, World
from tests.roles.test_trust import Slow


def _ownership(world: World, name: str) -> Ownership:
    return Ownership(name, world.store.leases, world.clock, OwnershipSettings())


async def test_one_dispatcher_owns_everything(world: World) -> None:
    only = _ownership(world, "d1")

    await only.refresh(world.clock.now())

    assert sorted(only.epochs()) == list(range(SHARDS))


async def test_a_second_dispatcher_gets_its_share_and_nothing_is_owned_twice(world: World) -> None:
    first, second = _ownership(world, "d1"), _ownership(world, "d2")
    await first.refresh(world.clock.now())

    for _ in range(4):
        world.clock.turn(2)
        await second.refresh(world.clock.now())
        await first.refresh(world.clock.now())

    assert not first.epochs().keys() & second.epochs().keys()
    assert len(first.epochs()) + len(second.epochs()) == SHARDS
    assert min(len(first.epochs()), len(second.epochs())) > SHARDS // 4


async def test_a_dispatcher_that_leaves_hands_over_at_once(world: World) -> None:
    first, second = _ownership(world, "d1"), _ownership(world, "d2")
    await first.refresh(world.clock.now())
    await first.leave(world.clock.now())

    await second.refresh(world.clock.now())

    assert len(second.epochs()) == SHARDS
    assert first.epochs() == {}


async def test_a_dead_dispatcher_s_shards_are_taken_under_higher_epochs(world: World) -> None:
    dead, heir = _ownership(world, "d1"), _ownership(world, "d2")
    await dead.refresh(world.clock.now())
    before = dict(dead.epochs())

    world.clock.turn(7)
    await heir.refresh(world.clock.now())

    assert len(heir.epochs()) == SHARDS
    assert all(heir.epochs()[shard] > epoch for shard, epoch in before.items())


async def test_a_paused_dispatcher_steps_down_by_its_own_clock(world: World) -> None:
    paused = _ownership(world, "d1")
    await paused.refresh(world.clock.now())

    world.clock.uptime += 5_000_001

    assert paused.epochs() == {}


async def test_a_shard_that_was_taken_without_an_answer_is_known_at_the_next_look(world: World) -> None:
    only = _ownership(world, "d1")
    await world.store.leases.announce_dispatcher("d1", world.clock.now(), 6_000_000)
    seen = (await world.store.leases.shards())[7:8]
    await world.store.leases.take(seen, "d1", world.clock.now(), 6_000_000)

    await only.refresh(world.clock.now())

    assert len(only.epochs()) == SHARDS
    assert only.epochs()[7] == 1


async def test_a_lease_from_before_the_clock_was_set_back_is_not_waited_for(world: World) -> None:
    dead, heir = _ownership(world, "d1"), _ownership(world, "d2")
    await dead.refresh(world.clock.now())

    world.clock.instant -= 3_600_000_000
    await heir.refresh(world.clock.now())

    assert len(heir.epochs()) == SHARDS


async def test_who_cannot_hear_the_store_does_not_keep_his_shards_from_the_others(world: World) -> None:
    deaf, other = _ownership(world, "d1"), _ownership(world, "d2")
    await deaf.refresh(world.clock.now())
    await other.refresh(world.clock.now())

    class Deaf:
        """Whatever he asks is done, and no answer reaches him."""

        def __getattr__(self, name: str) -> Any:
            async def unheard(*args: Any) -> Any:
                await getattr(world.store.leases, name)(*args)
                raise Unavailable("DULY-E501", "no answer in time")

            return unheard

    deaf._leases = Deaf()  # type: ignore[assignment]
    for _ in range(8):
        world.clock.turn(2)
        with contextlib.suppress(Unavailable):
            await deaf.refresh(world.clock.now())
        await other.refresh(world.clock.now())

    assert len(other.epochs()) == SHARDS


async def test_who_is_too_slow_to_renew_in_time_leaves_the_shards_to_the_others(world: World) -> None:
    slow, other = _ownership(world, "d1"), _ownership(world, "d2")
    await slow.refresh(world.clock.now())
    await other.refresh(world.clock.now())
    rounds = unserved = 0

    class Slow:
        """Every word of his takes more than two seconds, in which the other one goes on."""

        def __getattr__(self, name: str) -> Any:
            async def slowly(*args: Any) -> Any:
                nonlocal unserved
                answer = await getattr(world.store.leases, name)(*args)
                world.clock.turn(2.1)
                await other.refresh(world.clock.now())
                unserved = max(unserved, SHARDS - len(other.epochs())) if rounds > 4 else 0
                return answer

            return slowly

    slow._leases = Slow()  # type: ignore[assignment]
    for rounds in range(12):  # noqa: B007 (the slow one looks at it)
        world.clock.turn(2)
        await slow.refresh(world.clock.now())

    assert unserved == 0


async def test_who_is_slow_and_alone_serves_all_the_same(world: World) -> None:
    only = _ownership(world, "d1")

    class Slow:
        def __getattr__(self, name: str) -> Any:
            async def slowly(*args: Any) -> Any:
                world.clock.turn(1.1 if name == "take" else 2.1)
                return await getattr(world.store.leases, name)(*args)

            return slowly

    only._leases = Slow()  # type: ignore[assignment]
    await only.refresh(world.clock.now())

    assert await world.store.leases.announce_dispatcher("d1", world.clock.now(), 6_000_000) == ["d1"]
    assert {lease.owner for lease in await world.store.leases.shards()} == {"d1"}


class TestGlances:
    """Between renewals: the work itself tells who is dead."""

    async def work(self, world: World, shards: Iterable[int], *, due_in: Micros = 1000, timers: bool = False) -> list[Job]:
        """A job for each of these shards with something that is due in a moment."""
        found: dict[int, Job] = {}
        at = world.clock.now() + due_in
        wanted = set(shards)
        for nth in itertools.count():
            if found.keys() == wanted:
                return list(found.values())
            job = await world.create(name=f"job-{nth}", **({} if timers else {"runAt": to_rfc3339(at)}))
            if shard_of(job.id) not in wanted or shard_of(job.id) in found:
                await world.jobs.cancel(ACTOR, job.id)
                continue
            found[shard_of(job.id)] = job
            if timers:
                await world.enqueue(job, run_at=at)
        raise AssertionError

    async def fleet(self, world: World, count: int = 3) -> list[Ownership]:
        fleet = [_ownership(world, f"d{nth}") for nth in range(count)]
        for _ in range(4):
            world.clock.turn(2)
            for one in fleet:
                await one.refresh(world.clock.now())
        assert sum(len(one.epochs()) for one in fleet) == SHARDS
        return fleet

    async def seconds_until_all_is_owned(self, world: World, left: list[Ownership]) -> float:
        began = world.clock.now()
        while sum(len(one.epochs()) for one in left) < SHARDS:
            world.clock.turn(left[0].longest_rest() / SECOND)
            for one in left:
                await one.refresh(world.clock.now())
            assert world.clock.now() < began + MINUTE
        return (world.clock.now() - began) / SECOND

    async def seconds_until_all_are_owned_but(self, world: World, left: list[Ownership], dead: Ownership) -> float:
        """Until everything is theirs that is not of one who is dead and has nothing to do."""
        began, his = world.clock.now(), set(dead.epochs())
        while {shard for one in left for shard in one.epochs()} | his != set(range(SHARDS)):
            world.clock.turn(left[0].longest_rest() / SECOND)
            for one in left:
                await one.refresh(world.clock.now())
            assert world.clock.now() < began + MINUTE
        return (world.clock.now() - began) / SECOND

    async def test_a_dead_dispatcher_s_work_is_late_by_less_than_a_second(self, world: World) -> None:
        dead, *left = await self.fleet(world)
        await self.work(world, dead.epochs())

        assert await self.seconds_until_all_is_owned(world, left) < 0.9

    async def test_one_late_job_is_enough_to_take_all_shards_of_the_dead(self, world: World) -> None:
        dead, *left = await self.fleet(world, 2)
        await self.work(world, [min(dead.epochs())])

        assert await self.seconds_until_all_is_owned(world, left) < 0.9

    async def test_a_late_timer_is_work_too(self, world: World) -> None:
        dead, *left = await self.fleet(world, 2)
        await self.work(world, [min(dead.epochs())], timers=True)

        assert await self.seconds_until_all_is_owned(world, left) < 0.9

    async def test_who_leaves_is_followed_at_the_next_glance(self, world: World) -> None:
        leaver, *left = await self.fleet(world)
        await leaver.leave(world.clock.now())

        assert await self.seconds_until_all_is_owned(world, left) <= 0.125

    async def test_who_leaves_says_so_and_nobody_waits_for_a_glance(self, world: World) -> None:
        leaver, heir = world.dispatcher("d1"), world.dispatcher("d2")
        for _ in range(4):
            world.clock.turn(2)
            await leaver.step(world.clock.now())
            await heir.step(world.clock.now())

        await leaver.stop()
        await heir.wait(5)
        await heir.step(world.clock.now())

        assert [lease.owner for lease in await world.store.leases.shards()] == ["d2"] * SHARDS

    async def test_without_late_work_nobody_is_taken_for_dead(self, world: World) -> None:
        idle, other = await self.fleet(world, 2)
        await self.work(world, [min(idle.epochs())], due_in=HOUR)
        before = dict(idle.epochs())

        for _ in range(12):
            world.clock.turn(0.13)
            await other.refresh(world.clock.now())

        assert await world.store.leases.renew(idle.name, before, world.clock.now(), SECOND) == sorted(before)

    async def test_who_is_behind_and_stirs_keeps_his_shards(self, world: World) -> None:
        busy, other = await self.fleet(world, 2)
        await self.work(world, [min(busy.epochs())])
        before = dict(busy.epochs())

        for _ in range(40):
            world.clock.turn(0.13)
            await busy.refresh(world.clock.now())
            await busy.stir(busy.epochs(), world.clock.now())
            await other.refresh(world.clock.now())

        assert busy.epochs() == before

    async def test_who_looks_slowly_takes_nobody_for_dead(self, world: World) -> None:
        idle, other = await self.fleet(world, 2)
        await self.work(world, [min(idle.epochs())])
        leases: Any = Slow(world.store.leases, "glance", world.clock, 0.2)
        other._leases = leases
        before = dict(other.epochs())

        for _ in range(4):
            world.clock.turn(0.13)
            await other.refresh(world.clock.now())

        assert other.epochs() == before

    async def test_a_living_one_that_was_taken_for_dead_gets_its_shards_back(self, world: World) -> None:
        paused, *left = await self.fleet(world)
        share = sorted(paused.epochs())
        (job,) = await self.work(world, share[:1])
        await self.seconds_until_all_is_owned(world, left)
        await world.jobs.cancel(ACTOR, job.id)

        for _ in range(8):
            world.clock.turn(1)
            for one in (paused, *left):
                await one.refresh(world.clock.now())

        assert sorted(paused.epochs()) == share
        assert sum(len(one.epochs()) for one in left) == SHARDS - len(share)

    async def test_a_shard_whose_heir_is_dead_as_well_goes_to_the_next(self, world: World) -> None:
        leaver, dead, left = await self.fleet(world)
        await leaver.leave(world.clock.now())

        assert dead.epochs()
        assert await self.seconds_until_all_are_owned_but(world, [left], dead) < 0.6
        # And he stays away until he says that he lives.
        assert await world.store.leases.announce_dispatcher(left.name, world.clock.now(), SECOND) == [left.name]

    async def test_a_newcomer_is_handed_nothing_before_he_has_lived_for_a_while(self, world: World) -> None:
        (only,) = await self.fleet(world, 1)
        await world.store.leases.announce_dispatcher("newcomer", world.clock.now(), 6 * SECOND)

        world.clock.turn(2)
        await only.refresh(world.clock.now())
        assert len(only.epochs()) == SHARDS
        world.clock.turn(2)
        await only.refresh(world.clock.now())
        assert len(only.epochs()) < SHARDS

    async def test_one_that_dies_as_it_was_handed_its_share_costs_less_than_a_second(self, world: World) -> None:
        (only,) = await self.fleet(world, 1)
        await world.store.leases.announce_dispatcher("newcomer", world.clock.now(), 6 * SECOND)
        for _ in range(2):
            world.clock.turn(2)
            await only.refresh(world.clock.now())
        assert len(only.epochs()) < SHARDS

        assert await self.seconds_until_all_is_owned(world, [only]) < 0.9

    async def test_who_is_behind_with_one_shard_glances_all_the_same(self, world: World) -> None:
        dead, busy, other = await self.fleet(world)
        await self.work(world, [min(dead.epochs())])
        mine = min(busy.epochs())
        began = world.clock.now()
        while sum(len(one.epochs()) for one in (busy, other)) < SHARDS:
            world.clock.turn(0.125)
            for one in (busy, other):
                await one.refresh(world.clock.now())
                await one.stir([mine] if one is busy else [], world.clock.now())

        assert world.clock.now() - began < SECOND

    async def test_whoever_is_alone_rests_as_long_as_he_likes(self, world: World) -> None:
        (only,) = await self.fleet(world, 1)

        assert only.longest_rest() is None
