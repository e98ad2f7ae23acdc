"""What a dispatcher reads and writes: due schedules, fires, promotion, what comes next."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from duly.domain.catchup import CatchUpPolicy
from duly.domain.decide import Firing
from duly.domain.ids import fire_id
from duly.domain.instants import HOUR, MINUTE, SECOND
from duly.domain.job import Job
from duly.domain.lifecycle import JobState, Outcome, SkipReason, State, Trigger
from duly.domain.shards import SHARDS, shard_of
from duly.ports.store import FireReport, Reschedule
from tests.conformance.world import START, World

NOTHING = FireReport()


async def due_jobs(world: World, shards: range | list[int] = range(SHARDS), limit: int = 100) -> list:
    return [item.job_id for item in await world.store.schedules.due_schedules(shards, world.now, limit)]


class TestDueSchedules:
    async def test_a_schedule_is_due_when_its_time_has_come(self, world: World) -> None:
        job = await world.job(every=HOUR, anchor=START + MINUTE)

        assert await due_jobs(world) == []
        world.turn(MINUTE)

        (due,) = await world.store.schedules.due_schedules(range(SHARDS), world.now, 10)
        assert (due.job_id, due.shard, due.next_fire_at, due.version) == (job.id, shard_of(job.id), START + MINUTE, job.version.number)

    async def test_only_the_asked_shards_are_read(self, world: World) -> None:
        job = await world.job(every=HOUR)
        mine = shard_of(job.id)

        assert await due_jobs(world, [mine]) == [job.id]
        assert await due_jobs(world, [shard for shard in range(SHARDS) if shard != mine]) == []

    async def test_a_shard_gives_its_oldest_up_to_the_limit(self, world: World) -> None:
        made = [world.new_job(world.spec(every=HOUR, anchor=START + nth * SECOND)) for nth in range(200)]
        await world.store.definitions.create_jobs([(made, None)], world.now)
        world.turn(HOUR // 2)
        crowded = Counter(job.shard for job in made).most_common(1)[0][0]

        assert await due_jobs(world, [crowded], limit=2) == [job.id for job in made if job.shard == crowded][:2]


class TestFire:
    async def test_a_fire_is_ready_and_its_schedule_advances(self, world: World) -> None:
        job = await world.job(every=HOUR)

        assert await world.fire() == FireReport(advanced=1, fired=1)

        (execution,) = await world.of_job(job)
        assert (execution.id, execution.state, execution.trigger) == (fire_id(job.id, START), State.PENDING, Trigger.SCHEDULE)
        assert (execution.due_at, execution.job_version) == (START, job.version.number)
        assert (await world.read(job.id)).next_fire_at == START + HOUR

    async def test_the_second_of_two_equal_fires_finds_the_schedule_moved(self, world: World) -> None:
        job = await world.job(every=HOUR)
        firing = await world.decide()
        await world.fire(firing)

        assert await world.fire(firing) == NOTHING

        assert len(await world.of_job(job)) == 1

    async def test_a_schedule_turned_back_fires_no_instant_twice(self, world: World) -> None:
        job = await world.job(every=HOUR)
        await world.fire()
        await world.change(job, Reschedule(START))

        report = await world.fire()

        assert (report.advanced, report.fired) == (1, 0)
        assert len(await world.of_job(job)) == 1

    async def test_an_old_epoch_fires_nothing(self, world: World) -> None:
        job = await world.job(every=HOUR)
        old = dict(await world.own_shards("first"))
        firing = await world.decide()
        await world.own_shards("second")

        assert await world.fire(firing, epochs=old) == NOTHING
        assert await world.fire(firing, epochs={}) == NOTHING

        assert (await world.read(job.id)).next_fire_at == START
        assert (await world.fire(firing)).fired == 1

    async def test_of_a_batch_only_the_lost_shards_are_left_out(self, world: World) -> None:
        jobs = await world.jobs(8, every=HOUR)
        epochs = dict(await world.own_shards())
        lost = {shard_of(job.id) for job in jobs[:4]}
        kept = [job for job in jobs if shard_of(job.id) not in lost]

        report = await world.fire(epochs={shard: epoch - (shard in lost) for shard, epoch in epochs.items()})

        assert report == FireReport(advanced=len(kept), fired=len(kept))
        assert [len(await world.of_job(job)) for job in jobs] == [int(job in kept) for job in jobs]

    async def test_what_was_decided_for_an_old_version_is_left_out(self, world: World) -> None:
        job = await world.job(every=HOUR)
        firing = await world.decide()
        await world.change(job, payload="1")

        assert await world.fire(firing) == NOTHING

        assert (await world.fire()).fired == 1
        assert (await world.of_job(job))[0].job_version == (await world.read(job.id)).version.number

    async def test_a_job_paused_after_the_decision_does_not_fire(self, world: World) -> None:
        job = await world.job(every=HOUR)
        firing = await world.decide()
        await world.pause(job)

        assert await world.fire(firing) == NOTHING

        assert await world.of_job(job) == []

    async def test_a_paused_job_does_not_fire_though_its_schedule_stands_where_it_was_read(self, world: World) -> None:
        job = await world.job(every=HOUR)
        firing = await world.decide()
        await world.store.definitions.set_state(1, job.id, JobState.PAUSED, START, None, world.now)

        assert await world.fire(firing) == NOTHING
        assert await world.store.schedules.due_schedules(range(SHARDS), world.now, 10) == []

        assert await world.of_job(job) == []

    async def test_a_job_cancelled_after_the_decision_does_not_fire(self, world: World) -> None:
        job = await world.job(every=HOUR)
        firing = await world.decide()
        await world.cancel_job(job)

        assert await world.fire(firing) == NOTHING

    async def test_a_one_time_job_completes_with_its_fire(self, world: World) -> None:
        job = await world.job(at=START)

        assert (await world.fire()).fired == 1

        read = await world.read(job.id)
        assert (read.state, read.next_fire_at) == (JobState.COMPLETED, None)
        assert await due_jobs(world) == []

    async def test_one_advance_may_fire_several_times(self, world: World) -> None:
        job = await world.job(every=MINUTE, catch_up=CatchUpPolicy.ALL)
        world.turn(5 * MINUTE)

        assert await world.fire() == FireReport(advanced=1, fired=6)

        executions = await world.of_job(job)
        assert [execution.due_at for execution in executions] == [START + nth * MINUTE for nth in range(6)]
        assert {execution.state for execution in executions} == {State.PENDING}

    async def test_a_misfire_is_recorded_with_its_reason(self, world: World) -> None:
        job = await world.job(every=MINUTE, catch_up=CatchUpPolicy.LATEST)
        world.turn(3 * MINUTE)

        assert await world.fire() == FireReport(advanced=1, fired=4, skipped=3)

        executions = await world.of_job(job)
        assert [execution.state for execution in executions] == [State.SKIPPED] * 3 + [State.PENDING]
        assert {execution.skip for execution in executions[:3]} == {SkipReason.MISFIRE}
        assert executions[0].finished_at == world.now
        assert "misfire" in executions[0].error

    async def test_an_advance_without_fires_only_moves(self, world: World) -> None:
        job = await world.job(every=HOUR)
        firing = await world.decide()

        assert await world.fire(Firing(firing.advances, [])) == FireReport(advanced=1)

        assert await world.of_job(job) == []

    async def test_fires_of_schedules_that_are_not_advanced_are_left_out(self, world: World) -> None:
        await world.job(every=HOUR)
        firing = await world.decide()

        assert await world.fire(Firing([], firing.fires)) == NOTHING

    async def test_a_fire_carries_its_rank(self, world: World) -> None:
        job = await world.job(every=HOUR)
        firing = await world.decide()
        early = Firing(firing.advances, [firing.fires[0]._replace(rank=START - HOUR)])
        await world.enqueue(job)

        await world.fire(early)

        assert (await world.claimed(await world.worker(), 1)).ids == [fire_id(job.id, START)]

    async def test_many_jobs_fire_in_one_call(self, world: World) -> None:
        jobs = await world.jobs(30, every=HOUR)

        assert await world.fire() == FireReport(advanced=30, fired=30)

        assert sorted(await world.run()) == sorted(fire_id(job.id, START) for job in jobs)

    async def test_one_that_is_later_than_its_jitter_stands_for_its_nominal_time_at_every_attempt(self, world: World) -> None:
        job = await world.job(every=HOUR)
        firing = await world.decide()
        world.turn(5 * SECOND)
        await world.fire(replace(firing, fires=[fire._replace(delay=3 * SECOND, rank=fire.rank + 3 * SECOND) for fire in firing.fires]))
        worker = await world.worker()

        first = await world.claimed(worker, of=[job])
        await world.finish(worker, first, Outcome.FAILED)
        world.turn(MINUTE)
        await world.promote()
        again = await world.claimed(await world.worker(), of=[job])

        assert (first.ids, first.scheduled_ats, first.due_ats) == (again.ids, [START], [START + 3 * SECOND])
        assert again.scheduled_ats == [START]


class TestPromote:
    async def test_only_what_is_due_becomes_ready(self, world: World) -> None:
        job = await world.job()
        (soon,), (later,) = await world.enqueue(job, due_in=MINUTE), await world.enqueue(job, due_in=HOUR)
        world.turn(MINUTE)

        report = await world.promote()

        assert (report.promoted, report.cancelled, report.routes) == (1, 0, (job.version.route,))
        assert await world.states([soon, later]) == [State.PENDING, State.SCHEDULED]

    async def test_promoting_again_finds_nothing(self, world: World) -> None:
        await world.enqueue(await world.job(), due_in=MINUTE)
        world.turn(MINUTE)
        await world.promote()

        report = await world.promote()

        assert (report.promoted, report.routes) == (0, ())

    async def test_an_old_epoch_promotes_nothing(self, world: World) -> None:
        (run_id,) = await world.enqueue(await world.job(), due_in=MINUTE)
        old = dict(await world.own_shards("first"))
        await world.own_shards("second")
        world.turn(MINUTE)

        assert (await world.store.schedules.promote(old, world.now, 10)).promoted == 0

        assert await world.state(run_id) is State.SCHEDULED
        assert (await world.promote()).promoted == 1

    async def test_a_shard_promotes_its_oldest_up_to_the_limit(self, world: World) -> None:
        job = await world.job()
        ids = [(await world.enqueue(job, due_in=(5 - nth) * SECOND))[0] for nth in range(5)]
        world.turn(MINUTE)

        assert (await world.promote(limit=2)).promoted == 2

        assert await world.states(ids) == [State.SCHEDULED] * 3 + [State.PENDING] * 2

    async def test_what_was_cancelled_meanwhile_becomes_final(self, world: World) -> None:
        kept_job, stopped_job = await world.job(), await world.job(pool="elsewhere")
        (kept,) = await world.enqueue(kept_job, due_in=MINUTE)
        (stopped,) = await world.enqueue(stopped_job)
        worker = await world.worker()
        claimed = await world.claimed(worker)
        # Its worker is lost after the wish and before the sweeper knew of it: it waits in timers, with a wish.
        world.turn(MINUTE)
        await world.lose()
        await world.wish(stopped)
        world.turn(MINUTE)

        report = await world.promote()

        assert (report.promoted, report.cancelled, report.routes) == (1, 1, (kept_job.version.route,))
        assert await world.states([kept, stopped]) == [State.PENDING, State.CANCELLED]
        assert await world.outcomes_of(stopped) == [Outcome.WORKER_LOST]
        assert claimed.ids == [stopped]


class TestUpcoming:
    @pytest.fixture
    async def job(self, world: World) -> Job:
        return await world.job(every=HOUR, anchor=START + 2 * MINUTE)

    async def upcoming(self, world: World, after: int, until: int, limit: int = 100) -> list[int]:
        found = await world.store.schedules.upcoming(range(SHARDS), START + after, START + until, limit)
        return [coming.at - START for coming in found]

    async def test_schedules_and_timers_come_soonest_first(self, world: World, job: Job) -> None:
        await world.enqueue(job, due_in=3 * MINUTE)
        await world.enqueue(await world.job(), due_in=MINUTE)

        assert await self.upcoming(world, 0, HOUR) == [MINUTE, 2 * MINUTE, 3 * MINUTE]

    async def test_the_bounds_are_after_and_until(self, world: World, job: Job) -> None:
        assert await self.upcoming(world, 2 * MINUTE, HOUR) == []
        assert await self.upcoming(world, 2 * MINUTE - 1, 2 * MINUTE) == [2 * MINUTE]
        assert await self.upcoming(world, 0, 2 * MINUTE - 1) == []

    async def test_an_instant_is_named_once_for_each_shard(self, world: World, job: Job) -> None:
        others = [await world.job() for _ in range(3)]
        for other in others:
            await world.enqueue(other, 2, due_in=2 * MINUTE)

        coming = await world.store.schedules.upcoming(range(SHARDS), START, START + HOUR, 100)

        assert coming == sorted({(START + 2 * MINUTE, shard_of(one.id)) for one in (job, *others)})

    async def test_the_limit_keeps_the_soonest(self, world: World) -> None:
        for nth in (4, 1, 3, 2):
            await world.enqueue(await world.job(), due_in=nth * MINUTE)

        assert await self.upcoming(world, 0, HOUR, limit=2) == [MINUTE, 2 * MINUTE]

    async def test_paused_jobs_and_other_shards_are_silent(self, world: World, job: Job) -> None:
        others = [shard for shard in range(SHARDS) if shard != shard_of(job.id)]
        assert await world.store.schedules.upcoming(others, START, START + HOUR, 10) == []

        await world.pause(job)

        assert await self.upcoming(world, 0, HOUR) == []
