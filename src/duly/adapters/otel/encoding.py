"""Spans as a collector takes them (OTLP, protobuf), written down directly.

The library makes a message of each span, of each attribute and of each value before it writes any of them: 20 µs and more for a span, most
of what a traced execution costs. What we tell ourselves (`told.py`), and most of what handlers tell, are a few plain fields; they are
written as the bytes that they are, and what many of ours have alike (names, jobs, outcomes) as the bytes that it was the last time. What
else a span may have (events, lists, a state) the library encodes; messages of this kind may follow one another in one body.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Any
from uuid import UUID

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from duly.adapters.otel.told import Origin, Told, ToldSpan
from duly.adapters.otel.tracing import EXECUTION
from duly.domain.ids import execution_text
from duly.domain.traces import TraceContext

_PLAIN = frozenset({str, int, bool, float})
_MOST = 1 << 63
_ANY = SpanContext(1, 1, is_remote=False)
_HAS_REMOTE, _IS_REMOTE = 0x100, 0x200
# The ids of a trace, a span and its parent: fields 1, 2 and 4, each with its length.
_IDS = Struct(">HQQHQ").pack
_IDS_WITHIN = Struct(">HQQHQHQ").pack
_TRACE_ID, _SPAN_ID, _PARENT_ID = 0x0A10, 0x1208, 0x2208
_HALF = (1 << 64) - 1
# Start and end of a span: fields 7 and 8, fixed.
_TIMES = Struct("<BQBQ").pack
# Its flags: field 16, fixed; of a link field 6.
_FLAGS = Struct("<BBI").pack
_LINK_FLAGS = Struct("<BI").pack
_DOUBLE = Struct("<Bd").pack
_KINDS = [bytes((number + 1,)) for number in range(len(SpanKind))]


def encoded(spans: Sequence[ReadableSpan]) -> bytes:
    """The body of a request with all of them."""
    by_origin: dict[tuple[int, int], tuple[Origin, list[ReadableSpan]]] = {}
    rest: list[ReadableSpan] = []
    for span in spans:
        if not isinstance(span, ToldSpan) and not _is_plain(span):
            rest.append(span)
            continue
        origin = span.origin if isinstance(span, ToldSpan) else Origin(span.resource, span.instrumentation_scope)
        # By what they are, not by what they say: the hash of a resource costs more than a span.
        by_origin.setdefault((id(origin.resource), id(origin.scope)), (origin, []))[1].append(span)
    parts = [_of_one_origin(*own) for own in by_origin.values()]
    if rest:
        parts.append(encode_spans(rest).SerializeToString())
    return b"".join(parts)


class QuickExporter(OTLPSpanExporter):
    """The library's, with another pen. Where the library has come to send differently, it is the library's alone."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Sent by the library's own way, with its retries and certificates."""
        send = getattr(getattr(self, "_client", None), "export", None)
        if send is None or getattr(self, "_shutdown", True):
            return super().export(spans)
        return SpanExportResult.SUCCESS if send(encoded(spans)).success else SpanExportResult.FAILURE


def _is_plain(span: ReadableSpan) -> bool:
    if span.events or span.dropped_attributes or span.dropped_links or span.context is None or span.context.trace_state:
        return False
    for value in span.attributes.values() if span.attributes else ():
        if type(value) not in _PLAIN or (type(value) is int and not -_MOST <= value < _MOST):
            return False
    return not any(link.attributes for link in span.links)


def _of_one_origin(origin: Origin, spans: Sequence[ReadableSpan]) -> bytes:
    """What they have in common is the library's to say."""
    blank = ReadableSpan("", _ANY, resource=origin.resource, instrumentation_scope=origin.scope)
    (common,) = encode_spans([blank]).resource_spans
    (scope,) = common.scope_spans
    del scope.spans[:]
    inner = scope.SerializeToString() + b"".join(
        [_field(0x12, _told(span.told) if isinstance(span, ToldSpan) else _span(span)) for span in spans]
    )
    del common.scope_spans[:]
    return _field(0x0A, common.SerializeToString() + _field(0x12, inner))


def _told(told: Told) -> bytes:
    """One that is told by us: taken apart by places, as each name would be looked up, and as few calls as can be."""
    name, (trace, span, _), parent, start, end, attributes, kind, links, failed = told
    if parent is None:
        ids, flags = _IDS(_TRACE_ID, trace >> 64, trace & _HALF, _SPAN_ID, span), _OF_NOBODY
    else:
        ids, flags = _IDS_WITHIN(_TRACE_ID, trace >> 64, trace & _HALF, _SPAN_ID, span, _PARENT_ID, parent.span), _OF_ANOTHER
    parts = [ids, _words(0x2A, name), b"\x30", _KINDS[kind.value], _TIMES(0x39, start * 1000, 0x41, end * 1000)]
    # Of all that is told, only which execution it is about is another every time.
    parts += [_EXECUTION + value.encode() if key == EXECUTION else _known_attribute(key, value) for key, value in attributes.items()]
    parts += [_field(0x6A, _told_link(link)) for link in links]
    parts += [_told_status(failed), flags]
    return b"".join(parts)


def _told_link(context: TraceContext) -> bytes:
    ids = _IDS(_TRACE_ID, context.trace >> 64, context.trace & _HALF, _SPAN_ID, context.span)
    return ids + _LINK_FLAGS(0x35, _HAS_REMOTE | _IS_REMOTE)


@lru_cache(maxsize=256)
def _told_status(failed: str | None) -> bytes:
    return _field(0x7A, b"" if failed is None else _field(0x12, failed.encode("utf-8", "replace")) + bytes((0x18, StatusCode.ERROR.value)))


def _span(span: ReadableSpan) -> bytes:
    own, parent = span.context, span.parent
    assert own is not None
    parts = [b"\x0a\x10", own.trace_id.to_bytes(16, "big"), b"\x12\x08", own.span_id.to_bytes(8, "big")]
    if parent is not None:
        parts += [b"\x22\x08", parent.span_id.to_bytes(8, "big")]
    parts += [_words(0x2A, span.name), b"\x30", _KINDS[span.kind.value], _TIMES(0x39, span.start_time or 0, 0x41, span.end_time or 0)]
    parts += [_attribute(key, value) for key, value in (span.attributes or {}).items()]
    parts += [_field(0x6A, _link(link.context)) for link in span.links]
    status = span.status
    told = b"" if status.description is None else _field(0x12, status.description.encode("utf-8", "replace"))
    code = status.status_code.value
    parts += [_field(0x7A, told + bytes((0x18, code)) if code else told), _FLAGS(0x85, 0x01, _flags(parent))]
    return b"".join(parts)


def _attribute(key: str, value: Any) -> bytes:
    kind = type(value)
    if kind is str:
        held = _field(0x0A, value.encode("utf-8", "replace"))
    elif kind is bool:
        held = bytes((0x10, value))
    elif kind is int:
        held = b"\x18" + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    else:
        held = _DOUBLE(0x21, value)
    return _field(0x4A, _words(0x0A, key) + _field(0x12, held))


@lru_cache(maxsize=1024)
def _words(tag: int, text: str) -> bytes:
    """The names of spans and attributes: few, and the same again and again."""
    return _field(tag, text.encode("utf-8", "replace"))


# By type as well: 1, 1.0 and True are equal, and not written alike.
_known_attribute = lru_cache(maxsize=4096, typed=True)(_attribute)


def _link(context: SpanContext) -> bytes:
    ids = b"\x0a\x10" + context.trace_id.to_bytes(16, "big") + b"\x12\x08" + context.span_id.to_bytes(8, "big")
    return ids + _LINK_FLAGS(0x35, _flags(context))


def _flags(context: SpanContext | None) -> int:
    return _HAS_REMOTE | _IS_REMOTE if context is not None and context.is_remote else _HAS_REMOTE


def _field(tag: int, held: bytes) -> bytes:
    """A field that has a length."""
    return bytes((tag, len(held))) + held if len(held) < 0x80 else bytes((tag,)) + _varint(len(held)) + held


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


# What is before the id of an execution, which always has the same length; and the flags of a span that has no parent, or one that was
# told by another process, as far as anybody knows.
_NO_ID = execution_text(UUID(int=0))
_EXECUTION = _attribute(EXECUTION, _NO_ID).removesuffix(_NO_ID.encode())
_OF_NOBODY = _FLAGS(0x85, 0x01, _HAS_REMOTE)
_OF_ANOTHER = _FLAGS(0x85, 0x01, _HAS_REMOTE | _IS_REMOTE)
