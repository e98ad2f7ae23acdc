"""Jobs that may not overlap: one place, who waits for it, and how it is passed on."""

from __future__ import annotations

from uuid import uuid4

import pytest

from duly.domain.catchup import CatchUpPolicy
from duly.domain.instants import HOUR, MINUTE, SECOND
from duly.domain.job import Job
from duly.domain.lifecycle import Outcome, SkipReason, State
from duly.domain.overlap import OverlapPolicy
from duly.domain.retry import RetryPolicy
from duly.ports.store import FireReport
from tests.conformance.ledger import raw
from tests.conformance.world import START, World

P, R, B, X, K = State.PENDING, State.RUNNING, State.BLOCKED, State.SKIPPED, State.SUCCEEDED


async def job_that(world: World, policy: OverlapPolicy, **changes: object) -> Job:
    return await world.job(every=MINUTE, overlap=policy, grace=HOUR, **changes)


async def fire_times(world: World, times: int) -> list[FireReport]:
    """Fire now and at the next minutes, one call each."""
    reports = []
    for nth in range(times):
        world.turn(MINUTE if nth else 0)
        reports.append(await world.fire())
    return reports


async def standings(world: World, job: Job) -> list[State]:
    return [execution.state for execution in await world.of_job(job)]


class TestPolicies:
    async def test_allow_never_looks(self, world: World) -> None:
        job = await job_that(world, OverlapPolicy.ALLOW)

        await fire_times(world, 3)

        assert await standings(world, job) == [P, P, P]

    async def test_skip_records_what_it_suppressed(self, world: World) -> None:
        job = await job_that(world, OverlapPolicy.SKIP)

        reports = await fire_times(world, 3)

        assert [report.skipped for report in reports] == [0, 1, 1]
        assert await standings(world, job) == [P, X, X]
        skipped = (await world.of_job(job))[1]
        assert (skipped.skip, skipped.attempt) == (SkipReason.OVERLAP, 0)
        assert "overlap" in skipped.error

    async def test_queue_one_lets_one_wait(self, world: World) -> None:
        job = await job_that(world, OverlapPolicy.QUEUE_ONE)

        reports = await fire_times(world, 3)

        assert reports == [FireReport(1, 1), FireReport(1, 1, queued=1), FireReport(1, 1, skipped=1)]
        assert await standings(world, job) == [P, B, X]

    async def test_queue_all_lets_as_many_wait_as_it_has_room_for(self, world: World) -> None:
        job = await job_that(world, OverlapPolicy.QUEUE_ALL, max_queued=3)

        await fire_times(world, 6)

        assert await standings(world, job) == [P, B, B, B, X, X]

    @pytest.mark.parametrize(
        ("policy", "expected"),
        [(OverlapPolicy.SKIP, [P, X, X]), (OverlapPolicy.QUEUE_ONE, [P, B, X]), (OverlapPolicy.QUEUE_ALL, [P, B, B])],
        ids=str,
    )
    async def test_several_fires_of_one_advance_share_one_place(self, world: World, policy: OverlapPolicy, expected: list[State]) -> None:
        job = await job_that(world, policy)
        world.turn(2 * MINUTE)

        report = await world.fire()

        assert report == FireReport(1, 3, expected.count(X), expected.count(B))
        assert await standings(world, job) == expected

    @pytest.mark.parametrize("policy", [OverlapPolicy.SKIP, OverlapPolicy.QUEUE_ONE], ids=str)
    async def test_a_misfire_takes_no_place(self, world: World, policy: OverlapPolicy) -> None:
        job = await world.job(every=MINUTE, overlap=policy, catch_up=CatchUpPolicy.LATEST)
        world.turn(2 * MINUTE)

        report = await world.fire()

        assert report == FireReport(1, 3, skipped=2)
        assert await standings(world, job) == [X, X, P]
        assert [execution.skip for execution in await world.of_job(job)][:2] == [SkipReason.MISFIRE] * 2

    async def test_a_repeated_fire_of_a_queueing_job_changes_nothing(self, world: World) -> None:
        job = await job_that(world, OverlapPolicy.QUEUE_ONE)
        firing = await world.decide()
        await world.fire(firing)

        assert await world.fire(firing) == FireReport()

        assert await standings(world, job) == [P]

    async def test_an_old_epoch_fires_no_queueing_job(self, world: World) -> None:
        job = await job_that(world, OverlapPolicy.QUEUE_ONE)
        old = dict(await world.own_shards("first"))
        await world.own_shards("second")

        assert await world.fire(epochs=old) == FireReport()

        assert await standings(world, job) == []

    async def test_a_queueing_one_time_job_completes(self, world: World) -> None:
        job = await world.job(at=START, overlap=OverlapPolicy.QUEUE_ONE)

        assert (await world.fire()).fired == 1

        assert (await world.read(job.id)).next_fire_at is None

    async def test_enqueued_executions_take_no_place(self, world: World) -> None:
        job = await job_that(world, OverlapPolicy.SKIP)
        await world.enqueue(job)

        await world.fire()

        assert sorted(await standings(world, job)) == [P, P]


class TestPassingOn:
    @pytest.fixture
    async def queue(self, world: World) -> Job:
        """A job with one execution in its place and three that wait."""
        job = await job_that(world, OverlapPolicy.QUEUE_ALL)
        await fire_times(world, 4)
        return job

    async def test_the_oldest_waiter_follows_a_success(self, world: World, queue: Job) -> None:
        await world.run()

        assert await standings(world, queue) == [K, P, B, B]

    async def test_all_who_wait_run_in_order_one_at_a_time(self, world: World, queue: Job) -> None:
        ran = []
        while ids := await world.run():
            assert len(ids) == 1
            ran += ids

        assert ran == [execution.id for execution in await world.of_job(queue)]

    async def test_a_retry_keeps_the_place(self, world: World, queue: Job) -> None:
        await world.run(Outcome.FAILED)

        assert await standings(world, queue) == [State.SCHEDULED, B, B, B]

    async def test_a_release_keeps_the_place(self, world: World, queue: Job) -> None:
        await world.run(Outcome.RELEASED)

        assert await standings(world, queue) == [State.SCHEDULED, B, B, B]

    async def test_a_dead_letter_gives_the_place_on(self, world: World) -> None:
        job = await job_that(world, OverlapPolicy.QUEUE_ONE, retry=RetryPolicy(max_attempts=1))
        await fire_times(world, 2)

        await world.run(Outcome.FAILED)

        assert await standings(world, job) == [State.DEAD, P]

    async def test_a_loss_keeps_the_place_and_poison_gives_it_on(self, world: World) -> None:
        job = await job_that(world, OverlapPolicy.QUEUE_ONE, retry=RetryPolicy(max_losses=2))
        await fire_times(world, 2)
        for expected in ([State.SCHEDULED, B], [State.DEAD, P]):
            await world.claimed(await world.worker(), 1)
            world.turn(MINUTE)

            await world.lose()

            assert await standings(world, job) == expected
            world.turn(SECOND)
            await world.promote()

    async def test_cancelling_who_is_ready_gives_the_place_on(self, world: World, queue: Job) -> None:
        first = (await world.of_job(queue))[0]

        assert await world.cancel(first.id) == {first.id: State.CANCELLED}

        assert await standings(world, queue) == [State.CANCELLED, P, B, B]

    async def test_cancelling_who_waits_for_a_retry_gives_the_place_on(self, world: World, queue: Job) -> None:
        await world.run(Outcome.FAILED)

        await world.cancel((await world.of_job(queue))[0].id)

        assert await standings(world, queue) == [State.CANCELLED, P, B, B]

    async def test_cancelling_who_runs_gives_the_place_on_when_it_ends(self, world: World, queue: Job) -> None:
        worker = await world.worker()
        claimed = await world.claimed(worker)

        await world.cancel(*claimed.ids)
        assert await standings(world, queue) == [R, B, B, B]
        await world.finish(worker, claimed, Outcome.CANCELLED)

        assert await standings(world, queue) == [State.CANCELLED, P, B, B]

    async def test_cancelling_a_waiter_leaves_the_others(self, world: World, queue: Job) -> None:
        second = (await world.of_job(queue))[1]

        await world.cancel(second.id)

        assert await standings(world, queue) == [P, State.CANCELLED, B, B]
        await world.run()
        assert await standings(world, queue) == [K, State.CANCELLED, P, B]

    async def test_cancelling_them_all_at_once_frees_the_place(self, world: World, queue: Job) -> None:
        ids = [execution.id for execution in await world.of_job(queue)]

        answer = await world.cancel(*ids)

        assert answer == dict.fromkeys(ids, State.CANCELLED)
        world.turn(MINUTE)
        await world.fire()
        assert await standings(world, queue) == [State.CANCELLED] * 4 + [P]

    async def test_a_free_place_is_taken_by_the_next_fire(self, world: World) -> None:
        job = await job_that(world, OverlapPolicy.SKIP)
        await world.fire()
        await world.run()
        world.turn(MINUTE)

        await world.fire()

        assert await standings(world, job) == [K, P]

    async def test_a_refused_finish_frees_nothing(self, world: World, queue: Job) -> None:
        slow = await world.worker()
        stale = await world.claimed(slow)
        world.turn(MINUTE)
        await world.lose()

        assert await world.finish(slow, stale) == set(stale.ids)

        assert await standings(world, queue) == [State.SCHEDULED, B, B, B]

    async def test_waiters_that_a_crash_left_alone_are_passed_on_by_the_sweeper(self, world: World, queue: Job) -> None:
        # The finish committed; its process died before it passed the place on.
        worker = await world.worker()
        claimed = await world.claimed(worker)
        await world.finish(worker, claimed)
        (taken,) = await raw(world.engine, "SELECT id FROM places")
        await world.cancel(taken["id"])
        await raw(world.engine, "DELETE FROM ready")
        await raw(world.engine, "DELETE FROM places")
        await raw(world.engine, "DELETE FROM executions WHERE id NOT IN (SELECT id FROM blocked) AND id NOT IN (SELECT id FROM outcomes)")

        assert await world.store.losses.unstick(world.now, 10) >= 1

        assert await world.store.losses.unstick(world.now, 10) == 0
        assert P in await standings(world, queue)

    async def test_a_place_that_a_final_execution_left_behind_is_freed_by_reconcile(self, world: World) -> None:
        job = await job_that(world, OverlapPolicy.SKIP)
        await world.fire()
        (place,) = await raw(world.engine, "SELECT job_id, id FROM places")
        await world.run()
        literal = f"'{place['id']}'" if world.engine.name == "postgres" else f"x'{place['id'].hex}'"
        await raw(world.engine, f"INSERT INTO places (job_id, place, id) SELECT job_id, 0, id FROM executions WHERE id = {literal}")

        assert await world.store.losses.reconcile(world.now) == 1

        world.turn(MINUTE)
        await world.fire()
        assert await standings(world, job) == [K, P]

    async def test_a_sound_store_has_nothing_to_reconcile(self, world: World, queue: Job) -> None:
        assert await world.store.losses.reconcile(world.now) == 0

        assert await standings(world, queue) == [P, B, B, B]


@pytest.mark.parametrize("place", [0, 2])
async def test_the_only_place_is_taken_where_no_place_is_taken(world: World, place: int) -> None:
    """A job that allowed more before may still have its later places taken."""
    job, other, first, second = uuid4(), uuid4(), uuid4(), uuid4()

    assert len(await world.engine.fetch("take_place", {"job_id": job, "place": place, "id": first})) == 1

    assert len(await world.engine.fetch("take_only_place", {"job_id": job, "id": second})) == 0
    assert len(await world.engine.fetch("take_only_place", {"job_id": other, "id": second})) == 1

    # Nobody stands there: the ledger would not be sound.
    for taken, id in ((job, first), (other, second)):
        assert len(await world.engine.fetch("free_place", {"job_id": taken, "id": id})) == 1
