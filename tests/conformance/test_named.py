"""Claiming by name: what a message may say, and what the store makes of it. On both engines the same as a plain claim."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from duly.adapters.sql.engine import Engine
from duly.domain.announcements import Named
from duly.domain.fairness import Ask
from duly.domain.instants import HOUR, MINUTE, SECOND
from duly.domain.job import Job, Priority
from duly.domain.lifecycle import Outcome, State
from tests.conformance.world import START, TTL, World


async def names_of(world: World, job: Job, quota: int = 100) -> list[Named]:
    return await world.store.ready.peek([Ask(job.version.route, job.version.tenant, quota)])


class TestPeek:
    async def test_it_shows_what_a_claim_would_take_and_takes_nothing(self, world: World) -> None:
        job = await world.job()
        ids = await world.enqueue(job, 5)

        seen = await names_of(world, job, 3)

        assert seen == [Named(job.version.route, 1, START, run_id) for run_id in ids[:3]]
        assert (await world.claimed(await world.worker(), 3)).ids == ids[:3]

    async def test_the_urgent_stand_before_the_old(self, world: World) -> None:
        job, urgent = await world.job(), await world.job(priority=Priority.HIGH)
        (old,) = await world.enqueue(job)
        world.turn(SECOND)
        (young,) = await world.enqueue(urgent)

        assert [name.id for name in await names_of(world, job)] == [young, old]

    async def test_nothing_asked_or_nothing_there_is_nothing(self, world: World) -> None:
        job = await world.job()

        assert await world.store.ready.peek([]) == []
        assert await names_of(world, job) == []


class TestClaimNamed:
    async def test_it_carries_what_a_plain_claim_carries(self, world: World) -> None:
        job = await world.job()
        (own,) = await world.enqueue(job, payload='{"n":1}')
        (plain,) = await world.enqueue(job)
        names = await names_of(world, job)

        claimed = await world.store.ready.claim_named(await world.worker(), names, world.now)

        assert claimed is not None
        assert dict(zip(claimed.ids, claimed.payloads, strict=True)) == {own: {"n": 1}, plain: None}
        assert (claimed.attempts, claimed.failures) == ([1, 1], [0, 0])
        assert claimed.job_versions == [job.version.number] * 2
        assert (claimed.due_ats, claimed.scheduled_ats, claimed.holds_place) == ([START] * 2, [START] * 2, [False, False])

    async def test_only_what_is_named_is_taken_and_finished_under_its_fence(self, world: World) -> None:
        job = await world.job()
        ids = await world.enqueue(job, 4)
        names = await names_of(world, job)
        worker = await world.worker()

        claimed = await world.store.ready.claim_named(worker, [names[1], names[3]], world.now)

        assert claimed is not None
        assert sorted(claimed.ids) == [ids[1], ids[3]]
        assert [await world.state(run_id) for run_id in ids] == [State.PENDING, State.RUNNING, State.PENDING, State.RUNNING]
        await world.finish(worker, claimed)
        assert await world.state(ids[1]) is State.SUCCEEDED

    async def test_every_lease_is_newer_than_those_before(self, world: World) -> None:
        job = await world.job()
        await world.enqueue(job, 3)
        names, worker = await names_of(world, job), await world.worker()

        by_name = await world.store.ready.claim_named(worker, names[2:], world.now)
        plain = await world.claimed(worker, 1)
        again = await world.store.ready.claim_named(worker, names[1:2], world.now)

        assert by_name is not None
        assert again is not None
        assert by_name.lease < plain.lease < again.lease

    async def test_a_name_that_comes_twice_takes_once(self, world: World) -> None:
        job = await world.job()
        (run_id,) = await world.enqueue(job)
        names = await names_of(world, job)

        claimed = await world.store.ready.claim_named(await world.worker(), names * 3, world.now)

        assert claimed is not None
        assert claimed.ids == [run_id]

    async def test_a_name_that_is_wrong_in_any_part_takes_nothing(self, world: World) -> None:
        await world.add_tenant(2)
        job, elsewhere = await world.job(), await world.job(pool="other")
        (run_id,) = await world.enqueue(job)
        (name,) = await names_of(world, job)
        wrong = [
            name._replace(route=elsewhere.version.route),
            name._replace(route=-(1 << 31)),
            name._replace(tenant=2),
            name._replace(rank=name.rank + 1),
            name._replace(rank=-(1 << 63)),
            name._replace(id=world.ids(1)[0]),
        ]

        assert await world.store.ready.claim_named(await world.worker(), wrong, world.now) is None

        assert await world.state(run_id) is State.PENDING

    async def test_what_is_not_ready_is_not_taken(self, world: World) -> None:
        job = await world.job()
        (later,) = await world.enqueue(job, due_in=MINUTE)
        await world.enqueue(job, 2)
        names = await names_of(world, job)
        await world.claimed(await world.worker(), 1)

        early = Named(job.version.route, 1, START + MINUTE, later)
        taken = await world.store.ready.claim_named(await world.worker(), [early, *names], world.now)

        assert taken is not None
        assert taken.ids == [names[1].id]
        assert await world.state(later) is State.SCHEDULED
        assert await world.store.ready.claim_named(await world.worker(), [early, *names], world.now) is None

    async def test_a_worker_that_is_past_its_time_buried_or_unknown_takes_nothing(self, world: World) -> None:
        job = await world.job()
        (run_id,) = await world.enqueue(job)
        names = await names_of(world, job)
        buried, late = await world.worker(), await world.worker(ttl=HOUR)
        await world.store.liveness.retire(buried, world.now)
        world.turn(TTL)

        for worker in (await world.worker(ttl=0), buried, 999_999):
            assert await world.store.ready.claim_named(worker, names, world.now) is None
        assert await world.state(run_id) is State.PENDING
        assert await world.store.ready.claim_named(late, names, world.now) is not None

    async def test_no_names_are_no_lease(self, world: World) -> None:
        worker = await world.worker()

        assert await world.store.ready.claim_named(worker, [], world.now) is None
        assert await world.store.ready.held_by(worker) == []

    async def test_a_claim_whose_answer_was_lost_is_found(self, world: World) -> None:
        job = await world.job()
        await world.enqueue(job, 3, payload='{"n":1}')
        worker = await world.worker()

        lost = await world.store.ready.claim_named(worker, await names_of(world, job), world.now)

        assert lost is not None
        (held,) = await world.store.ready.held_by(worker)
        assert (held.lease, sorted(held.ids)) == (lost.lease, sorted(lost.ids))

    async def test_a_retry_is_taken_by_its_name_with_its_attempt(self, world: World) -> None:
        job = await world.job()
        await world.enqueue(job, payload='[1,"ü"]')
        await world.run(Outcome.FAILED)
        world.turn(MINUTE)
        await world.promote()

        claimed = await world.store.ready.claim_named(await world.worker(), await names_of(world, job), world.now)

        assert claimed is not None
        assert (claimed.payloads, claimed.attempts, claimed.failures) == ([[1, "ü"]], [2], [1])


async def test_of_workers_that_hear_the_same_names_each_execution_goes_to_one(
    open_engine: Callable[[], AbstractAsyncContextManager[Engine]],
) -> None:
    async with open_engine() as first, open_engine() as second:
        worlds = [World(first), World(second, seed=2)]
        job = await worlds[0].job()
        ids = await worlds[0].enqueue(job, 200)
        names = await names_of(worlds[0], job, 1000)
        workers = [(world, await world.worker()) for world in worlds for _ in range(3)]

        async def hear(world: World, worker: int, nth: int) -> list[object]:
            taken: list[object] = []
            for at in range(0, 200, 20):
                start = (at + 40 * nth) % 200
                claimed = await world.store.ready.claim_named(worker, names[start : start + 20], world.now)
                plain = await world.claim(worker, 3, of=[job])
                taken += [id for found in (claimed, plain) if found is not None for id in found.ids]
            return taken

        taken = [id for found in await asyncio.gather(*(hear(*pair, nth) for nth, pair in enumerate(workers))) for id in found]

        assert sorted(taken) == sorted(ids)
