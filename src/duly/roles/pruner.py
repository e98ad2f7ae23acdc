"""The pruner: partitions ahead of time, and the end of what was kept long enough."""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.instants import DAY, Instant, Micros
from duly.ports.store import Retention
from duly.roles.loop import Step


@dataclass(frozen=True, slots=True)
class PrunerSettings:
    """How long finished executions are kept, how far ahead partitions are made, and how much goes in one transaction."""

    keep: Micros = 30 * DAY
    ahead: Micros = 3 * DAY
    batch: int = 500
    every: float = 600.0


class Pruner:
    """Small bites, so that nobody waits for it."""

    name = "pruner"

    def __init__(self, retention: Retention, settings: PrunerSettings) -> None:
        self._retention = retention
        self._settings = settings

    async def step(self, now: Instant) -> Step:
        """Prepare the coming days, remove one batch of the old."""
        made = await self._retention.prepare(now, self._settings.ahead)
        pruned = await self._retention.prune(now - self._settings.keep, now, self._settings.batch)
        return Step(0.05 if pruned else self._settings.every, {"partitions": made, "pruned": pruned})
