"""Backfill on both stores: what is run, at which rate, how many at a time, and what an abort leaves."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from duly.domain.access import Actor, Role
from duly.domain.backfill import MOST_TARGETS, Rerun
from duly.domain.bulk import BulkAction, Match
from duly.domain.catchup import CatchUpPolicy
from duly.domain.errors import Conflict, Invalid, Unavailable
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND
from duly.domain.job import Job
from duly.domain.lifecycle import Outcome, State, Trigger
from duly.ports.store import Idempotency
from duly.usecases import backfill as usecase
from duly.usecases.backfill import BackfillAsk, BackfillReport, Backfills
from duly.usecases.bulk import Bulk, BulkAsk
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
        self.bulk = Bulk(store.letters, jobs, executions, clock, entropy, hints)

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


async def test_an_abort_in_the_middle_of_a_backfill_leaves_nothing_behind(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await job_that_slept(world)
    monkeypatch.setattr(usecase, "PAGE", 2)
    bench, written = Bench(world), 0
    enqueue = world.store.intake.enqueue

    async def aborted_before_the_second_page(new: Any, *args: Any) -> Any:
        nonlocal written
        written += 1
        if written == 2:
            await bench.bulk.abort(ME, new[0].batch)
        return await enqueue(new, *args)

    monkeypatch.setattr(world.store.intake, "enqueue", aborted_before_the_second_page)
    report = await bench.run(job)

    assert len(report.plan.run) > 4
    assert written == 2
    assert [run.state for run in await backfilled(world, job)] == [State.CANCELLED] * 4


def once(world: World, body: bytes = b"the same") -> Idempotency:
    return Idempotency("once", body.ljust(32), world.now + DAY)


async def test_a_repeated_backfill_has_the_answer_of_the_first(world: World, bench: Bench) -> None:
    job = await job_that_slept(world)
    ask, key = BackfillAsk(first=world.now - HOUR, last=world.now), once(world)

    first = await bench.backfills.start(ME, job.id, ask, key)
    made = await backfilled(world, job)
    world.turn(MINUTE)
    again = await bench.backfills.start(ME, job.id, ask, key)

    assert again == first
    assert await backfilled(world, job) == made
    with pytest.raises(Conflict) as refused:
        await bench.backfills.start(ME, job.id, replace(ask, rerun=Rerun.ALL), once(world, b"another"))
    assert refused.value.code == "DULY-E207"


async def test_a_repeat_makes_up_for_what_a_crash_left_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await job_that_slept(world)
    monkeypatch.setattr(usecase, "PAGE", 2)
    bench, key, written = Bench(world), once(world), 0
    ask = BackfillAsk(first=world.now - HOUR, last=world.now, rate=0.1)
    enqueue = world.store.intake.enqueue

    async def gone_before_the_second_page(*args: Any) -> Any:
        nonlocal written
        written += 1
        if written == 2:
            raise Unavailable("DULY-E501", "gone")
        return await enqueue(*args)

    monkeypatch.setattr(world.store.intake, "enqueue", gone_before_the_second_page)
    with pytest.raises(Unavailable):
        await bench.backfills.start(ME, job.id, ask, key)
    left = await backfilled(world, job)
    world.turn(MINUTE)
    report = await bench.backfills.start(ME, job.id, ask, key)

    made = await backfilled(world, job)
    assert len(left) == 2
    assert [run.scheduled_at for run in made] == list(report.plan.run)
    assert len(made) > 4
    assert made[:2] == left
    assert [run.id for run in made] == sorted(run.id for run in made)
    # At the rate that was asked for, from when it was asked for.
    assert {later.due_at - earlier.due_at for earlier, later in itertools.pairwise(made)} == {10 * SECOND}


async def test_of_two_of_a_kind_at_one_moment_one_backfill_comes(world: World, bench: Bench) -> None:
    job = await job_that_slept(world)
    ask, key = BackfillAsk(first=world.now - HOUR, last=world.now), once(world)

    reports = await asyncio.gather(*(bench.backfills.start(ME, job.id, ask, key) for _ in range(4)))

    assert len({report.batch for report in reports}) == 1
    made = [run.scheduled_at for run in await backfilled(world, job)]
    assert len(made) == len(set(made)) == len(reports[0].plan.run)


async def test_one_of_a_kind_that_comes_when_all_is_there_has_the_answer_of_the_first(
    world: World, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await job_that_slept(world)
    ask, key = BackfillAsk(first=world.now - HOUR, last=world.now), once(world)
    show, reports = bench.backfills._jobs.show, []

    async def overtaken(actor: Actor, id: UUID) -> Job:
        monkeypatch.undo()
        reports.append(await bench.backfills.start(ME, job.id, ask, key))
        return await show(actor, id)

    monkeypatch.setattr(bench.backfills._jobs, "show", overtaken)
    late = await bench.backfills.start(ME, job.id, ask, key)

    assert [late.batch] == [report.batch for report in reports]
    assert late.batch is not None


async def test_a_repeated_bulk_action_has_the_answer_of_the_first(world: World, bench: Bench) -> None:
    job = await job_that_slept(world)
    await bench.run(job)
    match = Match(job_id=job.id, state=State.PENDING)
    ask, key = BulkAsk(action=BulkAction.CANCEL, match=match, limit=2), once(world)
    pending = [run for run in await backfilled(world, job) if run.state is State.PENDING]
    assert pending

    first = await bench.bulk.start(ME, ask, key)
    again = await bench.bulk.start(ME, ask, key)
    further = once(world, b"further")
    more = await bench.bulk.go_on(ME, first.batch or UUID(int=0), anyway=False, limit=1, idempotency=further)

    assert again == first
    assert first.done == min(2, len(pending))
    assert await bench.bulk.go_on(ME, first.batch or UUID(int=0), anyway=False, limit=1, idempotency=further) == more
