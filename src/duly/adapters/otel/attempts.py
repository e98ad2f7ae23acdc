"""The spans of attempts: from the claim, through the handler, to the report that the store has accepted."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from json import loads
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace

from duly.adapters.otel.attempt_span import AttemptSpan
from duly.adapters.otel.tracing import OUTCOME, STATE, Tracing
from duly.domain.execution import Finished
from duly.domain.ids import ExecutionId
from duly.domain.lifecycle import Outcome
from duly.domain.traces import TraceContext
from duly.ports.handlers import Attempt, Handler, Registry
from duly.ports.traces import carrying

# Handlers that run at once, and a few whose worker was lost meanwhile.
MOST = 10_000
LONGEST_REASON = 200
Run = Callable[[Any], Coroutine[Any, Any, Any]]


class Attempts:
    """What is claimed and traced. Whoever is not in here costs one look into a table, by the number that its id is: the hash of an id costs
    several times that of a number."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._expected: dict[int, TraceContext] = {}
        self._open: dict[int, AttemptSpan] = {}

    def expect(self, id: ExecutionId, context: TraceContext) -> None:
        """It was claimed, and will be run."""
        if len(self._expected) >= MOST:
            del self._expected[next(iter(self._expected))]
        self._expected[id.int] = context

    def offered(self, registry: Registry) -> None:
        """The same handlers, and each with a span around it for who was claimed with a context: nobody else pays for a call more."""
        for name, handler in registry.by_name.items():
            many = None if handler.run_many is None else self._many(handler.run_many)
            registry.by_name[name] = replace(handler, run_traced=self._one(handler), run_many=many)

    def reported(self, finished: Sequence[Finished], refused: set[ExecutionId]) -> None:
        """The store has said what became of them."""
        begun, expected = self._open, self._expected
        if not begun and not expected:
            return
        # One look for each: most are not traced. What was given back before it began is still expected.
        known = begun.keys() | expected.keys() if expected else begun
        for item in [item for item in finished if item.id.int in known]:
            number = item.id.int
            expected.pop(number, None)
            span = begun.pop(number, None)
            if span is None:
                continue
            if item.id in refused:
                span.close(item.finished_at, {OUTCOME: "REFUSED"}, "its lease was lost")
            else:
                went_well = item.outcome in (Outcome.SUCCEEDED, Outcome.RELEASED)
                told = {OUTCOME: item.outcome.name, STATE: item.state.name}
                span.close(item.finished_at, told, None if went_well else _reason(item))

    def _one(self, handler: Handler) -> Run:
        run, expected = handler.run, self._expected

        def begin(attempt: Attempt) -> Coroutine[Any, Any, Any]:
            return self._run([attempt], run, attempt) if attempt.id.int in expected else run(attempt)

        return begin

    def _many(self, run: Run) -> Run:
        def begin(attempts: Sequence[Attempt]) -> Coroutine[Any, Any, Any]:
            traced = [attempt for attempt in attempts if attempt.id.int in self._expected]
            return self._run(traced, run, attempts) if traced else run(attempts)

        return begin

    async def _run(self, traced: Sequence[Attempt], run: Run, given: Any) -> Any:
        spans = [self._begin(attempt) for attempt in traced]
        # Of a batch, what it does belongs to the first that is traced.
        token = contexts.attach(trace.set_span_in_context(spans[0]))
        try:
            with carrying(traced[0].traceparent):
                return await run(given)
        finally:
            contexts.detach(token)

    def _begin(self, attempt: Attempt) -> AttemptSpan:
        span = AttemptSpan(self._tracing, attempt, self._expected.pop(attempt.id.int))
        attempt.extras.traceparent = span.own.text
        if len(self._open) >= MOST:
            self._open.pop(next(iter(self._open))).close(attempt.clock(), {}, "never reported")
        self._open[attempt.id.int] = span
        return span


def _reason(item: Finished) -> str:
    """What the store keeps of the error, which has no secrets in it."""
    told = {} if item.error is None else loads(item.error)
    words = ": ".join(str(told[key]) for key in ("type", "message", "reason") if told.get(key))
    return (words or item.outcome.name)[:LONGEST_REASON]
