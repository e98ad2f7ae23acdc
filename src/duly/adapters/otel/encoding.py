"""Spans as a collector takes them (OTLP, protobuf), written down directly.

The library makes a message of each span, of each attribute and of each value before it writes any of them: 20 µs and more for a span, most
of what a traced execution costs. What we tell ourselves are a few plain fields; they are written as the bytes that they are. Whatever
else a span may have (events, lists, a state) the library encodes; messages of this kind may follow one another in one body.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext, SpanKind

_PLAIN = frozenset({str, int, bool, float})
_MOST = 1 << 63
_ANY = SpanContext(1, 1, is_remote=False)
_HAS_REMOTE, _IS_REMOTE = 0x100, 0x200
# Start and end of a span: fields 7 and 8, fixed.
_TIMES = Struct("<BQBQ").pack
# Its flags: field 16, fixed; of a link field 6.
_FLAGS = Struct("<BBI").pack
_LINK_FLAGS = Struct("<BI").pack
_DOUBLE = Struct("<Bd").pack
_KINDS = [bytes((number + 1,)) for number in range(len(SpanKind))]


def encoded(spans: Sequence[ReadableSpan]) -> bytes:
    """The body of a request with all of them."""
    by_origin: dict[tuple[int, int], list[ReadableSpan]] = {}
    rest: list[ReadableSpan] = []
    for span in spans:
        if _is_plain(span):
            by_origin.setdefault((id(span.resource), id(span.instrumentation_scope)), []).append(span)
        else:
            rest.append(span)
    parts = [_of_one_origin(own) for own in by_origin.values()]
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


def _of_one_origin(spans: Sequence[ReadableSpan]) -> bytes:
    """What they have in common is the library's to say."""
    blank = ReadableSpan("", _ANY, resource=spans[0].resource, instrumentation_scope=spans[0].instrumentation_scope)
    (common,) = encode_spans([blank]).resource_spans
    (scope,) = common.scope_spans
    del scope.spans[:]
    inner = scope.SerializeToString() + b"".join([_field(0x12, _span(span)) for span in spans])
    del common.scope_spans[:]
    return _field(0x0A, common.SerializeToString() + _field(0x12, inner))


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
