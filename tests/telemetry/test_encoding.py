"""Spans are written by hand: what a collector reads of them is what it would read of the library's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from duly.adapters.otel.encoding import QuickExporter, encoded
from duly.adapters.otel.told import Origin, Told, ToldSpan
from duly.adapters.otel.tracing import about
from duly.domain.traces import TraceContext

RESOURCES = [Resource({"service.name": "duly", "service.version": "1"}), Resource({"service.name": "shop"}, "https://schema.example/1")]
SCOPES = [InstrumentationScope("duly", "1"), InstrumentationScope("handlers", None, "https://schema.example/2")]
ORIGINS = [Origin(RESOURCES[0], SCOPES[0]), Origin(RESOURCES[1], SCOPES[1])]

contexts = st.builds(
    SpanContext, st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), is_remote=st.booleans(), trace_flags=st.just(TraceFlags(1))
)
plain = st.one_of(st.text(max_size=300), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats(allow_nan=False))
values = st.one_of(plain, st.lists(st.integers(0, 9), max_size=3).map(tuple))
attributes = st.dictionaries(st.text(min_size=1, max_size=20), values, max_size=5)
statuses = st.one_of(
    st.just(Status()), st.just(Status(StatusCode.OK)), st.text(max_size=200).map(lambda why: Status(StatusCode.ERROR, why))
)
events = st.lists(st.builds(Event, st.text(max_size=9), attributes, st.integers(0, 2**62)), max_size=1)
spans = st.builds(
    lambda resource, scope, **more: ReadableSpan(resource=RESOURCES[resource], instrumentation_scope=SCOPES[scope], **more),
    st.integers(0, 1),
    st.integers(0, 1),
    name=st.text(max_size=200),
    context=contexts,
    parent=st.none() | contexts,
    attributes=attributes,
    links=st.lists(st.builds(Link, contexts, st.none() | attributes), max_size=2),
    events=st.one_of(st.just([]), events),
    kind=st.sampled_from(list(SpanKind)),
    status=statuses,
    start_time=st.integers(0, 2**63 - 1),
    end_time=st.integers(0, 2**63 - 1),
)

ours = st.builds(TraceContext, st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1))
about_one = st.builds(lambda id, more: about(id, **more), st.uuids(), st.dictionaries(st.text(min_size=1, max_size=20), plain, max_size=5))
told = st.builds(
    Told,
    name=st.text(max_size=200),
    own=ours,
    parent=st.none() | ours,
    start=st.integers(0, 2**62 // 1000),
    end=st.integers(0, 2**62 // 1000),
    attributes=st.one_of(about_one, about_one, st.just({"attempts": 1, "is": True, "part": 1.0})),
    kind=st.sampled_from(list(SpanKind)),
    links=st.lists(ours, max_size=2),
    failed=st.none() | st.text(max_size=200),
)
told_spans = st.builds(lambda told, origin: ToldSpan(told, ORIGINS[origin]), told, st.integers(0, 1))


def read(body: bytes) -> list[tuple[Any, ...]]:
    """Every span with what it is of, in an order that does not matter."""
    found = []
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        for scope in resource.scope_spans:
            about = (str(resource.resource), resource.schema_url, str(scope.scope), scope.schema_url)
            found += [(*about, span.SerializeToString(deterministic=True)) for span in scope.spans]
    return sorted(found)


@given(st.lists(spans, max_size=6))
def test_what_is_written_is_what_the_library_would_have(told: Sequence[ReadableSpan]) -> None:
    assert read(encoded(told)) == read(encode_spans(told).SerializeToString())


@given(st.lists(st.one_of(spans, told_spans), max_size=6))
def test_what_we_tell_is_written_as_the_library_would_have_it_beside_what_handlers_tell(told: Sequence[ReadableSpan]) -> None:
    body = encoded(told)

    assert read(body) == read(encode_spans(told).SerializeToString())


def test_a_value_is_written_as_what_it_is_though_it_equals_another() -> None:
    alike = [ToldSpan(Told("one", TraceContext(1, 2), None, 0, 1, {"value": value}), ORIGINS[0]) for value in (1, True, 1.0)]
    bodies = [encoded([span]) for span in alike]

    assert [read(body) for body in bodies] == [read(encode_spans([span]).SerializeToString()) for span in alike]
    assert len(set(bodies)) == 3


def test_what_we_tell_becomes_the_library_s_only_for_who_reads_it_so() -> None:
    span = ToldSpan(Told("one", TraceContext(1, 2), TraceContext(1, 3), 5, 7, {"k": "v"}, failed="no luck"), ORIGINS[0])
    sent = InMemorySpanExporter()
    processor = BatchSpanProcessor(sent)

    processor.on_end(span)
    processor.shutdown()
    encoded([span])
    assert sent.get_finished_spans() == (span,)
    assert "_name" not in vars(span)

    assert (span.name, dict(span.attributes or {}), span.status.description) == ("one", {"k": "v"}, "no luck")
    assert span.parent is not None
    assert (span.parent.span_id, span.parent.is_remote, span.start_time, span.end_time) == (3, True, 5000, 7000)


def test_text_that_is_none_costs_a_character_and_not_the_batch() -> None:
    odd = ReadableSpan(
        "a\ud800", SpanContext(1, 2, False), resource=RESOURCES[0], attributes={"k": "\udfff"}, instrumentation_scope=SCOPES[0]
    )
    ((*_, span),) = read(encoded([odd]))
    assert b"a?" in span


def test_the_library_still_sends_the_way_that_is_used() -> None:
    exporter = QuickExporter("http://127.0.0.1:9/v1/traces")
    assert callable(exporter._client.export)
    assert exporter._shutdown is False
    exporter.shutdown()
