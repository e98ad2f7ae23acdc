"""The ports through which executions come in, are fired, claimed, reported and lost, each around the store's own: they tell spans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from opentelemetry.trace import SpanKind

from duly.adapters.otel.attempts import Attempts
from duly.adapters.otel.tracing import ATTEMPT, BATCH, JOB, OUTCOME, STATE, Tracing, about, context_of, ended_badly
from duly.domain.announcements import Named
from duly.domain.audit import Deed
from duly.domain.decide import Firing
from duly.domain.execution import Claimed, Finished, LeaseId, Lost, NewExecution, Verdict, WorkerId
from duly.domain.fairness import Ask
from duly.domain.ids import ExecutionId, job_text
from duly.domain.instants import Instant, Micros
from duly.domain.job import JobVersion
from duly.domain.lifecycle import Outcome, State, is_final
from duly.domain.traces import CANCELLED, TraceContext, own_context, parse_traceparent, sampled_among, span_of, waits_since
from duly.ports.clock import Clock
from duly.ports.flows import Added, Flows, NewStep
from duly.ports.letters import Letters
from duly.ports.store import (
    Admission,
    Cancels,
    EnqueueReport,
    FireReport,
    Idempotency,
    Intake,
    Losses,
    LossReport,
    Outcomes,
    Schedules,
    Store,
    StoreQueue,
)
from duly.ports.traces import Noted, Traces
from duly.ports.work import WorkerStore


def traced(store: Store, tracing: Tracing, attempts: Attempts, clock: Clock) -> Store:
    """The store, with somebody who tells spans."""
    around = (tracing, store.traces, clock)
    # Each delegates what it does not tell, which a type checker cannot see.
    return replace(
        store,
        intake=cast(Intake, TracedIntake(store.intake, *around)),
        schedules=cast(Schedules, TracedSchedules(store.schedules, *around)),
        ready=cast(StoreQueue, TracedReady(store.ready, attempts, *around)),
        outcomes=cast(Outcomes, TracedOutcomes(store.outcomes, attempts, *around)),
        losses=cast(Losses, TracedLosses(store.losses, *around)),
        flows=cast(Flows, TracedFlows(store.flows, *around)),
        letters=cast(Letters, TracedLetters(store.letters, *around)),
        cancels=cast(Cancels, TracedCancels(store.cancels, *around)),
    )


class TracedWork:
    """The same for a worker that goes through an API: contexts come with its leases."""

    def __init__(self, inner: WorkerStore, tracing: Tracing, attempts: Attempts, clock: Clock) -> None:
        self._inner = inner
        self.ready = TracedReady(inner.ready, attempts, tracing, None, clock)
        self.outcomes = TracedOutcomes(inner.outcomes, attempts, tracing, None, clock)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Around:
    """What is not told goes through."""

    def __init__(self, inner: Any, tracing: Tracing, traces: Traces | None, clock: Clock) -> None:
        self._inner = inner
        self._tracing = tracing
        self._traces = traces
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def _places(self, ids: Sequence[ExecutionId], were_given: bool = True) -> dict[int, TraceContext]:
        """Of those that are traced, by their places: the context that each was given, or its own."""
        given = await self._traces.of(ids) if were_given and self._traces is not None else {}
        found = {nth: own_context(ids[nth]) for nth in sampled_among(ids, self._tracing.bound)}
        for nth, id in enumerate(ids) if given else ():
            if id in given and (context := parse_traceparent(given[id])) is not None:
                found[nth] = context
        return found

    async def _contexts(self, ids: Sequence[ExecutionId]) -> dict[ExecutionId, TraceContext]:
        """The same by their ids."""
        return {ids[nth]: context for nth, context in (await self._places(ids)).items()}


class _Entrance(_Around):
    """Where executions come in: a span for each call that is in a trace, and the first span of each that has its own."""

    async def _begin(self, executions: Sequence[NewExecution], now: Instant) -> list[Any]:
        """A span for each trace that asks, and its context noted for what it asks for: before a worker can have it."""
        by_trace: dict[str, list[NewExecution]] = {}
        for execution in executions:
            if execution.trace is not None:
                by_trace.setdefault(execution.trace, []).append(execution)
        spans, noted = [], []
        for text, asked in by_trace.items():
            parent = _sampled(text)
            if parent is None:
                continue
            told = about(asked[0].id, **{JOB: job_text(asked[0].job_id), BATCH: len(asked)})
            # Its headers were made a moment ago, and some wait since then: no child begins before its parent.
            since = min(now, *(waits_since(one.id, one.due_at) for one in asked))
            span = self._tracing.span("enqueue", parent, since, told, kind=SpanKind.PRODUCER)
            spans.append(span)
            noted += [Noted(one.id, one.tenant, context_of(span).text) for one in asked]
        if noted and self._traces is not None:
            await self._traces.note(noted)
        return spans

    async def _end(
        self,
        call: Any,
        spans: Sequence[Any],
        executions: Sequence[NewExecution],
        now: Instant,
        written: Callable[[Any], Sequence[NewExecution]] | None = None,
    ) -> Any:
        """Await the call; `written` says by its answer which of them it wrote, where that may be less than all."""
        try:
            answer = await call
            if written is not None:
                executions = written(answer)
        except Exception as error:
            for span in spans:
                ended_badly(span, type(error).__name__)
            raise
        finally:
            # A call that wrote nothing is told by nobody.
            for span in spans if executions else ():
                span.end(self._clock.now() * 1000)
        for one in executions:
            # Who asks within a trace that nobody keeps is as one that asks outside of any.
            if self._tracing.is_traced(one.id) and (one.trace is None or _sampled(one.trace) is None):
                told = about(one.id, **{JOB: job_text(one.job_id), "duly.trigger": one.trigger.name})
                since = min(now, waits_since(one.id, one.due_at))
                self._tracing.tell("enqueue", None, since, self._clock.now(), told, own=own_context(one.id), kind=SpanKind.PRODUCER)
        return answer


class TracedIntake(_Entrance):
    """What is enqueued."""

    async def enqueue(self, executions: Sequence[NewExecution], now: Instant, deeds: Sequence[Deed] = ()) -> EnqueueReport:
        spans = await self._begin(executions, now)
        return cast(EnqueueReport, await self._end(self._inner.enqueue(executions, now, deeds), spans, executions, now))

    async def enqueue_once(
        self, tenant: int, executions: Sequence[NewExecution], idempotency: Idempotency, now: Instant, deed: Deed | None = None
    ) -> list[ExecutionId]:
        spans = await self._begin(executions, now)
        call = self._inner.enqueue_once(tenant, executions, idempotency, now, deed)
        return cast(list[ExecutionId], await self._end(call, spans, executions, now))

    async def enqueue_within(self, calls: Sequence[Sequence[NewExecution]], now: Instant, deeds: Sequence[Deed] = ()) -> Admission:
        executions = [execution for call in calls for execution in call]
        spans = await self._begin(executions, now)
        return cast(Admission, await self._end(self._inner.enqueue_within(calls, now, deeds), spans, executions, now))


class TracedLetters(_Entrance):
    """What is replayed: new executions too, written with what is said of the old ones."""

    async def replay(
        self, replays: Sequence[tuple[ExecutionId, NewExecution]], by: str, now: Instant, *, deed: Deed | None = None
    ) -> set[ExecutionId]:
        new = [one for _, one in replays]
        spans = await self._begin(new, now)
        call = self._inner.replay(replays, by, now, deed=deed)
        answer = await self._end(call, spans, new, now, lambda ours: [one for old, one in replays if old in ours])
        return cast(set[ExecutionId], answer)


class TracedSchedules(_Around):
    """What a dispatcher writes: the first span of each fire, from the instant of its schedule."""

    async def fire(self, firing: Firing, epochs: dict[int, int], now: Instant) -> FireReport:
        report: FireReport = await self._inner.fire(firing, epochs, now)
        if report.fired:
            for fire in firing.fires:
                if fire.skip is None and self._tracing.is_traced(fire.id):
                    told = about(fire.id, **{JOB: job_text(fire.job_id), "duly.trigger": "SCHEDULE"})
                    self._tracing.tell("fire", None, fire.at, self._clock.now(), told, own=own_context(fire.id), kind=SpanKind.PRODUCER)
        return report


class TracedReady(_Around):
    """Where workers take work: how long it waited for that."""

    def __init__(self, inner: Any, attempts: Attempts, tracing: Tracing, traces: Traces | None, clock: Clock) -> None:
        super().__init__(inner, tracing, traces, clock)
        self._attempts = attempts

    async def claim(self, worker: WorkerId, asks: Sequence[Ask], now: Instant) -> Claimed | None:
        return await self._taken(await self._inner.claim(worker, asks, now), now)

    async def claim_named(self, worker: WorkerId, named: Sequence[Named], now: Instant) -> Claimed | None:
        return await self._taken(await self._inner.claim_named(worker, named, now), now)

    async def held_by(self, worker: WorkerId) -> list[Claimed]:
        held: list[Claimed] = await self._inner.held_by(worker)
        for claimed in held:
            await self._taken(claimed, self._clock.now())
        return held

    async def _taken(self, claimed: Claimed | None, now: Instant) -> Claimed | None:
        if claimed is None:
            return None
        if claimed.traces is None:
            found = await self._places(claimed.ids, claimed.may_be_traced)
            claimed.traces = {nth: context.text for nth, context in found.items()}
        else:
            # From a server, which has decided.
            found = {nth: context for nth, text in claimed.traces.items() if (context := _sampled(text)) is not None}
        if found:
            self._tell(claimed, found, now)
        return claimed

    def _tell(self, claimed: Claimed, found: dict[int, TraceContext], now: Instant) -> None:
        taken = self._clock.now()
        for nth, context in found.items():
            id, attempt = claimed.ids[nth], claimed.attempts[nth]
            # When a retry was due its header does not say.
            since = waits_since(id, claimed.due_ats[nth]) if attempt == 1 else now
            told = about(id, **{ATTEMPT: attempt, "duly.lease": claimed.lease})
            self._tracing.tell("claim", context, since, max(taken, since), told)
            self._attempts.expect(id, context)


class TracedOutcomes(_Around):
    """Where workers report."""

    def __init__(self, inner: Any, attempts: Attempts, tracing: Tracing, traces: Traces | None, clock: Clock) -> None:
        super().__init__(inner, tracing, traces, clock)
        self._attempts = attempts

    async def finish(self, worker: WorkerId, finished: Sequence[Finished], closing: Sequence[LeaseId], now: Instant) -> set[ExecutionId]:
        refused: set[ExecutionId] = await self._inner.finish(worker, finished, closing, now)
        self._attempts.reported(finished, refused)
        return refused


class TracedLosses(_Around):
    """What the sweeper ends: the span of the attempt, which its worker cannot tell any more."""

    async def lose(self, decide: Callable[[Lost, JobVersion | None], Verdict], now: Instant, limit: int) -> LossReport:
        decided: dict[tuple[ExecutionId, int], tuple[Lost, Verdict]] = {}

        def deciding(lost: Lost, version: JobVersion | None) -> Verdict:
            verdict = decide(lost, version)
            decided[lost.id, lost.attempt] = lost, verdict
            return verdict

        report: LossReport = await self._inner.lose(deciding, now, limit)
        if decided:
            found = await self._contexts([id for id, _ in decided])
            for (id, attempt), (lost, verdict) in decided.items():
                if (parent := found.get(id)) is not None:
                    self._tell(id, attempt, lost, verdict, parent, now)
        return report

    def _tell(self, id: ExecutionId, attempt: int, lost: Lost, verdict: Verdict, parent: TraceContext, now: Instant) -> None:
        told = about(id, **{JOB: job_text(lost.job_id), ATTEMPT: attempt, OUTCOME: Outcome.WORKER_LOST.name, STATE: verdict.state.name})
        before = [TraceContext(parent.trace, span_of(id, attempt - 1))] if attempt > 1 else []
        own = TraceContext(parent.trace, span_of(id, attempt))
        why = "its worker was lost"
        self._tracing.tell("attempt", parent, lost.granted_at, now, told, own=own, kind=SpanKind.CONSUMER, links=before, failed=why)


class TracedCancels(_Around):
    """What is cancelled where it waits ends without an attempt that could say so."""

    async def cancel(
        self,
        tenant: int,
        ids: Sequence[ExecutionId],
        by: str,
        now: Instant,
        kill_after: Micros | None = None,
        *,
        deed: Deed | None = None,
    ) -> dict[ExecutionId, State]:
        stands: dict[ExecutionId, State] = await self._inner.cancel(tenant, ids, by, now, kill_after, deed=deed)
        over = [id for id, state in stands.items() if state is State.CANCELLED]
        for id, parent in (await self._contexts(over)).items() if over else ():
            # Under a computed id: two who cancel the same tell one span.
            own = TraceContext(parent.trace, span_of(id, CANCELLED), parent.is_sampled)
            self._tracing.tell("cancelled", parent, now, self._clock.now(), about(id, **{STATE: State.CANCELLED.name}), own=own)
        return stands


class TracedFlows(_Around):
    """Runs of workflows: their steps belong to the trace of the run."""

    async def add(self, steps: Sequence[NewStep], now: Instant, look_at: Instant) -> Added:
        runs = await self._contexts(sorted({step.run for step in steps}))
        noted: list[Noted] = []
        for step in steps:
            if (parent := runs.get(step.run)) is not None:
                one = step.execution
                told = about(one.id, **{JOB: job_text(one.job_id), "duly.trigger": "STEP"})
                own = TraceContext(parent.trace, span_of(one.id, 0))
                self._tracing.tell("step", parent, now, self._clock.now(), told, own=own, kind=SpanKind.PRODUCER)
                noted.append(Noted(one.id, one.tenant, own.text))
        if noted and self._traces is not None:
            await self._traces.note(noted)
        return cast(Added, await self._inner.add(steps, now, look_at))

    async def finish(self, run: ExecutionId, state: State, result: str | None, error: str | None, now: Instant) -> bool:
        ended: bool = await self._inner.finish(run, state, result, error, now)
        if ended and is_final(state) and (parent := (await self._contexts([run])).get(run)) is not None:
            self._tracing.tell("end of the run", parent, now, self._clock.now(), about(run, **{STATE: state.name}))
        return ended


def _sampled(text: str) -> TraceContext | None:
    """The context, if it is one that somebody keeps."""
    context = parse_traceparent(text)
    return context if context is not None and context.is_sampled else None
