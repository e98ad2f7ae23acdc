"""Sends metrics to a collector. The numbers are ours; the library knows how they are sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from duly.domain.errors import Unavailable
from duly.domain.metrics import Family, Kind

_CUMULATIVE = AggregationTemporality.CUMULATIVE


class OtlpMetrics:
    """Where metrics are sent to: see ports/telemetry.py. Totals since the start, so that a lost message costs nothing."""

    def __init__(self, exporter: OTLPMetricExporter, resource: Resource, version: str) -> None:
        self._exporter = exporter
        self._resource = resource
        self._scope = InstrumentationScope("duly", version)
        self._began = time.time_ns()

    async def send(self, families: Sequence[Family]) -> None:
        now = time.time_ns()
        metrics = [converted(family, self._began, now) for family in families]
        data = MetricsData([ResourceMetrics(self._resource, [ScopeMetrics(self._scope, metrics, "")], "")])
        answer = await asyncio.to_thread(self._exporter.export, data)
        if answer is not MetricExportResult.SUCCESS:
            raise Unavailable("DULY-E501", "The collector of DULY_OTLP_URL took no metrics.")

    async def close(self) -> None:
        await asyncio.to_thread(self._exporter.shutdown)


def converted(family: Family, began: int, now: int) -> Metric:
    """A family as the library has it."""
    metric = family.metric
    labelled = [(dict(zip(metric.labels, sample.labels, strict=True)), sample) for sample in family.samples]
    points = [NumberDataPoint(labels, began, now, sample.value) for labels, sample in labelled]
    match metric.kind:
        case Kind.COUNTER:
            return Metric(metric.name, metric.about, "", Sum(points, _CUMULATIVE, is_monotonic=True))
        case Kind.GAUGE:
            return Metric(metric.name, metric.about, "", Gauge(points))
        case Kind.HISTOGRAM:
            # The smallest and the largest are not kept; a message need not have them, though the library's types would.
            unknown: Any = None
            spread = [
                HistogramDataPoint(
                    labels, began, now, sum(one.buckets), one.value, list(one.buckets), list(metric.bounds), min=unknown, max=unknown
                )
                for labels, one in labelled
            ]
            return Metric(metric.name, metric.about, "", Histogram(spread, _CUMULATIVE))
