"""The pruner: partitions ahead of time, and the end of what was kept long enough."""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.ids import JobId
from duly.domain.instants import DAY, Instant, Micros
from duly.ports.store import Retention
from duly.ports.tenants import Tenants
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

    def __init__(self, retention: Retention, tenants: Tenants, settings: PrunerSettings) -> None:
        self._retention = retention
        self._tenants = tenants
        self._settings = settings
        # Tenants that keep less than the others and are not through yet, and with which of their jobs to go on.
        self._left: dict[int, JobId | None] = {}

    async def step(self, now: Instant) -> Step:
        """Prepare the coming days, remove one batch of the old."""
        made = await self._retention.prepare(now, self._settings.ahead)
        pruned = await self._retention.prune(now - self._settings.keep, now, self._settings.batch)
        pruned += await self._prune_tenant(now)
        return Step(0.05 if pruned or self._left else self._settings.every, {"partitions": made, "pruned": pruned})

    async def _prune_tenant(self, now: Instant) -> int:
        """One batch of one tenant whose quotas say that it is kept for less long."""
        days = {tenant: quotas.retention_days for tenant, quotas in (await self._tenants.bounded()).quotas.items()}
        kept = {tenant: count * DAY for tenant, count in days.items() if count is not None and count * DAY < self._settings.keep}
        self._left = {tenant: first for tenant, first in self._left.items() if tenant in kept} or dict.fromkeys(kept)
        if not self._left:
            return 0
        tenant, first = next(iter(self._left.items()))
        pruned, following = await self._tenants.prune(tenant, now - kept[tenant], now, first, self._settings.batch)
        if following is None:
            del self._left[tenant]
        else:
            self._left[tenant] = following
        return pruned
