"""The span of an attempt: the library's own only if the handler has something to say in it, which few do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.trace import Span, SpanContext, Status, StatusCode

from duly.domain.instants import Instant

# Begins the library's span; tells one that is over, with these attributes more and why it failed.
Begin = Callable[[], Span]
Tell = Callable[[Instant, Mapping[str, Any], str | None], None]


class AttemptSpan(Span):
    """What a handler finds as its current span. One to which nobody adds anything is told when it is over, at a fifth of the price."""

    def __init__(self, context: SpanContext, begin: Begin, tell: Tell) -> None:
        self._context = context
        self._begin = begin
        self._tell = tell
        self._begun: Span | None = None

    def close(self, at: Instant, attributes: Mapping[str, Any], failed: str | None = None) -> None:
        """The attempt is over."""
        if self._begun is None:
            self._tell(at, attributes, failed)
            return
        self._begun.set_attributes(attributes)
        if failed is not None:
            self._begun.set_status(Status(StatusCode.ERROR, failed))
        self._begun.end(at * 1000)

    def get_span_context(self) -> SpanContext:
        return self._context

    def is_recording(self) -> bool:
        return self._context.trace_flags.sampled if self._begun is None else self._begun.is_recording()

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
            self._begun = self._begin()
        return self._begun
