"""What was due before a job was paused, changed or cancelled is not forgotten: it is fired, or recorded with who did not want it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from duly.domain.access import Actor, Role
from duly.domain.catchup import CatchUpPolicy
from duly.domain.instants import HOUR, MINUTE, SECOND, Instant
from duly.domain.job import Job, JobType, Timing
from duly.domain.lifecycle import JobState, SkipReason, State
from tests.conformance.test_backfill import Bench
from tests.conformance.world import World

ME = Actor(1, "default", Role.ADMIN, "me")


@pytest.fixture
def bench(world: World) -> Bench:
    return Bench(world)


async def overdue(world: World, count: int, **changes: Any) -> tuple[Job, list[Instant]]:
    """A job that fires every minute, and so many fires that no dispatcher came for."""
    job = await world.job(every=MINUTE, catch_up=CatchUpPolicy.ALL, grace=HOUR, **changes)
    first = world.now
    world.turn((count - 1) * MINUTE + SECOND)
    return job, [first + nth * MINUTE for nth in range(count)]


async def targets(world: World, job: Job) -> dict[Instant, tuple[State, SkipReason | None]]:
    return {run.due_at: (run.state, run.skip) for run in await world.of_job(job)}


async def test_what_was_due_before_a_pause_is_recorded_as_not_wanted(world: World, bench: Bench) -> None:
    job, due = await overdue(world, 3)

    await bench.jobs.pause(ME, job.id, "enough")
    world.turn(HOUR)
    await bench.jobs.resume(ME, job.id)
    await world.fire()

    assert await targets(world, job) == dict.fromkeys(due, (State.SKIPPED, SkipReason.ASKED))
    for run in await world.of_job(job):
        assert '"by":"me"' in (run.error or "").replace(" ", ""), "the record says who"


async def test_what_was_due_before_a_pause_with_an_end_is_recorded_as_not_wanted(world: World, bench: Bench) -> None:
    job, due = await overdue(world, 2)

    await bench.jobs.pause(ME, job.id, None, until=world.now + HOUR)
    world.turn(2 * HOUR)
    await world.fire()

    made = await targets(world, job)
    assert {at: made[at] for at in due} == dict.fromkeys(due, (State.SKIPPED, SkipReason.ASKED))


async def test_what_was_due_before_another_timing_is_fired(world: World, bench: Bench) -> None:
    job, due = await overdue(world, 3)
    hourly = Timing(type=JobType.INTERVAL, every=HOUR, anchor=world.now + HOUR)

    after = await bench.jobs.change_spec(ME, job, replace(job.version.spec, timing=hourly), world.now)
    await world.fire()

    assert await targets(world, job) == dict.fromkeys(due, (State.PENDING, None))
    assert (after.state, after.next_fire_at) == (JobState.ACTIVE, world.now + HOUR)
    assert {run.job_version for run in await world.of_job(job)} == {job.version.number}, "as the version wanted it that was due"


async def test_what_was_due_keeps_its_catch_up_policy_when_the_timing_changes(world: World, bench: Bench) -> None:
    job = await world.job(every=MINUTE, catch_up=CatchUpPolicy.LATEST)
    first = world.now
    world.turn(4 * MINUTE + SECOND)
    hourly = Timing(type=JobType.INTERVAL, every=HOUR, anchor=world.now + HOUR)

    await bench.jobs.change_spec(ME, job, replace(job.version.spec, timing=hourly), world.now)

    made = await targets(world, job)
    assert [made[first + nth * MINUTE][1] for nth in range(4)] == [SkipReason.MISFIRE] * 4
    assert made[first + 4 * MINUTE] == (State.PENDING, None)


async def test_what_was_due_before_a_cancel_is_recorded_as_not_wanted(world: World, bench: Bench) -> None:
    job, due = await overdue(world, 2)

    cancelled = await bench.jobs.cancel(ME, job.id)
    await world.fire()

    assert cancelled.state is JobState.CANCELLED
    assert await targets(world, job) == dict.fromkeys(due, (State.SKIPPED, SkipReason.ASKED))


async def test_a_long_outage_is_recorded_to_its_end(world: World, bench: Bench) -> None:
    job, due = await overdue(world, 350)

    await bench.jobs.cancel(ME, job.id)

    assert list(await targets(world, job)) == due


async def test_a_one_time_job_that_is_late_runs_when_its_pause_ends(world: World, bench: Bench) -> None:
    job = await world.job(at=world.now)
    world.turn(SECOND)

    await bench.jobs.pause(ME, job.id, None)
    world.turn(HOUR)
    await bench.jobs.resume(ME, job.id)
    await world.fire()

    assert [(run.state, run.skip) for run in await world.of_job(job)] == [(State.PENDING, None)]


async def test_a_one_time_job_that_is_late_moves_to_its_new_time(world: World, bench: Bench) -> None:
    job = await world.job(at=world.now)
    world.turn(SECOND)
    later = Timing(type=JobType.ONE_TIME, run_at=world.now + HOUR)

    await bench.jobs.change_spec(ME, job, replace(job.version.spec, timing=later), world.now)
    await world.fire()
    assert await world.of_job(job) == []
    world.turn(HOUR)
    await world.fire()

    assert [run.due_at for run in await world.of_job(job)] == [later.run_at]


async def test_a_paused_job_owes_nothing(world: World, bench: Bench) -> None:
    job = await world.job(every=MINUTE)
    await world.fire()
    await bench.jobs.pause(ME, job.id, None)
    world.turn(HOUR)
    hourly = Timing(type=JobType.INTERVAL, every=HOUR, anchor=world.now + HOUR)

    await bench.jobs.change_spec(ME, job, replace(job.version.spec, timing=hourly), world.now)
    await bench.jobs.cancel(ME, job.id)

    assert len(await world.of_job(job)) == 1
