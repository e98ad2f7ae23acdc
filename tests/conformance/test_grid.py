"""What a job's run grid is drawn from, on every engine: as the executions themselves tell it."""

from __future__ import annotations

import pytest

from duly.domain.access import Actor, Role
from duly.domain.grid import Grid, Kind
from duly.domain.ids import ExecutionId
from duly.domain.instants import HOUR, SECOND
from duly.domain.job import Job
from duly.domain.lifecycle import Outcome, State
from duly.domain.overlap import OverlapPolicy
from duly.domain.retry import RetryPolicy
from duly.domain.workflow.step import Approval
from duly.usecases.grid import RunGrids
from tests.conformance.workflows import HandClock, Works, step
from tests.conformance.world import World

ACTOR = Actor(1, "default", Role.VIEWER, "key")


@pytest.fixture
def works(world: World) -> Works:
    return Works(world)


def grids(works: Works) -> RunGrids:
    return RunGrids(works.plain.grids, works.conductor, HandClock(works.world))


async def drawn(works: Works, job: Job, runs: int = 60) -> Grid:
    return await grids(works).show(ACTOR, await works.world.read(job.id), runs)


def columns(grid: Grid) -> list[str]:
    return [column.cells for column in grid.columns]


async def test_runs_stand_where_their_executions_do(world: World) -> None:
    job = await world.job("plain", retry=RetryPolicy(max_attempts=1))
    queue = await world.job("queue", every=SECOND, overlap=OverlapPolicy.QUEUE_ONE, grace=HOUR, pool="queue")
    await world.enqueue(job)
    await world.run()
    await world.enqueue(job)
    await world.run(Outcome.FAILED)
    await world.enqueue(job)
    await world.claimed(await world.worker(ttl=HOUR))
    await world.cancel(*await world.enqueue(job))
    await world.enqueue(job, due_in=HOUR)
    await world.enqueue(job)
    world.turn(3 * SECOND)
    await world.fire()

    for one in (job, queue):
        found = await world.store.grids.runs(1, one.id, 100)
        told = await world.of_job(one)
        assert [(run.id, run.state, run.started_at, run.finished_at, run.due_at) for run in found] == [
            (each.id, each.state, each.started_at, each.finished_at, each.due_at) for each in sorted(told, key=lambda e: e.id, reverse=True)
        ]
        assert {run.version for run in found} == {1}
        assert [run.id for run in await world.store.grids.runs(1, one.id, 2)] == [run.id for run in found[:2]]
    assert await world.store.grids.runs(2, job.id, 100) == []


async def test_the_attempts_of_runs_are_their_cells(works: Works) -> None:
    world = works.world
    job = await world.job("tried", retry=RetryPolicy(max_attempts=3))
    [good] = await world.enqueue(job)
    await world.run()
    world.turn(SECOND)
    [bad] = await world.enqueue(job)
    for outcome in (Outcome.FAILED, Outcome.TIMED_OUT, Outcome.FAILED):
        await world.run(outcome)
        world.turn(HOUR)
        await world.promote()
    [again] = await world.enqueue(job)
    await world.run(Outcome.FAILED)
    world.turn(HOUR)
    await world.promote()
    world.turn(7 * SECOND)
    await world.run()
    [waiting] = await world.enqueue(job)

    grid = await drawn(works, job)

    assert (grid.kind, grid.rows, grid.left_out) == (Kind.ATTEMPTS, ["attempt 1", "attempt 2", "attempt 3"], 0)
    assert [(column.run.id, column.cells) for column in grid.columns] == [(again, "FS."), (bad, "FTF"), (good, "S..")]
    assert waiting not in [column.run.id for column in grid.columns]
    tries = await world.store.grids.tries([good, bad, again])
    assert tries[bad].outcomes == f"{Outcome.FAILED.value}{Outcome.TIMED_OUT.value}{Outcome.FAILED.value}"
    assert good not in tries
    # A retry is late by its own time.
    due = tries[again].retry_at
    assert due is not None
    [late] = [column.late for column in grid.columns if column.run.id == again]
    assert late == world.now - due


async def test_the_steps_of_runs_are_their_cells(works: Works) -> None:
    world = works.world
    job = await works.workflow(
        step("undo", compensates="b"), step("a"), step("b", "a"), step("sign", "b", target=None, approval=Approval()), step("c", "sign")
    )
    done = await works.begin(job)
    await works.run_ready()
    world.turn(SECOND)
    broken = await works.begin(job)
    await works.run_ready()
    await works.run_ready(Outcome.FAILED)
    world.turn(SECOND)
    begun = await works.begin(job)

    grid = await drawn(works, job)

    assert grid.kind is Kind.STEPS
    assert grid.rows == ["a", "b", "sign", "c", "undo"], "in the order in which they run"
    by_run = {column.run.id: column.cells for column in grid.columns}
    for run in (done, broken, begun):
        states = await works.states(run, job)
        there = {name for name in grid.rows if by_run[run][grid.rows.index(name)] != "."}
        assert there == {name for name, state in states.items() if state is not None}
    assert by_run[begun] == "P...."
    assert by_run[broken] == "SDKKK"


async def test_runs_of_one_moment_have_their_own_steps(works: Works) -> None:
    job = await works.workflow(step("a"), step("b", "a"))
    runs = await works.world.enqueue(job, 5)
    await works.conduct()
    await works.drain()

    grid = await drawn(works, job)

    assert [column.run.id for column in grid.columns] == sorted(runs, reverse=True)
    assert columns(grid) == ["SS"] * 5
    assert all(column.run.state is State.SUCCEEDED for column in grid.columns)
    assert all(column.run.took is not None for column in grid.columns), "a workflow begins when it is due"


async def test_a_step_that_a_later_version_has_not_stays_a_row(works: Works) -> None:
    world = works.world
    job = await works.workflow(step("a"), step("old", "a"))
    await works.begin(job)
    await works.drain()
    world.turn(SECOND)
    assert await world.change(await world.read(job.id), steps=(step("new"), step("a", "new")))
    await works.begin(await world.read(job.id))
    await works.drain()

    grid = await drawn(works, job)

    assert grid.rows == ["new", "a", "old"]
    assert columns(grid) == ["SS.", ".SS"]
    assert [column.run.version for column in grid.columns] == [2, 1]


async def test_a_job_without_runs_has_no_columns(works: Works) -> None:
    job = await works.world.job("idle")

    grid = await drawn(works, job)

    assert (grid.columns, grid.rows) == ([], ["attempt 1"])
    assert await works.plain.grids.steps([]) == {}
    assert await works.plain.grids.tries([]) == {}


async def test_what_has_ended_is_read_once_and_what_lives_each_time(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    world, job = works.world, await works.workflow(step("a"), step("b", "a"))
    ended = await works.begin(job)
    await works.drain()
    world.turn(90 * SECOND)
    live = await works.begin(job)
    kept, asked = grids(works), []
    plain = works.plain.grids.steps

    async def steps(runs: list[ExecutionId]) -> dict[ExecutionId, str]:
        asked.append(set(runs))
        return await plain(runs)

    monkeypatch.setattr(works.plain.grids, "steps", steps)
    first = await kept.show(ACTOR, await world.read(job.id), 60)
    await works.drain()
    second = await kept.show(ACTOR, await world.read(job.id), 60)
    world.turn(90 * SECOND)
    for _ in range(2):
        last = await kept.show(ACTOR, await world.read(job.id), 60)

    assert (columns(first), columns(second), columns(last)) == (["P.", "SS"], ["SS", "SS"], ["SS", "SS"])
    # It may still change for a moment after its end.
    assert asked == [{ended, live}, {live}, {live}, set()]


async def test_items_of_a_mapped_step_are_no_steps(works: Works) -> None:
    job = await works.workflow(step("list"), step("each", "list", map="list"), step("sum", "each"))
    await works.begin(job)
    await works.run_ready(result="[1, 2, 3]")

    begun = await drawn(works, job)
    await works.drain()

    assert (begun.rows, columns(begun)) == (["list", "each", "sum"], ["SR."])
    assert columns(await drawn(works, job)) == ["SSS"]


async def test_a_step_that_is_skipped_is_no_run_of_its_workflow(works: Works) -> None:
    inner = await works.workflow(step("x"), name="inner")
    job = await works.workflow(step("a"), step("ship", "a", target=None, workflow=inner.version.spec.name))
    run = await works.begin(job)
    await works.run_ready(Outcome.FAILED)

    grid = await drawn(works, job)

    assert [(column.run.id, column.cells) for column in grid.columns] == [(run, "DK")]


async def test_a_walk_past_many_others_finds_every_step(works: Works) -> None:
    """More ended in the run's own millisecond than the walk is long."""
    many = await works.workflow(*[step(f"s{nth}") for nth in range(90)])
    runs = await works.world.enqueue(many, 6)
    await works.conduct()
    await works.drain()

    grid = await drawn(works, many)

    assert sorted(column.run.id for column in grid.columns) == sorted(runs)
    assert columns(grid) == ["S" * 90] * 6
