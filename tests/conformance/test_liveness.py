"""A worker's life, and who owns which shard."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from duly.domain.execution import Stop
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND
from duly.domain.lifecycle import Outcome
from duly.domain.shards import SHARDS, shard_of
from duly.domain.signature import Takes
from duly.ports.store import ShardLease, Store, WorkerAbout
from tests.conformance.world import START, TTL, World


class TestWorkers:
    async def test_a_worker_is_read_as_it_registered(self, world: World) -> None:
        about = WorkerAbout("big", {"gpu": ""}, ["a", "b"], slots=8, host="h", pid=7, version="1")

        worker = await world.store.liveness.register("w", about, START, TTL)

        (row,) = await world.store.insights.workers(START)
        assert (row.id, row.name, row.about, row.started_at, row.expires_at, row.lost_at, row.running) == (
            worker,
            "w",
            replace(about, ttl=TTL),
            START,
            START + TTL,
            None,
            0,
        )

    async def test_what_live_workers_offer_a_tenant(self, world: World) -> None:
        takes = {"mail": Takes(("user_id", "region"), ("user_id",))}
        ours, everybodys = WorkerAbout("ours", handlers=["mail"], takes=takes), WorkerAbout("everybodys", handlers=["mail"])
        await world.store.liveness.register("a", ours, START, TTL, tenant=1)
        await world.store.liveness.register("b", everybodys, START, 2 * TTL)
        await world.store.liveness.register("c", WorkerAbout("theirs"), START, TTL, tenant=2)
        gone = await world.store.liveness.register("d", WorkerAbout("gone"), START, TTL)
        await world.store.liveness.retire(gone, START)

        found = await world.store.insights.offers(START, 1)
        later = await world.store.insights.offers(START + TTL, 1)

        assert sorted(found, key=lambda about: about.pool) == [replace(everybodys, ttl=2 * TTL), replace(ours, ttl=TTL)]
        assert later == [replace(everybodys, ttl=2 * TTL)]

    async def test_every_registration_is_a_new_worker(self, world: World) -> None:
        workers = [await world.worker("same") for _ in range(3)]

        assert workers == sorted(set(workers))

    async def test_a_renewed_worker_lives_on(self, world: World) -> None:
        worker = await world.worker()
        for _ in range(5):
            world.turn(TTL - 1)
            assert await world.store.liveness.renew(worker, world.now, TTL) == []

        assert await world.store.losses.bury_workers(world.now) == []

    async def test_a_renewal_may_say_anew_how_far_the_clock_is_off(self, world: World) -> None:
        about = WorkerAbout("big", {"gpu": ""}, ["a"], slots=8, host="h", pid=7, version="1", skew=-20)
        worker = await world.store.liveness.register("w", about, START, TTL)

        assert await world.store.liveness.renew(worker, world.now, TTL) == []
        (kept,) = await world.store.insights.workers(START)
        assert await world.store.liveness.renew(worker, world.now, TTL, 1_800_000) == []
        (said,) = await world.store.insights.workers(START)

        assert kept.about == replace(about, ttl=TTL)
        assert said.about == replace(about, ttl=TTL, skew=1_800_000)

    async def test_a_renewal_that_comes_after_a_younger_one_shortens_no_life(self, world: World) -> None:
        worker = await world.worker()
        asked = world.turn(SECOND)
        world.turn(5 * SECOND)
        assert await world.store.liveness.renew(worker, world.now, TTL) == []

        assert await world.store.liveness.renew(worker, asked, TTL) == []

        world.turn(TTL - 1)
        assert await world.store.losses.bury_workers(world.now) == []

    async def test_a_life_from_before_the_clock_was_set_back_is_brought_down(self, world: World) -> None:
        worker = await world.worker()
        world.turn(-DAY)

        assert await world.store.liveness.renew(worker, world.now, TTL) == []

        assert await world.store.losses.bury_workers(world.now + TTL) == [worker]

    async def test_a_worker_past_its_time_cannot_renew(self, world: World) -> None:
        worker = await world.worker()
        world.turn(TTL)

        assert await world.store.liveness.renew(worker, world.now, TTL) is None

    async def test_a_buried_worker_is_lost_for_good(self, world: World) -> None:
        worker, fresh = await world.worker(), await world.worker(ttl=HOUR)
        world.turn(TTL)

        assert await world.store.losses.bury_workers(world.now) == [worker]

        assert await world.store.losses.bury_workers(world.now) == []
        # Even a clock that is behind does not bring it back.
        assert await world.store.liveness.renew(worker, START, TTL) is None
        assert await world.store.liveness.renew(fresh, world.now, TTL) == []

    async def test_a_retired_worker_cannot_renew(self, world: World) -> None:
        worker = await world.worker()
        await world.store.liveness.retire(worker, world.now)
        await world.store.liveness.retire(worker, world.now)

        assert await world.store.liveness.renew(worker, world.now, TTL) is None

    async def test_a_heartbeat_tells_which_running_executions_shall_stop(self, world: World) -> None:
        await world.enqueue(await world.job(), 4)
        worker, other = await world.worker(), await world.worker()
        mine, theirs = await world.claimed(worker, 3), await world.claimed(other, 1)

        await world.cancel(mine.ids[0], *theirs.ids)

        assert await world.store.liveness.renew(worker, world.now, TTL) == [Stop(mine.ids[0])]
        assert await world.store.liveness.renew(other, world.now, TTL) == [Stop(id) for id in theirs.ids]

    async def test_what_has_ended_need_not_stop(self, world: World) -> None:
        await world.enqueue(await world.job(), 3)
        worker = await world.worker()
        claimed = await world.claimed(worker)
        await world.cancel(*claimed.ids)

        await world.finish(worker, claimed, Outcome.CANCELLED, claimed.ids[:1])
        await world.finish(worker, claimed, Outcome.SUCCEEDED, claimed.ids[1:2])

        assert await world.store.liveness.renew(worker, world.now, TTL) == [Stop(id) for id in claimed.ids[2:]]

    async def test_a_retry_that_was_cancelled_need_not_stop(self, world: World) -> None:
        await world.enqueue(await world.job(), 2)
        worker = await world.worker()
        claimed = await world.claimed(worker)
        await world.finish(worker, claimed, Outcome.FAILED, claimed.ids[:1])

        await world.cancel(claimed.ids[0])

        assert await world.store.liveness.renew(worker, world.now, TTL) == []

    async def test_workers_are_listed_for_an_hour_after_their_loss(self, world: World) -> None:
        lost, live = await world.worker("lost"), await world.worker("live", ttl=DAY)
        world.turn(TTL)
        await world.store.losses.bury_workers(world.now)

        assert [row.id for row in await world.store.insights.workers(world.now + HOUR - 1)] == [lost, live]
        assert [row.id for row in await world.store.insights.workers(world.now + HOUR)] == [live]

    async def test_a_worker_is_listed_with_how_much_it_runs(self, world: World) -> None:
        await world.enqueue(await world.job(), 4)
        worker = await world.worker()
        claimed = await world.claimed(worker)
        await world.finish(worker, claimed, Outcome.SUCCEEDED, claimed.ids[:1])
        await world.finish(worker, claimed, Outcome.FAILED, claimed.ids[1:2])

        (row,) = await world.store.insights.workers(world.now)

        assert row.running == 2


class TestShards:
    async def lease(self, store: Store, shard: int = 5) -> ShardLease:
        return (await store.leases.shards())[shard]

    async def take(self, store: Store, owner: str, now: int = START, ttl: int = 10 * SECOND, seen: ShardLease | None = None) -> int | None:
        return (await store.leases.take([seen or await self.lease(store)], owner, now, ttl)).get(5)

    async def test_all_shards_are_there_in_order(self, store: Store) -> None:
        assert [lease.shard for lease in await store.leases.shards()] == list(range(SHARDS))

    async def test_a_free_shard_is_taken_under_a_new_epoch(self, store: Store) -> None:
        before = await self.lease(store)

        epoch = await self.take(store, "a")

        assert epoch == before.epoch + 1
        assert await self.lease(store) == ShardLease(5, epoch, "a", START + 10 * SECOND, START)

    async def test_who_took_it_for_free_was_too_slow_when_its_owner_stirred(self, store: Store) -> None:
        epoch = await self.take(store, "a")
        seen = await self.lease(store)
        await store.leases.renew("a", {5: epoch}, START + 1, 10 * SECOND)

        assert await self.take(store, "b", now=START + 2, seen=seen) is None

        assert (await self.lease(store)).owner == "a"

    async def test_who_read_an_old_epoch_was_too_slow(self, store: Store) -> None:
        old = await self.lease(store)
        await self.take(store, "a", now=old.progress_at)

        assert await self.take(store, "b", now=START + HOUR, seen=old) is None

    async def test_several_are_taken_at_once_and_each_by_itself(self, store: Store) -> None:
        seen = (await store.leases.shards())[3:6]
        await self.take(store, "a")

        taken = await store.leases.take(seen, "b", START + 1, SECOND)

        assert taken == {lease.shard: lease.epoch + 1 for lease in seen if lease.shard != 5}
        assert [lease.owner for lease in (await store.leases.shards())[3:6]] == ["b", "b", "a"]

    async def test_whose_shard_was_taken_is_no_dispatcher_until_he_announces_himself(self, store: Store) -> None:
        await store.leases.announce_dispatcher("a", START, MINUTE)
        await self.take(store, "a")
        await self.take(store, "b", now=START + 1)

        assert await store.leases.announce_dispatcher("b", START + 1, MINUTE) == ["b"]
        assert await store.leases.announce_dispatcher("a", START + 1, MINUTE) == ["a", "b"]

    async def test_who_was_too_slow_to_take_sends_nobody_away(self, store: Store) -> None:
        await store.leases.announce_dispatcher("a", START, MINUTE)
        seen = await self.lease(store)
        await self.take(store, "a")

        assert await self.take(store, "b", now=START + 1, seen=seen) is None

        assert await store.leases.announce_dispatcher("b", START + 1, MINUTE) == ["a", "b"]

    async def test_who_is_dead_besides_goes_with_the_owner_and_only_if_something_was_taken(self, store: Store) -> None:
        for name in ("a", "b", "c"):
            await store.leases.announce_dispatcher(name, START, MINUTE)
        seen = await self.lease(store)
        await self.take(store, "a")

        assert await store.leases.take([seen], "b", START + 1, SECOND, ["c"]) == {}
        assert await store.leases.announce_dispatcher("b", START + 1, MINUTE) == ["a", "b", "c"]
        await store.leases.take([await self.lease(store)], "b", START + 1, SECOND, ["c"])
        assert await store.leases.announce_dispatcher("b", START + 1, MINUTE) == ["b"]

    async def test_who_stirs_shows_progress_on_his_own_and_lengthens_no_lease(self, store: Store) -> None:
        epoch = await self.take(store, "a")

        await store.leases.stir("a", [5], START + 7)
        await store.leases.stir("b", [5, 6], START + 9)

        assert await self.lease(store) == ShardLease(5, epoch, "a", START + 10 * SECOND, START + 7)

    async def test_a_glance_shows_what_is_not_ours(self, store: Store) -> None:
        await self.take(store, "a")

        assert [lease.shard for lease in await store.leases.glance("a", START - SECOND, START)] == [n for n in range(SHARDS) if n != 5]
        assert await self.lease(store) in await store.leases.glance("b", START - SECOND, START)

    @pytest.mark.parametrize(("due", "late"), [(-3 * SECOND - 1, False), (-3 * SECOND, True), (-SECOND, True), (1 - SECOND, False)])
    @pytest.mark.parametrize("kind", ["schedule", "timer"])
    async def test_late_is_what_was_due_from_then_to_then(self, world: World, kind: str, due: int, late: bool) -> None:
        job = await world.job(at=START if kind == "schedule" else None)
        if kind == "timer":
            await world.enqueue(job, due_in=1)
        due_at = START + (kind == "timer")

        seen = await world.store.leases.glance("a", due_at - due - 3 * SECOND, due_at - due - SECOND)

        assert [lease.shard for lease in seen if lease.is_late] == ([shard_of(job.id)] if late else [])

    async def test_of_many_that_take_one_shard_one_gets_it(self, store: Store) -> None:
        seen = await self.lease(store)

        epochs = await asyncio.gather(*(self.take(store, f"owner-{nth}", seen=seen) for nth in range(8)))

        assert [epoch for epoch in epochs if epoch is not None] == [seen.epoch + 1]

    async def test_epochs_strictly_grow(self, store: Store) -> None:
        epochs = [await self.take(store, f"owner-{nth}", now=START + nth * HOUR) for nth in range(5)]

        assert epochs == sorted(set(epochs))

    async def test_an_owner_holds_on(self, store: Store) -> None:
        epoch = await self.take(store, "a")

        assert await store.leases.renew("a", {5: epoch}, START + SECOND, 10 * SECOND) == [5]

        assert await self.lease(store) == ShardLease(5, epoch, "a", START + 11 * SECOND, START + SECOND)

    async def test_who_was_replaced_holds_on_to_nothing(self, store: Store) -> None:
        old = await self.take(store, "a")
        await self.take(store, "b", now=START + MINUTE)
        before = await self.lease(store)

        assert await store.leases.renew("a", {5: old}, START + MINUTE, DAY) == []
        assert await store.leases.renew("a", {}, START + MINUTE, DAY) == []
        await store.leases.release("a", {5: old}, START + MINUTE)

        assert await self.lease(store) == before

    async def test_a_released_shard_is_free_at_once_and_its_epoch_stays(self, store: Store) -> None:
        epoch = await self.take(store, "a", ttl=DAY)

        await store.leases.release("a", {5: epoch}, START)

        assert (await self.lease(store)).owner is None
        assert await self.take(store, "b", now=START) == epoch + 1

    async def test_a_shard_that_is_handed_over_is_free_and_its_owner_still_counts(self, store: Store) -> None:
        await store.leases.announce_dispatcher("a", START, HOUR)
        epoch = await self.take(store, "a", ttl=DAY)

        await store.leases.hand_over("b", {5: epoch})
        assert (await self.lease(store)).owner == "a"
        await store.leases.hand_over("a", {5: epoch})

        assert (await self.lease(store)).owner is None
        assert await store.leases.announce_dispatcher("b", START, HOUR) == ["a", "b"]

    async def test_live_dispatchers_know_one_another(self, store: Store) -> None:
        assert await store.leases.announce_dispatcher("b", START, MINUTE) == ["b"]
        assert await store.leases.announce_dispatcher("a", START, HOUR) == ["a", "b"]
        assert await store.leases.announce_dispatcher("a", START + MINUTE, HOUR) == ["a"]

        await store.leases.release("a", {}, START)

        assert await store.leases.announce_dispatcher("c", START, HOUR) == ["b", "c"]
