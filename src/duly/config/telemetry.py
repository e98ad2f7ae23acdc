"""What a process tells about itself, and to whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from duly.domain.instants import Micros


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Metrics and traces of one process. `port` is that of a process without an API; None: it has none."""

    counts: bool
    by_tenant: bool
    port: int | None
    host: str
    token: str | None = field(repr=False)
    otlp_url: str | None
    otlp_sends: tuple[str, ...]
    otlp_headers: tuple[tuple[str, str], ...] = field(repr=False)
    otlp_every: Micros
    sample: float

    @property
    def sends_metrics(self) -> bool:
        """Whether metrics go to a collector."""
        return self.counts and self.otlp_url is not None and "metrics" in self.otlp_sends

    @property
    def sends_traces(self) -> bool:
        """Whether traces go to a collector."""
        return self.otlp_url is not None and "traces" in self.otlp_sends


def telemetry_of(fields: Mapping[str, Any]) -> TelemetrySettings:
    """From the values of the table."""
    return TelemetrySettings(
        counts=fields["metrics"],
        by_tenant=fields["metrics_tenants"],
        port=fields["metrics_port"],
        host=fields["metrics_host"],
        token=fields["metrics_token"] or None,
        otlp_url=fields["otlp_url"] or None,
        otlp_sends=fields["otlp_sends"],
        otlp_headers=fields["otlp_headers"],
        otlp_every=fields["otlp_every"],
        sample=fields["trace_sample"],
    )
