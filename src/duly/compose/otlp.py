"""The way to a collector: traces and metrics over OTLP, if the extra is installed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from duly import config
from duly.domain.errors import Invalid
from duly.ports.clock import Clock
from duly.ports.handlers import Registry
from duly.ports.store import Store
from duly.ports.telemetry import MetricSink
from duly.ports.work import WorkerStore

if TYPE_CHECKING:
    from duly.adapters.otel.attempts import Attempts
    from duly.adapters.otel.tracing import Tracing


@dataclass(frozen=True, slots=True)
class Spans:
    """What a process tells of the executions that are traced."""

    tracing: Tracing
    attempts: Attempts

    def around(self, store: Store, clock: Clock) -> Store:
        """The store, with somebody who tells spans."""
        from duly.adapters.otel.store import traced

        return traced(store, self.tracing, self.attempts, clock)

    def around_work(self, store: WorkerStore, clock: Clock) -> WorkerStore:
        """The same for a worker that goes through an API."""
        from duly.adapters.otel.store import TracedWork

        return cast(WorkerStore, TracedWork(store, self.tracing, self.attempts, clock))

    def offered(self, registry: Registry) -> None:
        """Each handler with a span around it."""
        self.attempts.offered(registry)

    def flush(self) -> None:
        """Send what waits, now."""
        self.tracing.flush()

    def close(self) -> None:
        """Send what waits, and no more."""
        self.tracing.close()


def open_spans(settings: config.Settings) -> Spans | None:
    """Where spans go, if anywhere. Raises Invalid (DULY-E640) when it is not installed."""
    wanted = settings.telemetry
    if not wanted.sends_traces:
        return None
    try:
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from duly.adapters.otel.attempts import Attempts
        from duly.adapters.otel.encoding import QuickExporter
        from duly.adapters.otel.resource import resource_of
        from duly.adapters.otel.tracing import Tracing
    except ImportError as error:
        raise not_installed() from error
    exporter = QuickExporter(f"{wanted.otlp_url}/v1/traces", headers=dict(wanted.otlp_headers), timeout=10)
    resource = resource_of(settings.hostname, config.VERSION)
    tracing = Tracing(resource, BatchSpanProcessor(exporter), wanted.sample, config.VERSION)
    tracing.become_default()
    return Spans(tracing, Attempts(tracing))


def open_metric_sink(settings: config.Settings) -> MetricSink:
    """Where metrics are sent. Raises Invalid (DULY-E640) when it is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        from duly.adapters.otel.metrics import OtlpMetrics
        from duly.adapters.otel.resource import resource_of
    except ImportError as error:
        raise not_installed() from error
    wanted = settings.telemetry
    exporter = OTLPMetricExporter(f"{wanted.otlp_url}/v1/metrics", headers=dict(wanted.otlp_headers), timeout=10)
    return OtlpMetrics(exporter, resource_of(settings.hostname, config.VERSION), config.VERSION)


def not_installed() -> Invalid:
    """A collector was named, and what speaks to it is not there."""
    return Invalid("DULY-E640", "Traces and metrics over OTLP need an extra.", field="DULY_OTLP_URL", hint="pip install 'duly[otel]'")
