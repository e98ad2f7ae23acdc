"""Spans that are over when they are told, which nearly all of ours are: plain fields, of which the exporter makes bytes.

The library's span of the same costs a message, a status, a link and two contexts; one that nobody looks at is never made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from duly.domain.instants import Instant
from duly.domain.traces import TraceContext

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSAMPLED = TraceFlags()


class Origin(NamedTuple):
    """Who tells: what all spans of a process have in common."""

    resource: Resource
    scope: InstrumentationScope | None


class Told(NamedTuple):
    """What is told of a span."""

    name: str
    own: TraceContext
    parent: TraceContext | None
    start: Instant
    end: Instant
    attributes: Mapping[str, Any]
    kind: SpanKind = SpanKind.INTERNAL
    links: Sequence[TraceContext] = ()
    failed: str | None = None


class ToldSpan(ReadableSpan):
    """A span that is over, and becomes the library's own only for whoever reads it as one."""

    def __init__(self, told: Told, origin: Origin) -> None:
        self.told = told
        self.origin = origin
        # What the library's queue asks everybody for.
        self._context = local(told.own)

    def __getattr__(self, name: str) -> Any:
        """Asked for the first thing that is not there, it has all of them."""
        if name.startswith("__"):
            raise AttributeError(name)
        told, origin = self.told, self.origin
        ReadableSpan.__init__(
            self,
            told.name,
            self._context,
            None if told.parent is None else foreign(told.parent),
            origin.resource,
            told.attributes,
            links=[Link(foreign(link)) for link in told.links],
            kind=told.kind,
            status=Status() if told.failed is None else Status(StatusCode.ERROR, told.failed),
            start_time=told.start * 1000,
            end_time=told.end * 1000,
            instrumentation_scope=origin.scope,
        )
        return object.__getattribute__(self, name)


def local(context: TraceContext) -> SpanContext:
    """A span of this process, as the library refers to it."""
    return SpanContext(context.trace, context.span, False, _SAMPLED if context.is_sampled else _UNSAMPLED)


def foreign(context: TraceContext) -> SpanContext:
    """A span of another."""
    return SpanContext(context.trace, context.span, True, _SAMPLED if context.is_sampled else _UNSAMPLED)
