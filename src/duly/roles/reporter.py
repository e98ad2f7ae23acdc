"""The reporter: sends the metrics of this process to whoever collects them."""

from __future__ import annotations

from duly.domain.instants import Instant
from duly.ports.telemetry import Gather, MetricSink
from duly.roles.loop import Step


class Reporter:
    """Totals since the start, each time: what was lost on the way is in the next ones."""

    name = "reporter"

    def __init__(self, gather: Gather, sink: MetricSink, every: float) -> None:
        self._gather = gather
        self._sink = sink
        self._every = every

    async def step(self, now: Instant) -> Step:
        """Send once."""
        families = await self._gather()
        await self._sink.send(families)
        return Step(self._every, {"sent": sum(len(family.samples) for family in families)})
