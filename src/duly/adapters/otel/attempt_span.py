"""The span of an attempt: the library's own only if the handler has something to say in it, which few do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode

from duly.adapters.otel.told import local
from duly.adapters.otel.tracing import ATTEMPT, JOB, JOB_NAME, Tracing, about
from duly.domain.ids import job_text
from duly.domain.instants import Instant
from duly.domain.traces import TraceContext, span_of
from duly.ports.handlers import Attempt


class AttemptSpan(Span):
    """What a handler finds as its current span. One to which nobody adds anything is told when it is over, at a tenth of the price."""

    def __init__(self, tracing: Tracing, attempt: Attempt, parent: TraceContext) -> None:
        self._tracing = tracing
        self._attempt = attempt
        self._parent = parent
        self.own = TraceContext(parent.trace, span_of(attempt.id, attempt.attempt), parent.is_sampled)
        self._begun: Span | None = None

    def close(self, at: Instant, attributes: Mapping[str, Any], failed: str | None = None) -> None:
        """The attempt is over."""
        if self._begun is None:
            told, start = {**self._told(), **attributes}, self._attempt.started_at
            kind, before = SpanKind.CONSUMER, self._before()
            self._tracing.tell(self._name, self._parent, start, at, told, own=self.own, kind=kind, links=before, failed=failed)
            return
        self._begun.set_attributes(attributes)
        if failed is not None:
            self._begun.set_status(Status(StatusCode.ERROR, failed))
        self._begun.end(at * 1000)

    def get_span_context(self) -> SpanContext:
        return local(self.own)

    def is_recording(self) -> bool:
        return self.own.is_sampled if self._begun is None else self._begun.is_recording()

    def end(self, end_time: int | None = None) -> None:
        self._real().end(end_time)

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        self._real().set_attributes(attributes)

    def set_attribute(self, key: str, value: Any) -> None:
        self._real().set_attribute(key, value)

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        self._real().add_event(name, attributes, timestamp)

    def add_link(self, context: SpanContext, attributes: Any = None) -> None:
        self._real().add_link(context, attributes)

    def update_name(self, name: str) -> None:
        self._real().update_name(name)

    def set_status(self, status: Any, description: str | None = None) -> None:
        self._real().set_status(status, description)

    def record_exception(
        self, exception: BaseException, attributes: Any = None, timestamp: int | None = None, escaped: bool = False
    ) -> None:
        self._real().record_exception(exception, attributes, timestamp, escaped)

    def __getattr__(self, name: str) -> Any:
        """What else the library's spans have, such as their attributes."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._real(), name)

    def _real(self) -> Span:
        if self._begun is None:
            start, kind = self._attempt.started_at, SpanKind.CONSUMER
            self._begun = self._tracing.span(self._name, self._parent, start, self._told(), own=self.own, kind=kind, links=self._before())
        return self._begun

    @property
    def _name(self) -> str:
        return f"attempt {self._attempt.version.spec.name}"

    def _told(self) -> dict[str, Any]:
        attempt = self._attempt
        version = attempt.version
        return about(attempt.id, **{JOB: job_text(version.job_id), JOB_NAME: version.spec.name, ATTEMPT: attempt.attempt})

    def _before(self) -> list[TraceContext]:
        """The attempt before it, whoever made that one."""
        id, number = self._attempt.id, self._attempt.attempt
        return [TraceContext(self._parent.trace, span_of(id, number - 1))] if number > 1 else []
