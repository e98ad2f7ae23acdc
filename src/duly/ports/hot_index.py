"""The hot index: when to look next. A hint: emptied or wrong, nothing is lost, only later by a poll."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from duly.domain.instants import Instant


class HotIndex(Protocol):
    """Instants at which something becomes due, soonest first."""

    async def add(self, instants: Sequence[Instant]) -> None:
        """Look at these instants."""

    async def take_due(self, now: Instant) -> int:
        """Remove instants up to now; how many there were."""

    async def next_due(self) -> Instant | None:
        """The soonest instant, if any is known."""

    async def clear(self) -> None:
        """Forget everything, as when shards change hands."""
