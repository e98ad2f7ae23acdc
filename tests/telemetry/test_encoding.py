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
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from duly.adapters.otel.encoding import QuickExporter, encoded

RESOURCES = [Resource({"service.name": "duly", "service.version": "1"}), Resource({"service.name": "shop"}, "https://schema.example/1")]
SCOPES = [InstrumentationScope("duly", "1"), InstrumentationScope("handlers", None, "https://schema.example/2")]

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
