"""Spans of executions, through OpenTelemetry's library. Their ids are computed (`domain/traces`), so no process needs another's.

Nothing of a payload or a result is in a span, and of an error only what the store keeps of it, without its secrets.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, Sampler, SamplingResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanKind, Status, StatusCode

from duly.adapters.otel.told import Origin, Told, ToldSpan, foreign
from duly.domain.ids import ExecutionId, execution_text
from duly.domain.instants import Instant
from duly.domain.traces import TraceContext, bound_of, is_sampled, parse_traceparent
from duly.ports.traces import carrying

EXECUTION = "duly.execution.id"
JOB = "duly.job.id"
JOB_NAME = "duly.job.name"
ATTEMPT = "duly.attempt"
OUTCOME = "duly.outcome"
STATE = "duly.state"
BATCH = "duly.batch.size"


class ChosenIds(IdGenerator):
    """Ids that were chosen for the next span of this thread; random ones otherwise."""

    def __init__(self) -> None:
        self._next = threading.local()
        self._random = RandomIdGenerator()

    def choose(self, trace_id: int | None, span_id: int | None) -> None:
        self._next.trace, self._next.span = trace_id, span_id

    def generate_trace_id(self) -> int:
        chosen = getattr(self._next, "trace", None)
        return self._random.generate_trace_id() if chosen is None else int(chosen)

    def generate_span_id(self) -> int:
        chosen = getattr(self._next, "span", None)
        return self._random.generate_span_id() if chosen is None else int(chosen)


class OwnRoots(Sampler):
    """A span that begins a trace is one of ours, about an execution that is traced; what handlers begin elsewhere is nobody's."""

    def should_sample(
        self,
        parent_context: Any,
        trace_id: int,
        name: str,
        kind: Any = None,
        attributes: Any = None,
        links: Any = None,
        trace_state: Any = None,
    ) -> SamplingResult:
        is_ours = attributes is not None and EXECUTION in attributes
        return SamplingResult(Decision.RECORD_AND_SAMPLE if is_ours else Decision.DROP, attributes)

    def get_description(self) -> str:
        return "OwnRoots"


class Tracing:
    """One process's spans. `fraction` of the executions that have a trace of their own are traced."""

    def __init__(self, resource: Resource, processor: SpanProcessor, fraction: float, version: str) -> None:
        self._ids = ChosenIds()
        self._provider = TracerProvider(sampler=ParentBased(OwnRoots()), resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._processor, self._origin = processor, Origin(resource, InstrumentationScope("duly", version))
        self._tracer = self._provider.get_tracer("duly", version)
        self.bound = bound_of(fraction)
        self._is_closed = False

    def become_default(self) -> None:
        """Spans that handlers make by themselves go the same way, unless the application has a way of its own."""
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            trace.set_tracer_provider(self._provider)

    def is_traced(self, id: ExecutionId) -> bool:
        """Whether an execution that was given no context is traced."""
        return is_sampled(id, self.bound)

    def span(
        self,
        name: str,
        parent: TraceContext | None,
        start: Instant,
        attributes: Mapping[str, Any],
        *,
        own: TraceContext | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        links: Sequence[TraceContext] = (),
    ) -> Span:
        """A span that has begun; with `own`, under these ids. Without a parent it begins its trace."""
        around = contexts.Context() if parent is None else trace.set_span_in_context(NonRecordingSpan(foreign(parent)), contexts.Context())
        self._ids.choose(None if own is None else own.trace, None if own is None else own.span)
        try:
            return self._tracer.start_span(
                name, around, kind, attributes, [Link(foreign(link)) for link in links], start * 1000, record_exception=False
            )
        finally:
            self._ids.choose(None, None)

    def tell(
        self,
        name: str,
        parent: TraceContext | None,
        start: Instant,
        end: Instant,
        attributes: Mapping[str, Any],
        *,
        own: TraceContext | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        links: Sequence[TraceContext] = (),
        failed: str | None = None,
    ) -> None:
        """A span that is over. Nobody can add to it, so it is handed over as it is: see told.py."""
        if parent is not None and not parent.is_sampled:
            return
        if own is None:
            trace_id = self._ids.generate_trace_id() if parent is None else parent.trace
            own = TraceContext(trace_id, self._ids.generate_span_id())
        told = Told(name, own, parent, min(start, end), end, attributes, kind, links, failed)
        self._processor.on_end(ToldSpan(told, self._origin))

    @contextmanager
    def request(self, traceparent: str, what: str) -> Iterator[None]:
        """A request that comes within a trace: see ports/traces.py."""
        parent = parse_traceparent(traceparent)
        if parent is None or not parent.is_sampled:
            yield
            return
        around = trace.set_span_in_context(NonRecordingSpan(foreign(parent)), contexts.Context())
        method, _, path = what.partition(" ")
        about = {"http.request.method": method, "http.route": path}
        server = self._tracer.start_as_current_span(what, around, SpanKind.SERVER, about, record_exception=False)
        with server as span, carrying(context_of(span).text):
            yield

    def flush(self) -> None:
        """Send what waits, now."""
        self._processor.force_flush()

    def close(self) -> None:
        """Send what waits. Once is enough."""
        if not self._is_closed:
            self._is_closed = True
            self._provider.shutdown()


def ended_badly(span: Span, why: str) -> None:
    """Say so."""
    span.set_status(Status(StatusCode.ERROR, why))


def context_of(span: Span) -> TraceContext:
    """How others refer to a span."""
    own = span.get_span_context()
    return TraceContext(own.trace_id, own.span_id, own.trace_flags.sampled)


def about(id: ExecutionId, **more: Any) -> dict[str, Any]:
    """What every span of an execution says."""
    return {EXECUTION: execution_text(id), **more}
