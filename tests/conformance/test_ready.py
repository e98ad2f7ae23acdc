"""Where workers take work."""

from __future__ import annotations

import asyncio
from operator import attrgetter

import pytest

from duly.domain import heads, portion, trail
from duly.domain.fairness import Ask
from duly.domain.instants import HOUR, MINUTE, SECOND
from duly.domain.job import Job
from duly.domain.lifecycle import Outcome, State
from duly.domain.tenants import Tenant
from duly.domain.unreadable import Unreadable
from tests.conformance.tenants import made, tenant
from tests.conformance.world import START, TTL, World


class TestClaim:
    async def test_a_claim_carries_what_a_worker_needs(self, world: World) -> None:
        job = await world.job(payload='{"from":"version"}')
        own, plain = world.new_executions(job, 1, payload='{"n":1}')[0], world.new_executions(job, 1)[0]
        await world.store.intake.enqueue([own, plain], world.now)

        claimed = await world.claimed(await world.worker())

        found = dict(zip(claimed.ids, claimed.payloads, strict=True))
        # None means the version's payload: the worker keeps versions, so it is not sent with each execution.
        assert found == {own.id: {"n": 1}, plain.id: None}
        assert claimed.attempts == [1, 1]
        assert claimed.failures == [0, 0]
        assert claimed.job_versions == [job.version.number] * 2
        assert claimed.due_ats == [START] * 2
        assert claimed.holds_place == [False, False]

    async def test_a_payload_that_nobody_can_decode_spoils_nothing_but_its_own_execution(self, world: World) -> None:
        job = await world.job()
        good, beyond, deep = [
            (await world.enqueue(job, payload=payload))[0] for payload in ('{"n":1}', '{"n":1e400}', "[" * 3000 + "]" * 3000)
        ]
        worker = await world.worker()

        claimed = await world.claimed(worker)

        for found in (claimed, *await world.store.ready.held_by(worker)):
            payloads = dict(zip(found.ids, found.payloads, strict=True))
            assert payloads[good] == {"n": 1}
            assert isinstance(payloads[beyond], Unreadable)
            assert isinstance(payloads[deep], Unreadable)
            assert found.marked

    async def test_large_payloads_are_claimed_in_portions(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(portion, "LARGEST_ANSWER", 100_000)
        await world.enqueue(await world.job(), 10, payload=f'"{"x" * 19_000}"')
        worker = await world.worker()

        sizes = [len((await world.claimed(worker, quota)).ids) for quota in (1, 1000, 1000)]

        assert sizes == [1, 5, 4]

    async def test_the_best_ranked_go_first(self, world: World) -> None:
        job = await world.job()
        ids = []
        for nth in (3, 1, 2):
            early = World(world.engine, now=START - nth * SECOND, seed=nth)
            ids.append((await early.enqueue(job))[0])

        first, rest = await world.claimed(await world.worker(), 1), await world.claimed(await world.worker(), 5)

        assert first.ids == [ids[0]]
        assert sorted(rest.ids) == sorted(ids[1:])

    async def test_of_equal_rank_the_older_id_goes_first(self, world: World) -> None:
        ids = await world.enqueue(await world.job(), 4)
        worker = await world.worker()

        assert [(await world.claimed(worker, 1)).ids[0] for _ in ids] == ids

    async def test_a_quota_bounds_each_ask(self, world: World) -> None:
        a, b = await world.job(), await world.job(pool="other")
        await world.enqueue(a, 5)
        await world.enqueue(b, 5)

        claimed = await world.claimed(await world.worker(), 2, of=[a, b])

        assert len(claimed.ids) == 4

    async def test_only_what_is_asked_for_is_taken(self, world: World) -> None:
        await world.add_tenant(2)
        mine, pool, theirs = await world.job(), await world.job(pool="other"), await world.job(tenant=2)
        (run_id,) = await world.enqueue(mine)
        await world.enqueue(pool)
        await world.enqueue(theirs)

        claimed = await world.claimed(await world.worker(), of=[mine])

        assert claimed.ids == [run_id]
        assert await world.claim(await world.worker(), of=[mine]) is None

    async def test_two_workers_share_nothing(self, world: World) -> None:
        job = await world.job()
        ids = await world.enqueue(job, 60)
        workers = [await world.worker() for _ in range(6)]

        claims = await asyncio.gather(*(world.claim(worker, 10, of=[job]) for worker in workers))

        taken = [run_id for claimed in claims if claimed is not None for run_id in claimed.ids]
        assert sorted(taken) == sorted(set(taken))
        assert set(taken) <= set(ids)

    async def test_every_lease_is_newer_than_those_before(self, world: World) -> None:
        job = await world.job()
        await world.enqueue(job, 3)
        worker = await world.worker()

        leases = []
        for _ in range(3):
            claimed = await world.claimed(worker, 1)
            leases.append(claimed.lease)
            await world.finish(worker, claimed)

        assert leases == sorted(set(leases))

    async def test_nothing_ready_is_no_lease(self, world: World) -> None:
        job = await world.job()
        worker = await world.worker()

        assert await world.claim(worker, of=[job]) is None
        assert await world.store.ready.claim(worker, [], world.now) is None

        assert await world.store.ready.held_by(worker) == []

    async def test_an_ask_that_comes_twice_takes_each_once(self, world: World) -> None:
        job = await world.job()
        await world.enqueue(job, 3)
        ask = Ask(job.version.route, 1, 2)

        claimed = await world.store.ready.claim(await world.worker(), [ask, ask], world.now)

        assert len(claimed.ids) == len(set(claimed.ids))

    async def test_a_worker_past_its_time_claims_nothing(self, world: World) -> None:
        job = await world.job()
        (run_id,) = await world.enqueue(job)
        worker = await world.worker()
        world.turn(TTL)

        assert await world.claim(worker, of=[job]) is None

        assert await world.state(run_id) is State.PENDING

    async def test_a_buried_retired_or_unknown_worker_claims_nothing(self, world: World) -> None:
        job = await world.job()
        await world.enqueue(job)
        retired, buried = await world.worker(), await world.worker()
        await world.store.liveness.retire(retired, world.now)
        await world.store.losses.bury_workers(world.now + HOUR)

        for worker in (retired, buried, 999_999):
            assert await world.claim(worker, of=[job]) is None

    async def test_an_execution_runs_with_the_payload_of_its_enqueue_after_a_retry(self, world: World) -> None:
        job = await world.job()
        await world.enqueue(job, payload='[1,"ü"]')
        await world.run(Outcome.FAILED)
        world.turn(MINUTE)
        await world.promote()

        claimed = await world.claimed(await world.worker())

        assert (claimed.payloads, claimed.attempts, claimed.failures) == ([[1, "ü"]], [2], [1])


class TestWork:
    async def test_each_tenant_with_work_is_named_with_its_head_and_depth(self, world: World) -> None:
        await world.add_tenant(2, weight=7)
        mine, theirs = await world.job(), await world.job(tenant=2)
        await world.enqueue(mine, 3)
        world.turn(SECOND)
        await world.enqueue(mine, 2)
        await world.enqueue(theirs, 1)

        work = await world.store.ready.work([mine.version.route], 4)

        assert {(item.tenant, item.weight, item.head, item.depth) for item in work} == {(1, 100, START, 4), (2, 7, START + SECOND, 1)}

    async def test_only_the_asked_routes_are_looked_at(self, world: World) -> None:
        here, there = await world.job(), await world.job(pool="other")
        await world.enqueue(there)

        assert await world.store.ready.work([here.version.route], 10) == []
        (found,) = await world.store.ready.work([here.version.route, there.version.route], 10)
        assert found.route == there.version.route
        assert await world.store.ready.work([], 10) == []


class TestHeldBy:
    async def test_a_claim_whose_answer_was_lost_is_found(self, world: World) -> None:
        await world.enqueue(await world.job(), 3, payload='{"n":1}')
        worker = await world.worker()
        lost_answer = await world.claimed(worker)

        (held,) = await world.store.ready.held_by(worker)

        assert (held.lease, sorted(held.ids)) == (lost_answer.lease, sorted(lost_answer.ids))
        assert (held.attempts, held.failures, held.payloads) == ([1] * 3, [0] * 3, [{"n": 1}] * 3)
        assert (held.job_versions, held.due_ats, held.holds_place) == (
            lost_answer.job_versions,
            lost_answer.due_ats,
            lost_answer.holds_place,
        )

    async def test_what_has_ended_is_held_no_more(self, world: World) -> None:
        await world.enqueue(await world.job(), 4)
        worker, other = await world.worker(), await world.worker()
        claimed = await world.claimed(worker)
        for run_id, outcome in zip(claimed.ids, (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.RELEASED), strict=False):
            await world.finish(worker, claimed, outcome, [run_id])

        (held,) = await world.store.ready.held_by(worker)

        assert held.ids == [claimed.ids[3]]
        assert await world.store.ready.held_by(other) == []


class TestTrail:
    """A slow claim is followed by some that begin where it ended."""

    @pytest.fixture(autouse=True)
    def all_are_slow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(trail, "SLOW", 0)
        monkeypatch.setattr(trail, "SLOW_LOOKS", 1)
        monkeypatch.setattr(trail, "FULL_LOOKS_IN", 1_000_000)
        monkeypatch.setattr(trail, "WORTH", 0)

    async def test_all_of_a_queue_is_claimed_once_and_in_order(self, world: World) -> None:
        job = await world.job()
        ids = await world.enqueue(job, 25)
        worker = await world.worker()

        claimed = [(await world.claimed(worker, of=[job], quota=7)).ids for _ in range(4)]

        assert [len(part) for part in claimed] == [7, 7, 7, 4]
        assert [sorted(part) for part in claimed] == [sorted(ids[nth : nth + 7]) for nth in range(0, 25, 7)]
        assert await world.claim(worker, of=[job], quota=7) is None

    async def test_what_enters_before_it_is_found_when_there_is_nothing_behind(self, world: World) -> None:
        job = await world.job()
        worker = await world.worker()
        await world.enqueue(job, 4)
        await world.claimed(worker, of=[job], quota=2)
        urgent = world.new_executions(job, 1)[0]._replace(rank=0)
        await world.store.intake.enqueue([urgent], world.now)

        found = [(await world.claimed(worker, of=[job], quota=2)).ids for _ in range(2)]

        # SQLite leaves no dead rows behind, and looks at the head each time.
        assert [urgent.id in ids for ids in found] == ([False, True] if world.engine.name == "postgres" else [True, False])


class TestHeads:
    """Long looks are followed by some that begin where the first of each queue was found, and so are claims."""

    @pytest.fixture(autouse=True)
    def all_are_long(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(heads, "LONG", -1)
        monkeypatch.setattr(heads, "LONG_LOOKS", 1)
        monkeypatch.setattr(heads, "WHOLE_LOOKS_IN", 1_000_000)
        monkeypatch.setattr(heads, "LONGEST", HOUR)

    async def shared(self, world: World, *many: int) -> tuple[list[int], list[tuple[Tenant, Job]]]:
        """The routes, and tenants with a job each of which so many wait."""
        shared = []
        for nth, count in enumerate(many):
            one = await tenant(world, f"tenant-{nth}")
            job = await world.job(tenant=one.number)
            await world.store.intake.enqueue(made(world, job, one, count), world.now)
            shared.append((one, job))
        return sorted({job.version.route for _, job in shared}), shared

    async def test_a_rough_look_shows_what_a_whole_one_shows(self, world: World) -> None:
        routes, shared = await self.shared(world, 5, 70, 1, 3)
        worker = await world.worker()
        await world.store.ready.work(routes, 64, roughly=True)
        asks = [Ask(job.version.route, one.number, quota) for (one, job), quota in zip(shared, (2, 4, 1, 3), strict=True)]
        await world.store.ready.claim(worker, asks, world.now)

        rough = await world.store.ready.work(routes, 64, roughly=True)

        assert sorted(rough, key=attrgetter("tenant")) == sorted(await world.store.ready.work(routes, 64), key=attrgetter("tenant"))
        assert sorted(item.depth for item in rough) == [3, 64]

    async def test_a_tenant_that_is_new_is_seen_wherever_it_stands(self, world: World) -> None:
        routes, shared = await self.shared(world, 2, 0, 2, 0)
        await world.store.ready.work(routes, 64, roughly=True)
        for one, job in shared[1::2]:
            await world.store.intake.enqueue(made(world, job, one, 2), world.now)

        found = await world.store.ready.work(routes, 64, roughly=True)

        assert sorted((item.tenant, item.depth) for item in found) == [(one.number, 2) for one, _ in shared]

    async def test_all_of_several_queues_is_claimed_once(self, world: World) -> None:
        routes, _ = await self.shared(world, 40, 25)
        worker, claimed = await world.worker(), []

        while work := await world.store.ready.work(routes, 64, roughly=True):
            batch = await world.store.ready.claim(worker, [Ask(item.route, item.tenant, 7) for item in work], world.now)
            assert batch is not None
            claimed += batch.ids

        assert (len(claimed), len(set(claimed))) == (65, 65)

    async def test_what_enters_before_it_is_found_when_there_is_nothing_behind(self, world: World) -> None:
        routes, shared = await self.shared(world, 4, 2)
        (one, job), (other, another) = shared
        worker = await world.worker()
        await world.store.ready.work(routes, 64, roughly=True)
        urgent = world.new_executions(job, 1)[0]._replace(rank=0)
        await world.store.intake.enqueue([urgent], world.now)
        asks = [Ask(job.version.route, one.number, 2), Ask(another.version.route, other.number, 1)]

        found = []
        while (batch := await world.store.ready.claim(worker, asks, world.now)) is not None:
            found.append(urgent.id in batch.ids)

        # SQLite leaves no dead rows behind, and looks at the head each time.
        assert found == ([False, False, True] if world.engine.name == "postgres" else [True, False, False])

    async def test_and_by_whoever_looks_at_all(self, world: World) -> None:
        routes, shared = await self.shared(world, 4)
        await world.store.ready.work(routes, 64, roughly=True)
        urgent = world.new_executions(shared[0][1], 1)[0]._replace(rank=0)
        await world.store.intake.enqueue([urgent], world.now)

        (whole,) = await world.store.ready.work(routes, 64)

        assert (whole.head, whole.depth) == (0, 5)
