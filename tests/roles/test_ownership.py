"""Who owns which shard."""

from __future__ import annotations

import contextlib
from typing import Any

from duly.domain.errors import Unavailable
from duly.domain.shards import SHARDS
from duly.roles.ownership import Ownership, OwnershipSettings
from tests.roles.conftest import World


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
    await world.store.leases.take(7, 0, "d1", world.clock.now(), 6_000_000, 5_000_000)

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
