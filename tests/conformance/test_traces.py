"""One trace from the submit to the outcome, whoever does what in between."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from duly.adapters.otel.attempts import Attempts
from duly.adapters.otel.store import TracedWork, traced
from duly.adapters.otel.tracing import Tracing
from duly.adapters.sql.bell import Bell
from duly.adapters.sql.engine import Engine
from duly.adapters.sql.store import store_on
from duly.domain.bulk import BulkAction, Match
from duly.domain.fairness import Ask
from duly.domain.ids import ExecutionId, execution_text, id_floor
from duly.domain.instants import DAY, SECOND
from duly.domain.job import JobVersion
from duly.domain.lifecycle import Outcome, State
from duly.domain.traces import TraceContext, own_context, span_of
from duly.domain.workflow.step import Step
from duly.ports.endings import Failure
from duly.ports.handlers import Attempt
from duly.ports.store import WorkerAbout
from duly.ports.traces import Noted, carried, carrying
from duly.usecases.bulk import Bulk, BulkAsk
from duly.usecases.dead_letters import DeadLetters
from duly.usecases.executions import Executions, Wanted
from duly.usecases.jobs import Jobs
from duly.usecases.overdue import Overdue
from duly.usecases.quotas import Directory
from tests.conformance.workflows import Works
from tests.conformance.world import World as Ledger
from tests.roles.conftest import ACTOR, HandClock, World, run_until_idle

CALLER = TraceContext(0xABCDEF, 0x1234)


class Traced(World):
    """A world in which every execution is traced, unless it is said otherwise."""

    spans: InMemorySpanExporter
    tracing: Tracing
    attempts: Attempts

    def found(self, name: str | None = None) -> list[ReadableSpan]:
        return [span for span in self.spans.get_finished_spans() if name is None or span.name == name]

    def only(self, name: str) -> ReadableSpan:
        (span,) = self.found(name)
        return span

    async def hire(self) -> None:
        """A worker comes and does what there is to do."""
        await run_until_idle(await self.worker(), self.clock)

    def handle(self, name: str, function: Any) -> None:
        super().handle(name, function)
        self.attempts.offered(self.registry)


def build(engine: Engine, fraction: float = 1.0) -> Traced:
    clock, transport, spans = HandClock(), Bell(), InMemorySpanExporter()
    tracing = Tracing(Resource({}), SimpleSpanProcessor(spans), fraction, "test")
    attempts = Attempts(tracing)
    store = traced(store_on(engine), tracing, attempts, clock)
    entropy, quotas = random.Random(7).getrandbits, Directory(store.tenants, clock)
    jobs = Jobs(store.definitions, Overdue(store.schedules, store.leases, quotas, transport), quotas, clock, entropy, transport)
    executions = Executions(jobs, store.intake, store.cancels, store.insights, quotas, clock, entropy, transport)
    world = Traced(store, clock, entropy, transport, jobs, executions)
    world.spans, world.tracing, world.attempts = spans, tracing, attempts
    return world


@pytest.fixture
def world(engine: Engine) -> Traced:
    return build(engine)


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def own_of(span: ReadableSpan) -> TraceContext:
    return TraceContext(span.context.trace_id, span.context.span_id)


async def test_what_is_enqueued_within_a_trace_belongs_to_it_and_retries_are_linked(world: Traced) -> None:
    async def fail_once(attempt: Attempt) -> None:
        if attempt.attempt == 1:
            raise Failure("no luck, password=hunter2hunter2")

    world.handle("work", fail_once)
    job = await world.create(retryPolicy={"maxAttempts": 2, "initialDelayMs": 1000})
    with carrying(CALLER.text):
        (id,) = await world.enqueue(job)
    await world.hire()
    world.clock.turn(5)
    await world.dispatcher().step(world.clock.now())
    await world.hire()

    enqueue, first, second = world.only("enqueue"), *world.found("attempt job")
    assert {span.context.trace_id for span in world.found()} == {CALLER.trace}
    assert parent_of(enqueue) == CALLER.span
    assert {parent_of(span) for span in (*world.found("claim"), first, second)} == {enqueue.context.span_id}
    assert [dict(span.attributes or {})["duly.outcome"] for span in (first, second)] == ["FAILED", "SUCCEEDED"]
    assert [dict(span.attributes or {})["duly.state"] for span in (first, second)] == ["SCHEDULED", "SUCCEEDED"]
    assert (first.status.status_code, second.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert "no luck" in (first.status.description or "")
    assert "hunter2" not in (first.status.description or "")
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert first.context.span_id == span_of(id, 1)


async def dead(world: Traced, count: int) -> list[ExecutionId]:
    """Executions that have died; of those who begin again nobody dies."""
    died: list[ExecutionId] = []

    async def die_once(attempt: Attempt) -> None:
        if attempt.id in died:
            raise Failure("no luck")

    world.handle("work", die_once)
    died += await world.enqueue(await world.create(retryPolicy={"maxAttempts": 1}), count)
    await world.hire()
    world.spans.clear()
    return died


async def test_a_replay_belongs_to_the_trace_in_which_it_was_asked_for(world: Traced) -> None:
    id, other = await dead(world, 2)
    letters = DeadLetters(world.store.letters, world.executions, world.clock, world.transport)
    with carrying(CALLER.text):
        new = await letters.replay(ACTOR, id, None)
    await world.hire()

    enqueue, attempt = world.only("enqueue"), world.only("attempt job")
    assert {span.context.trace_id for span in world.found()} == {CALLER.trace}
    assert parent_of(enqueue) == CALLER.span
    assert {parent_of(attempt), parent_of(world.only("claim"))} == {enqueue.context.span_id}
    assert attempt.context.span_id == span_of(new.id, 1)

    # Once more, when it is settled already: of the call that wrote nothing there is no span.
    world.spans.clear()
    with carrying(CALLER.text):
        await letters.replay(ACTOR, id, None)
    await world.hire()
    enqueue, attempt = world.only("enqueue"), world.only("attempt job")
    assert (parent_of(enqueue), parent_of(attempt)) == (CALLER.span, enqueue.context.span_id)

    # By a retry, outside of any trace: then it has its own, with a beginning.
    world.spans.clear()
    again = await letters.retry(ACTOR, other)
    await world.hire()
    enqueue, attempt = world.only("enqueue"), world.only("attempt job")
    assert (own_of(enqueue), parent_of(attempt)) == (own_context(again.id), enqueue.context.span_id)


@pytest.mark.parametrize("action", [BulkAction.REPLAY, BulkAction.RETRY])
async def test_what_is_replayed_in_bulk_belongs_to_the_trace_of_the_call(world: Traced, action: BulkAction) -> None:
    ids = await dead(world, 3)
    hints = world.transport
    bulk = Bulk(world.store.letters, world.jobs, world.executions, world.clock, world.entropy, hints)
    with carrying(CALLER.text):
        await bulk.start(ACTOR, BulkAsk(action=action, match=Match(ids=tuple(ids))))
    await world.hire()

    enqueue = world.only("enqueue")
    assert (parent_of(enqueue), dict(enqueue.attributes or {})["duly.batch.size"]) == (CALLER.span, 3)
    assert {parent_of(span) for span in world.found("attempt job")} == {enqueue.context.span_id}
    assert {span.context.trace_id for span in world.found()} == {CALLER.trace}
    assert len(world.found("attempt job")) == 3


async def test_what_is_cancelled_before_it_begins_says_so_in_its_trace(world: Traced) -> None:
    job = await world.create()
    (own,) = await world.enqueue(job)
    with carrying(CALLER.text):
        (given,) = await world.enqueue(job)
    for id in (own, given):
        await world.executions.cancel(ACTOR, id)

    first, second = world.found("enqueue")
    for span, enqueue, id in zip(world.found("cancelled"), (first, second), (own, given), strict=True):
        assert (span.context.trace_id, parent_of(span)) == (enqueue.context.trace_id, enqueue.context.span_id)
        assert dict(span.attributes or {}) == {"duly.execution.id": execution_text(id), "duly.state": "CANCELLED"}
    # Asked once more, by somebody who came to it at the same time: the same span.
    await world.store.cancels.cancel(1, [own], "test", world.clock.now())
    assert len({span.context.span_id for span in world.found("cancelled")}) == 2


async def test_what_is_asked_to_stop_while_it_runs_says_so_in_its_attempt(world: Traced) -> None:
    (id,) = await world.enqueue(await world.create())
    worker = await world.store.liveness.register("w", WorkerAbout("default"), world.clock.now(), DAY)
    (route,) = await world.store.ready.routes()
    assert await world.store.ready.claim(worker, [Ask(route.number, 1, 10)], world.clock.now()) is not None
    await world.executions.cancel(ACTOR, id)

    assert world.found("cancelled") == []


async def test_no_wait_in_the_queue_begins_before_its_enqueue(world: Traced) -> None:
    async def work(attempt: Attempt) -> None:
        return None

    world.handle("work", work)
    job = await world.create()
    now = world.clock.now()
    wanted = [Wanted(None), Wanted(None, run_at=now - DAY), Wanted(None, run_at=now + SECOND)]
    for context in (None, CALLER.text):
        # It takes a moment from when they are made to when they are written.
        with carrying(context):
            new = await world.executions.headers(job, wanted)
        world.clock.turn(0.02)
        await world.executions.submit(new)
        world.clock.turn(5)
        await world.dispatcher().step(world.clock.now())
        await world.hire()

    began = {span.context.span_id: span.start_time or 0 for span in world.found("enqueue")}
    claims = world.found("claim")
    assert len(claims) == 2 * len(wanted)
    for span in claims:
        assert began[parent_of(span) or 0] <= (span.start_time or 0)
    # And what was to run long ago does not begin long ago.
    assert min(began.values()) >= now * 1000 - 1_000_000


async def test_an_execution_that_comes_by_itself_has_the_trace_of_its_own_id(world: Traced) -> None:
    async def work(attempt: Attempt) -> None:
        return None

    world.handle("work", work)
    await world.create(type="INTERVAL", intervalSec=60)
    world.clock.turn(60)
    await world.dispatcher().step(world.clock.now())
    await world.hire()

    (execution,) = await world.all()
    fire, attempt = world.only("fire"), world.only("attempt job")
    assert own_of(fire) == own_context(execution.id)
    assert fire.parent is None
    assert (attempt.context.trace_id, parent_of(attempt)) == (execution.id.int, fire.context.span_id)
    assert fire.start_time == execution.due_at * 1000


async def test_inside_a_handler_its_attempt_is_the_current_span_and_what_it_enqueues_its_child(world: Traced) -> None:
    seen: list[Any] = []

    async def child(attempt: Attempt) -> None:
        return None

    async def work(attempt: Attempt) -> None:
        seen.append((trace.get_current_span().get_span_context().span_id, attempt.traceparent, carried()))
        await world.enqueue(children)

    world.handle("child", child)
    world.handle("work", work)
    children = await world.create(name="child", target={"handler": "child"})
    (id,) = await world.enqueue(await world.create())
    await world.hire()

    attempt, inner = world.only("attempt job"), world.only("attempt child")
    assert seen == [(attempt.context.span_id, own_of(attempt).text, own_of(attempt).text)]
    assert inner.context.trace_id == attempt.context.trace_id == id.int
    enqueued = next(span for span in world.found("enqueue") if parent_of(span) is not None)
    assert (parent_of(enqueued), parent_of(inner)) == (attempt.context.span_id, enqueued.context.span_id)
    assert carried() is None
    assert not trace.get_current_span().get_span_context().is_valid


async def test_what_a_handler_says_in_its_span_is_told_with_how_the_attempt_ended(world: Traced) -> None:
    async def work(attempt: Attempt) -> None:
        span = trace.get_current_span()
        assert span.is_recording()
        span.set_attribute("rows", 3)
        span.add_event("halfway")
        if attempt.attempt == 1:
            span.record_exception(ValueError("no rows"))
            raise Failure("no luck")

    world.handle("work", work)
    (id,) = await world.enqueue(await world.create(retryPolicy={"maxAttempts": 2, "initialDelayMs": 1000}))
    await world.hire()
    world.clock.turn(5)
    await world.dispatcher().step(world.clock.now())
    await world.hire()

    first, second = world.found("attempt job")
    assert [[event.name for event in span.events] for span in (first, second)] == [["halfway", "exception"], ["halfway"]]
    assert [dict(span.attributes or {})["rows"] for span in (first, second)] == [3, 3]
    assert [dict(span.attributes or {})["duly.outcome"] for span in (first, second)] == ["FAILED", "SUCCEEDED"]
    assert (first.status.status_code, second.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert [own_of(span) for span in (first, second)] == [TraceContext(id.int, span_of(id, nth)) for nth in (1, 2)]
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert second.end_time is not None
    assert second.start_time is not None
    assert second.start_time <= second.end_time


async def test_the_sweeper_tells_the_attempt_that_its_worker_cannot(world: Traced) -> None:
    async def work(attempt: Attempt) -> None:
        return None

    world.handle("work", work)
    (id,) = await world.enqueue(await world.create())
    lost = await world.store.liveness.register("gone", WorkerAbout("default"), world.clock.now(), SECOND)
    (route,) = await world.store.ready.routes()
    assert await world.store.ready.claim(lost, [Ask(route.number, 1, 10)], world.clock.now()) is not None
    world.clock.turn(30)
    await world.sweeper().step(world.clock.now())
    world.clock.turn(60)
    await world.dispatcher().step(world.clock.now())
    await world.hire()

    gone, again = world.only("attempt"), world.only("attempt job")
    assert own_of(gone) == TraceContext(id.int, span_of(id, 1))
    assert dict(gone.attributes or {})["duly.outcome"] == Outcome.WORKER_LOST.name
    assert [link.context.span_id for link in again.links] == [gone.context.span_id]


async def test_the_steps_of_a_run_belong_to_its_trace(engine: Engine) -> None:
    world, ledger = build(engine), Ledger(engine)
    ledger.clock.now = world.clock.now()
    ledger.store = world.store
    works = Works(ledger)
    target = ledger.spec().target
    job = await works.workflow(Step(name="first", target=target), Step(name="then", target=target, after=("first",)))
    run = await works.begin(job)
    while (taken := await works.take())[1] is not None:
        worker, claimed = taken
        assert claimed is not None
        assert claimed.traces is not None
        assert set(claimed.traces) == set(range(len(claimed.ids)))
        await ledger.store.outcomes.finish(worker, await works.reports(claimed, Outcome.SUCCEEDED, "1"), [claimed.lease], ledger.now)

    root = world.only("enqueue")
    assert {span.context.trace_id for span in world.found()} == {run.int}
    assert [parent_of(span) for span in world.found("step")] == [root.context.span_id] * 2
    assert {parent_of(span) for span in world.found("claim")} == {span.context.span_id for span in world.found("step")}
    assert dict(world.only("end of the run").attributes or {})["duly.state"] == State.SUCCEEDED.name


async def test_what_is_not_sampled_costs_no_span_and_nothing_of_its_attempt(engine: Engine) -> None:
    world = build(engine, 0.0)
    plain: list[bool] = []

    async def work(attempt: Attempt) -> None:
        plain.append(attempt.is_plain)

    world.handle("work", work)
    job = await world.create()
    with carrying(CALLER._replace(is_sampled=False).text):
        await world.enqueue(job)
    with carrying("not a context"):
        await world.enqueue(job)
    await world.enqueue(job)
    await world.hire()

    assert plain == [True] * 3
    assert world.found() == []


async def test_who_is_not_traced_is_called_as_if_nobody_was(engine: Engine) -> None:
    world = build(engine, 0.5)
    seen: dict[ExecutionId, bool] = {}

    async def work(attempt: Attempt) -> None:
        span = trace.get_current_span().get_span_context()
        assert span.is_valid == (attempt.traceparent is not None) == (carried() is not None) == (not attempt.is_plain)
        seen[attempt.id] = span.is_valid

    world.handle("work", work)
    ids = await world.enqueue(await world.create(), 40)
    await world.hire()

    assert seen == {id: world.tracing.is_traced(id) for id in ids}
    assert set(seen.values()) == {True, False}
    assert len(world.found("claim")) == len(world.found("attempt job")) == sum(seen.values())
    # Nothing is around it: at a hundred thousand a second a call more is felt.
    assert world.registry.by_name["work"].run is work


class WithoutOne:
    """Definitions, of which this release cannot read one."""

    def __init__(self, inner: Any, number: int) -> None:
        self._inner, self._number = inner, number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def versions(self, numbers: Any) -> dict[int, JobVersion]:
        found = await self._inner.versions(numbers)
        return {number: version for number, version in found.items() if number != self._number}


async def test_beside_what_cannot_be_read_each_is_still_run_in_its_own_trace(engine: Engine) -> None:
    world = build(engine, 0.5)
    seen: dict[ExecutionId, bool] = {}

    async def work(attempt: Attempt) -> None:
        seen[attempt.id] = attempt.traceparent is not None

    world.handle("work", work)
    strange, job = await world.create(name="strange"), await world.create()
    ids: list[ExecutionId] = []
    for _ in range(20):
        await world.enqueue(strange)
        ids += await world.enqueue(job)
    world.store = replace(world.store, definitions=WithoutOne(world.store.definitions, strange.version.number))
    worker = await world.worker(slots=100)
    while len(seen) < len(ids):
        await worker.step(world.clock.now())
        await asyncio.sleep(0)

    assert seen == {id: world.tracing.is_traced(id) for id in ids}
    assert set(seen.values()) == {True, False}


async def test_a_span_that_a_handler_begins_outside_of_a_traced_attempt_is_not_kept(world: Traced) -> None:
    with world.tracing._provider.get_tracer("mine").start_as_current_span("mine"):
        pass

    assert world.found() == []


async def test_a_remote_worker_s_contexts_come_with_its_lease(world: Traced) -> None:
    async def work(attempt: Attempt) -> None:
        return None

    world.handle("work", work)
    (id,) = await world.enqueue(await world.create())
    far = build(world.store.health._engine)  # type: ignore[attr-defined]
    far.store = TracedWork(world.store, far.tracing, far.attempts, far.clock)  # type: ignore[assignment]
    far.registry = world.registry
    far.attempts.offered(far.registry)
    await far.hire()

    assert {span.context.trace_id for span in far.found()} == {id.int}
    assert far.only("attempt job").context.span_id == span_of(id, 1)


async def test_contexts_are_found_among_many_and_forgotten_with_their_executions(world: Traced) -> None:
    job = await world.create()
    ids: list[ExecutionId] = await world.enqueue(job, 100)
    await world.store.traces.note([Noted(ids[nth], 1, f"context-{nth}") for nth in (0, 50, 99)])
    await world.store.traces.note([Noted(ids[0], 1, "another")])
    strays = [Noted(id_floor(world.clock.now() - 5 * DAY), 1, "stray")]
    await world.store.traces.note(strays)

    some = {ids[0]: "context-0", ids[50]: "context-50", ids[99]: "context-99"}
    assert await world.store.traces.of(ids) == some
    assert await world.store.traces.of(ids[:3]) == {ids[0]: "context-0"}
    now = world.clock.now()
    await world.store.retention.prune(now - DAY, now, 100)
    assert await world.store.traces.of([strays[0].id, ids[0]]) == {ids[0]: "context-0"}


async def test_a_claim_says_whether_any_of_it_may_be_in_somebodys_trace(engine: Engine) -> None:
    ledger = Ledger(engine)
    job, worker = await ledger.job(), await ledger.worker()
    await ledger.enqueue(job, 3)
    before = await ledger.claimed(worker)
    (given, *_) = await ledger.enqueue(job, 3)
    await ledger.store.traces.note([Noted(given, 1, CALLER.text)])

    within = await ledger.claimed(worker)
    await ledger.enqueue(job, 3)
    after = await ledger.claimed(worker)

    assert given in within.ids
    assert within.may_be_traced
    assert not before.may_be_traced
    assert not after.may_be_traced or min(after.ids) <= given
