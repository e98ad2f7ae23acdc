"""What tells how busy pools are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant


@dataclass(frozen=True, slots=True)
class PoolLately:
    """How many executions came to a pool, the oldest of them when, and how long those ran that have ended, on average, in seconds."""

    arrived: int
    since: Instant
    mean_run: float | None


class PoolLoads(Protocol):
    """Bounded looks, whatever waits and however much there was."""

    async def oldest_due(self, route: int, tenant: int, sampled: int) -> Instant | None:
        """Since when the first of what waits there is due: the earliest of the `sampled` that come first."""

    async def lately(self, tenant: int | None, since: ExecutionId, most: int) -> dict[str, PoolLately]:
        """What came from this id on, by pools; of very much the newest `most`. Of one tenant, or of all of them."""
