"""Jobs that wait for other jobs: a fire runs once the other has succeeded for the same day, whoever comes first, and never without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from duly.adapters.sql.bell import Bell
from duly.domain.catchup import CatchUpPolicy
from duly.domain.dependencies import Dependency, OnDeadline, Per
from duly.domain.ids import ExecutionId, fire_id
from duly.domain.instants import DAY, HOUR, SECOND
from duly.domain.job import Job
from duly.domain.lifecycle import Outcome, SkipReason, State
from duly.domain.overlap import OverlapPolicy
from duly.usecases.conduct.dependents import Dependents
from tests.conformance.asking import Asking, asking
from tests.conformance.ledger import raw
from tests.conformance.workflows import HandClock
from tests.conformance.world import START, World

B, P, X, S = State.BLOCKED, State.PENDING, State.SKIPPED, State.SUCCEEDED


@pytest.fixture
async def ask(world: World) -> AsyncIterator[Asking]:
    async with asking(world) as found:
        yield found


async def load_after(world: World, *dependencies: Dependency, **changes: Any) -> tuple[Job, ExecutionId]:
    """A job that fires now and waits for others; by default for `extract` of the same day."""
    job = await world.job("load", every=DAY, after=dependencies or (Dependency(job="extract"),), **changes)
    return job, fire_id(job.id, START)


async def succeed(world: World, job: Job) -> None:
    """An execution of this job, for now, succeeds; nobody is told."""
    await world.enqueue(job)
    assert await world.run(of=[job])


async def test_a_fire_waits_until_the_other_job_has_succeeded_for_the_day(world: World) -> None:
    extract = await world.job("extract")
    load, run = await load_after(world)

    await world.fire()
    assert await world.state(run) is B
    assert await world.run(of=[load]) == []
    await succeed(world, extract)
    routes = await world.store.awaited.succeeded([extract.id], world.now)

    assert routes == {load.version.route}
    assert await world.run(of=[load]) == [run]
    assert await world.state(run) is S
    assert await world.store.awaited.jobs() == frozenset()


async def test_a_success_that_came_first_counts(world: World) -> None:
    await succeed(world, await world.job("extract"))
    _, run = await load_after(world)

    await world.fire()

    assert await world.state(run) is P


@pytest.mark.parametrize(("per", "counts"), [(Per.HOUR, False), (Per.DAY, False), (Per.MONTH, True)])
async def test_a_success_for_another_period_does_not_count(world: World, per: Per, counts: bool) -> None:
    extract = await world.job("extract")
    world.turn(-DAY)
    await succeed(world, extract)
    world.turn(DAY)
    _, run = await load_after(world, Dependency(job="extract", per=per))

    await world.fire()

    assert await world.state(run) is (P if counts else B)


async def test_a_failure_does_not_count(world: World) -> None:
    extract = await world.job("extract")
    _, run = await load_after(world)
    await world.fire()
    await world.enqueue(extract)
    await world.run(Outcome.FAILED, of=[extract])

    await world.store.awaited.succeeded([extract.id], world.now)

    assert await world.state(run) is B


async def test_a_success_that_nobody_told_is_found_by_the_dispatchers_next_look(world: World) -> None:
    extract = await world.job("extract")
    _, run = await load_after(world)
    await world.fire()
    await succeed(world, extract)

    world.turn(5 * SECOND)
    await world.promote()

    assert await world.state(run) is P


async def test_of_a_fire_and_a_success_side_by_side_one_sees_the_other(world: World) -> None:
    for nth in range(5):
        extract = await world.job(f"extract-{nth}")
        load = await world.job(f"load-{nth}", every=DAY, after=(Dependency(job=f"extract-{nth}"),))
        run = fire_id(load.id, world.now)
        dependents = Dependents(world.store.awaited, Bell(), HandClock(world))
        await world.enqueue(extract)
        firing = await world.decide()

        async def end(extract: Job = extract, dependents: Dependents = dependents) -> None:
            assert await world.run(of=[extract])
            await dependents.tell([extract.id])

        await asyncio.gather(world.fire(firing), end())

        assert await world.state(run) is P
        assert await world.run(of=[load]) == [run]


async def test_at_the_deadline_it_is_skipped_with_the_reason_and_its_place_is_free(world: World) -> None:
    load, run = await load_after(world, Dependency(job="extract", within=HOUR), overlap=OverlapPolicy.SKIP)
    await world.fire()

    world.turn(HOUR)
    await world.promote()

    skipped = await world.execution(run)
    assert (skipped.state, skipped.skip) == (X, SkipReason.DEPENDENCY)
    world.turn(23 * HOUR)
    await world.fire()
    assert await world.state(fire_id(load.id, START + DAY)) is B


async def test_at_the_deadline_it_runs_all_the_same_if_the_job_says_so(world: World) -> None:
    load, run = await load_after(world, Dependency(job="extract", within=HOUR, on_deadline=OnDeadline.RUN))
    await world.fire()
    world.turn(HOUR - SECOND)
    await world.promote()
    assert await world.state(run) is B

    world.turn(SECOND)
    await world.promote()

    assert await world.run(of=[load]) == [run]
    lines = await raw(world.engine, "SELECT level, message FROM logs")
    assert [tuple(line.values()) for line in lines] == [
        ("warning", "runs without the job 'extract', which had not succeeded by the deadline")
    ]


async def test_every_fire_that_is_caught_up_waits_for_its_own_hour(world: World) -> None:
    extract = await world.job("extract")
    load = await world.job("load", every=HOUR, after=(Dependency(job="extract", per=Per.HOUR),), catch_up=CatchUpPolicy.ALL)
    world.turn(2 * HOUR)
    await world.fire()
    runs = [fire_id(load.id, START + nth * HOUR) for nth in range(3)]
    assert [await world.state(run) for run in runs] == [B, B, B]

    world.turn(-HOUR)
    await succeed(world, extract)
    world.turn(HOUR)
    await world.store.awaited.succeeded([extract.id], world.now)

    assert [await world.state(run) for run in runs] == [B, P, B]


async def test_all_of_several_jobs_are_waited_for(world: World) -> None:
    first, second = await world.job("extract"), await world.job("clean")
    load, run = await load_after(world, Dependency(job="extract"), Dependency(job="clean"))
    await world.fire()

    for job, expected in ((second, B), (first, P)):
        await succeed(world, job)
        await world.store.awaited.succeeded([job.id], world.now)
        world.turn(5 * SECOND)
        await world.promote()
        assert await world.state(run) is expected
    assert await world.run(of=[load]) == [run]


async def test_one_that_waits_can_be_cancelled(world: World) -> None:
    await world.job("extract")
    _, run = await load_after(world)
    await world.fire()

    assert await world.cancel(run) == {run: State.CANCELLED}


async def test_why_names_the_job_the_day_and_what_keeps_it(ask: Asking, world: World) -> None:
    _, run = await load_after(world)
    await world.fire()

    def said(answer: dict[str, Any]) -> str:
        assert [reason["code"] for reason in answer["reasons"]][:1] == ["DEPENDENCY_WAIT"]
        return str(answer["summary"])

    assert said(await ask.run(run)).startswith("It waits for the job 'extract' of 2024-10-04, and there is no such job.")
    extract = await world.job("extract", every=DAY)
    assert ", which has not succeeded yet." in said(await ask.run(run))
    await world.pause(extract)
    assert ", and that job is paused." in said(await ask.run(run))
    await world.cancel_job(extract)
    assert ", and that job was deleted." in said(await ask.run(run))
    world.turn(DAY)
    await world.promote()
    answer = await ask.run(run)
    assert answer["reasons"][0]["code"] == "SKIPPED_DEPENDENCY"
    assert "the job 'extract' had not succeeded in time" in answer["summary"]
