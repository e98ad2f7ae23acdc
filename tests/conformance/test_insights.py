"""Reading for people: every state is shown right, and pages have neither holes nor repeats."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.postgres.lines import Line
from duly.adapters.sql.statements import statements
from duly.domain.instants import HOUR, MINUTE, SECOND
from duly.domain.job import Job
from duly.domain.lifecycle import Outcome, State
from duly.domain.overlap import OverlapPolicy
from duly.domain.retry import RetryPolicy
from duly.ports.store import ExecutionFilter
from tests.conformance.conftest import opened
from tests.conformance.world import START, World

COUNTED = (State.SCHEDULED, State.BLOCKED, State.PENDING, State.RUNNING, State.DEAD)


class Crowd:
    """Executions in every state, several of each, with another tenant's beside them."""

    def __init__(self) -> None:
        self.ids: dict[State, list[UUID]] = {state: [] for state in State}
        self.job: Job

    @classmethod
    async def gather(cls, world: World) -> Crowd:
        self = cls()
        await world.add_tenant(2)
        self.job = await world.job("plain", retry=RetryPolicy(max_attempts=1))
        queue = await world.job("queue", every=SECOND, overlap=OverlapPolicy.QUEUE_ONE, grace=HOUR, pool="queue")
        theirs = await world.job("theirs", tenant=2)
        worker = await world.worker(ttl=HOUR)

        self.ids[State.SUCCEEDED] = await world.enqueue(self.job, 3)
        await world.run()
        self.ids[State.DEAD] = await world.enqueue(self.job, 3)
        await world.run(Outcome.FAILED)
        self.ids[State.RUNNING] = await world.enqueue(self.job, 3)
        await world.claimed(worker)
        self.ids[State.CANCELLED] = await world.enqueue(self.job, 2)
        await world.cancel(*self.ids[State.CANCELLED])
        self.ids[State.SCHEDULED] = await world.enqueue(self.job, 3, due_in=HOUR)
        self.ids[State.PENDING] = await world.enqueue(self.job, 3)
        await world.enqueue(theirs, 2)
        world.turn(3 * SECOND)
        await world.fire()
        fired = [execution.id for execution in await world.of_job(queue)]
        self.ids[State.PENDING].append(fired[0])
        self.ids[State.BLOCKED].append(fired[1])
        self.ids[State.SKIPPED] = fired[2:]
        return self


@pytest.fixture
async def crowd(world: World) -> Crowd:
    return await Crowd.gather(world)


async def pages(world: World, limit: int, **wanted: object) -> list[UUID]:
    seen: list[UUID] = []
    before = None
    while page := await world.store.insights.executions(ExecutionFilter(1, before=before, limit=limit, **wanted)):
        assert len(page) <= limit
        seen += [execution.id for execution in page]
        before = page[-1].id
    return seen


async def test_every_state_is_shown_right(world: World, crowd: Crowd) -> None:
    for state, ids in crowd.ids.items():
        assert await world.states(ids) == [state] * len(ids), state.name


async def test_executions_are_listed_by_state_newest_first(world: World, crowd: Crowd) -> None:
    for state, ids in crowd.ids.items():
        assert await pages(world, 2, state=state) == sorted(ids, reverse=True), state.name


@pytest.mark.parametrize("limit", [1, 4, 100])
async def test_pages_of_a_tenant_have_neither_holes_nor_repeats(world: World, crowd: Crowd, limit: int) -> None:
    everything = [run_id for ids in crowd.ids.values() for run_id in ids]

    assert await pages(world, limit) == sorted(everything, reverse=True)


async def test_executions_are_listed_by_job_and_state(world: World, crowd: Crowd) -> None:
    queued = {*crowd.ids[State.BLOCKED], *crowd.ids[State.SKIPPED]}
    mine = [run_id for ids in crowd.ids.values() for run_id in ids if run_id not in queued]
    mine.remove(crowd.ids[State.PENDING][3])

    assert await pages(world, 4, job_id=crowd.job.id) == sorted(mine, reverse=True)
    for state in State:
        of_state = [run_id for run_id in crowd.ids[state] if run_id in mine]
        assert await pages(world, 2, job_id=crowd.job.id, state=state) == sorted(of_state, reverse=True)


async def test_executions_are_counted_where_counting_is_cheap(world: World, crowd: Crowd) -> None:
    counts = await world.store.insights.standing_counts(1)

    assert counts == {state: len(crowd.ids[state]) for state in COUNTED}
    assert sum((await world.store.insights.standing_counts(2)).values()) == 2


async def test_what_moves_on_while_it_is_counted_is_counted_once(postgres_store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looked first where it stands afterwards, and then where it stood before, would find it nowhere."""
    async with opened(PostgresEngine(postgres_store)) as engine:
        world = World(engine)
        await world.enqueue(await world.job(retry=RetryPolicy(max_attempts=2)))
        worker = await world.worker()
        meanwhile = [await world.claimed(worker)]
        fetch, first = Line.fetch, statements("postgres")["count_scheduled"].text

        async def fetch_and_fail(line: Line, text: str, *values: Any) -> Any:
            rows = await fetch(line, text, *values)
            if text == first and meanwhile:
                await world.finish(worker, meanwhile.pop(), Outcome.FAILED)
            return rows

        monkeypatch.setattr(Line, "fetch", fetch_and_fail)
        counts = await world.store.insights.standing_counts(1)
        after = await world.store.insights.standing_counts(1)

    assert not meanwhile
    assert {state: count for state, count in counts.items() if count} == {State.RUNNING: 1}
    assert {state: count for state, count in after.items() if count} == {State.SCHEDULED: 1}


async def test_ready_work_is_summed_by_pool(world: World, crowd: Crowd) -> None:
    assert await world.store.insights.ready_by_pool(1) == [("default", 3, START), ("queue", 1, START)]


async def test_another_tenants_execution_is_not_there(world: World, crowd: Crowd) -> None:
    assert await world.store.insights.execution(2, crowd.ids[State.PENDING][0]) is None
    assert await world.store.insights.execution(1, world.ids(1)[0]) is None


async def test_a_running_execution_names_its_worker_and_fence(world: World) -> None:
    (run_id,) = await world.enqueue(await world.job())
    world.turn(SECOND)
    worker = await world.worker()
    claimed = await world.claimed(worker)

    execution = await world.execution(run_id)

    assert (execution.state, execution.worker, execution.fence, execution.started_at) == (
        State.RUNNING,
        worker,
        claimed.lease,
        START + SECOND,
    )
    assert (execution.attempt, execution.max_attempts, execution.last_outcome) == (1, 3, None)


async def test_a_run_after_a_failure_shows_the_new_lease_though_the_old_one_is_open(world: World) -> None:
    await world.enqueue(await world.job(), 2)
    worker = await world.worker(ttl=HOUR)
    first = await world.claimed(worker)
    await world.finish(worker, first, Outcome.FAILED, first.ids[:1])
    world.turn(MINUTE)
    await world.promote()
    second = await world.claimed(worker)

    execution = await world.execution(first.ids[0])

    assert (execution.fence, execution.attempt, execution.last_outcome) == (second.lease, 2, Outcome.FAILED)
    assert (await world.execution(first.ids[1])).fence == first.lease


async def test_every_attempt_is_told_first_to_last(world: World) -> None:
    (run_id,) = await world.enqueue(await world.job())
    for outcome in (Outcome.FAILED, Outcome.RELEASED):
        await world.run(outcome)
        world.turn(MINUTE)
        await world.promote()
    worker = await world.worker()
    claimed = await world.claimed(worker)

    attempts = await world.store.insights.attempts(run_id)

    assert [(attempt.attempt, attempt.outcome) for attempt in attempts] == [(1, Outcome.FAILED), (2, Outcome.RELEASED), (3, None)]
    running = attempts[-1]
    assert (running.fence, running.worker, running.started_at, running.finished_at) == (claimed.lease, worker, world.now, None)
    await world.finish(worker, claimed)
    assert await world.outcomes_of(run_id) == [Outcome.FAILED, Outcome.RELEASED, Outcome.SUCCEEDED]


async def test_an_execution_that_never_ran_has_no_attempts(world: World) -> None:
    (run_id,) = await world.enqueue(await world.job())

    assert await world.store.insights.attempts(run_id) == []
    await world.cancel(run_id)
    assert await world.store.insights.attempts(run_id) == []
