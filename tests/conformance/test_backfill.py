"""Backfill on both stores: what is run, at which rate, how many at a time, and what an abort leaves."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from duly.domain.access import Actor, Role
from duly.domain.backfill import MOST_TARGETS, Rerun
from duly.domain.catchup import CatchUpPolicy
from duly.domain.errors import Invalid
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND
from duly.domain.job import Job
from duly.domain.lifecycle import Outcome, State, Trigger
from duly.usecases.backfill import BackfillAsk, BackfillReport, Backfills
from duly.usecases.bulk import Bulk
from duly.usecases.executions import Executions
from duly.usecases.jobs import Jobs
from duly.usecases.overdue import Overdue
from duly.usecases.quotas import Directory
from tests.conformance.world import World

ME = Actor(tenant=1, tenant_name="default", role=Role.OPERATOR, key_id="me")


class _Clock:
    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> int:
        return self._world.now

    def boottime(self) -> int:
        return self._world.now


class _Hints:
    async def announce(self, routes: object) -> None: ...

    async def announce_due(self, at: object) -> None: ...

    async def announce_cancel(self) -> None: ...


class Bench:
    """The use cases on a world's store."""

    def __init__(self, world: World) -> None:
        clock, hints, entropy = _Clock(world), _Hints(), world.chance.getrandbits
        store: Any = world.store
        quotas = Directory(store.tenants, clock)
        jobs = Jobs(store.definitions, Overdue(store.schedules, store.leases, quotas, hints), quotas, clock, entropy, hints)
        executions = Executions(jobs, store.intake, store.cancels, store.insights, quotas, clock, entropy, hints)
        self.world, self.jobs = world, jobs
        self.backfills = Backfills(jobs, executions, store.letters, clock, entropy)
        self.bulk = Bulk(store.letters, jobs, executions, store.cancels, clock, entropy, hints)

    async def run(self, job: Job, span: int = HOUR, **ask: Any) -> BackfillReport:
        """Fill in the time up to now."""
        world = self.world
        return await self.backfills.start(ME, job.id, BackfillAsk(**{"first": world.now - span, "last": world.now} | ask))


@pytest.fixture
def bench(world: World) -> Bench:
    return Bench(world)


async def backfilled(world: World, job: Job) -> list[Any]:
    return [run for run in await world.of_job(job) if run.trigger is Trigger.BACKFILL]


async def job_that_slept(world: World, **changes: Any) -> Job:
    """A job that fires every ten minutes, and whose dispatcher was away for the last hour: the last fire is made up for, five are not."""
    job = await world.job(every=10 * MINUTE, catch_up=CatchUpPolicy.LATEST, **changes)
    await world.fire()
    await world.run()
    world.turn(HOUR)
    while (await world.fire()).advanced:
        pass
    await world.run()
    return job


async def test_it_runs_what_did_not_run_then(bench: Bench, world: World) -> None:
    job = await job_that_slept(world)
    missed = [run.due_at for run in await world.of_job(job) if run.state is State.SKIPPED]
    assert len(missed) == 5

    report = await bench.run(job)

    assert list(report.plan.run) == missed
    made = await backfilled(world, job)
    assert [run.scheduled_at for run in made] == missed
    assert {run.batch for run in made} == {report.batch}


async def test_a_dry_run_writes_nothing(bench: Bench, world: World) -> None:
    job = await job_that_slept(world)

    report = await bench.run(job, dry_run=True)

    assert (report.batch, len(report.plan.run), len(report.plan.left)) == (None, 5, 2)
    assert await backfilled(world, job) == []


async def test_it_runs_one_after_another_oldest_first(bench: Bench, world: World) -> None:
    job = await job_that_slept(world)
    await bench.run(job)

    for nth in itertools.count():
        made = await backfilled(world, job)
        if all(run.state is State.SUCCEEDED for run in made):
            break
        assert [run.state for run in made] == [State.SUCCEEDED] * nth + [State.PENDING] + [State.BLOCKED] * (4 - nth)
        await world.run()
    assert nth == 5


async def test_several_at_a_time_when_asked(bench: Bench, world: World) -> None:
    job = await job_that_slept(world)

    await bench.run(job, max_concurrent=3)

    assert [run.state for run in await backfilled(world, job)].count(State.PENDING) == 3


async def test_a_rate_spaces_them_apart(bench: Bench, world: World) -> None:
    job = await job_that_slept(world)

    await bench.run(job, rate=0.5, max_concurrent=10)

    made = await backfilled(world, job)
    assert [run.due_at - world.now for run in made] == [2 * SECOND * nth for nth in range(5)]


async def test_the_second_time_there_is_nothing_to_do(bench: Bench, world: World) -> None:
    job = await job_that_slept(world)
    await bench.run(job, max_concurrent=10)
    assert (await bench.run(job)).plan.run == (), "what waits is not run beside"
    await world.run()

    assert (await bench.run(job)).plan.run == ()
    assert len((await bench.run(job, rerun=Rerun.ALL, dry_run=True)).plan.run) == 7


async def test_what_failed_is_run_again_when_asked(bench: Bench, world: World) -> None:
    job = await job_that_slept(world)
    await bench.run(job, max_concurrent=10)
    for _ in range(3):
        await world.run(Outcome.FAILED)
        world.turn(MINUTE)
        await world.promote()
    assert {run.state for run in await backfilled(world, job)} == {State.DEAD}

    assert (await bench.run(job, span=2 * HOUR, dry_run=True)).plan.run == ()
    assert len((await bench.run(job, span=2 * HOUR, rerun=Rerun.FAILED, dry_run=True)).plan.run) == 5


async def test_an_abort_stops_what_has_not_started(bench: Bench, world: World) -> None:
    job = await job_that_slept(world)
    report = await bench.run(job)
    worker = await world.worker()
    claimed = await world.claimed(worker)

    assert report.batch is not None
    await bench.bulk.abort(ME, report.batch)

    states = [run.state for run in await backfilled(world, job)]
    assert states == [State.RUNNING, *[State.CANCELLED] * 4]
    await world.finish(worker, claimed)
    assert (await bench.bulk.show(ME, report.batch)).counts == {State.SUCCEEDED: 1, State.CANCELLED: 4}


async def test_what_cannot_be_is_refused(bench: Bench, world: World) -> None:
    job, busy, no_schedule = await job_that_slept(world), await world.job(every=SECOND, anchor=0), await world.job()
    now = world.now

    for wrong, first, last in ((job, now - HOUR, now + 1), (job, now, now - 1), (busy, now - 2 * MOST_TARGETS * SECOND, now)):
        with pytest.raises(Invalid):
            await bench.backfills.start(ME, wrong.id, BackfillAsk(first=first, last=last))
    with pytest.raises(Invalid):
        await bench.run(no_schedule)


async def test_a_day_that_never_was_is_empty(bench: Bench, world: World) -> None:
    job = await world.job(every=DAY)

    report = await bench.backfills.start(ME, job.id, BackfillAsk(first=world.now - 5 * DAY, last=world.now - 2 * DAY))

    assert report.plan.run == report.plan.left == ()
