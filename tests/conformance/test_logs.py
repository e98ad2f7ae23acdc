"""Looking through log lines on both engines: by level, by text, of one execution or across a job's, bounded, and a tenant's own only."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from duly.adapters.sql import logs
from duly.domain.execution import LogLine
from duly.domain.ids import ExecutionId, id_floor
from duly.domain.instants import HOUR
from duly.domain.job import Job
from duly.domain.logs import LogFilter
from duly.ports.logs import FoundLine, Place
from tests.conformance.world import World

FIRST = id_floor(0)


async def spoke(world: World, job: Job, *lines: tuple[str, str] | LogLine) -> ExecutionId:
    """An execution that has logged these, as (level, message), and succeeded."""
    (run_id,) = await world.enqueue(job)
    worker = await world.worker()
    claimed = await world.claimed(worker, of=[job])
    told = [line if isinstance(line, LogLine) else LogLine(world.now, *line) for line in lines]
    await world.store.outcomes.append_logs(worker, [(claimed.lease, run_id, 1, line) for line in told])
    await world.finish(worker, claimed)
    world.turn(HOUR)
    return run_id


async def found(world: World, id: ExecutionId, wanted: LogFilter, limit: int = 100) -> list[str]:
    """What is found, page by page."""
    messages: list[str] = []
    after: int | None = 0
    while after is not None:
        lines, after = await world.store.logs.of_execution(1, id, wanted, after, limit)
        messages += [line.line.message for line in lines]
    return messages


async def across(
    world: World, job: Job, wanted: LogFilter, limit: int = 100, tenant: int = 1, oldest: ExecutionId = FIRST
) -> list[FoundLine]:
    lines: list[FoundLine] = []
    place: Place | None = None
    while True:
        page, place = await world.store.logs.of_job(tenant, job.id, wanted, place, oldest, limit)
        assert len(page) <= limit
        lines += page
        if place is None:
            return lines


def texts(lines: Sequence[FoundLine]) -> list[str]:
    return [line.line.message for line in lines]


async def test_lines_are_found_by_level_and_by_text_of_any_case(world: World) -> None:
    run = await spoke(
        world, await world.job(), ("debug", "one"), ("info", "Two"), ("warning", "three"), ("error", "TWOfold"), ("fatal", "x")
    )

    assert await found(world, run, LogFilter()) == ["one", "Two", "three", "TWOfold", "x"]
    assert await found(world, run, LogFilter(level="warning")) == ["three", "TWOfold", "x"]
    assert await found(world, run, LogFilter(contains="two")) == ["Two", "TWOfold"]
    assert await found(world, run, LogFilter(level="error", contains="two")) == ["TWOfold"]
    assert await found(world, run, LogFilter(attempt=2)) == []


async def test_a_text_is_found_in_fields_and_is_no_pattern(world: World) -> None:
    fields = LogLine(world.now, "info", "paid", {"customer": "Müller & 100%"})
    run = await spoke(world, await world.job(), fields, ("info", "100 of 100"), ("info", "a_b"), ("info", "axb"))

    assert await found(world, run, LogFilter(contains="müller")) == ["paid"]
    assert await found(world, run, LogFilter(contains="100%")) == ["paid"]
    assert await found(world, run, LogFilter(contains="A_B")) == ["a_b"]
    assert await found(world, run, LogFilter(contains="'; DROP TABLE logs; --")) == []


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_pages_come_to_the_same_as_one(world: World, limit: int) -> None:
    run = await spoke(world, await world.job(), *(("info", f"{nth} {'even' if nth % 2 == 0 else 'odd'}") for nth in range(7)))

    assert await found(world, run, LogFilter(contains="even"), limit) == ["0 even", "2 even", "4 even", "6 even"]


async def test_a_look_is_bounded_and_says_how_far_it_came(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LINES_AT_ONCE", 3)
    job = await world.job()
    run = await spoke(world, job, *(("info", str(nth)) for nth in range(8)))

    lines, reached = await world.store.logs.of_execution(1, run, LogFilter(contains="7"), 0, 10)

    assert (lines, reached is not None) == ([], True)
    assert await found(world, run, LogFilter(contains="7")) == ["7"]
    assert texts(await across(world, job, LogFilter(contains="7"))) == ["7"]


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_a_job_s_executions_are_looked_through_newest_first(world: World, limit: int) -> None:
    job, other = await world.job(), await world.job()
    first = await spoke(world, job, ("info", "a boom"), ("info", "b"), ("error", "c boom"))
    await spoke(world, job)
    await spoke(world, other, ("error", "boom elsewhere"))
    last = await spoke(world, job, ("warning", "d boom"))

    lines = await across(world, job, LogFilter(contains="BOOM"), limit)

    assert [(line.execution, line.line.message) for line in lines] == [(last, "d boom"), (first, "a boom"), (first, "c boom")]
    assert texts(await across(world, job, LogFilter(level="error"), limit)) == ["c boom"]
    assert texts(await across(world, job, LogFilter(contains="boom"), limit, oldest=last)) == ["d boom"]


async def test_more_executions_than_one_look_takes_are_all_looked_through(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "EXECUTIONS_AT_ONCE", 2)
    job = await world.job()
    for nth in range(5):
        await spoke(world, job, *([("info", str(nth))] if nth in (0, 3) else []))

    assert texts(await across(world, job, LogFilter())) == ["3", "0"]


async def test_a_stranger_finds_nothing(world: World) -> None:
    stranger = await world.add_tenant(7)
    job = await world.job()
    run = await spoke(world, job, ("info", "secret"))

    assert await world.store.logs.of_execution(stranger, run, LogFilter(), 0, 10) == ([], None)
    assert await across(world, job, LogFilter(), tenant=stranger) == []


async def test_the_volume_of_an_attempt_is_counted(world: World) -> None:
    run = await spoke(world, await world.job(), ("info", "four"), ("info", "x" * 10))

    assert await world.store.logs.volume(run, 1) == (2, 14)
    assert await world.store.logs.volume(run, 2) == (0, 0)
