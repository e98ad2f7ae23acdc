"""The hot index: when to look next. A hint: emptied, stale or wrong, nothing is lost, only later by a poll."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple, Protocol

from duly.domain.instants import Instant


class Coming(NamedTuple):
    """Something of this shard becomes due at this instant; what it is, the store knows."""

    at: Instant
    shard: int


class HotIndex(Protocol):
    """Instants at which something becomes due, by shard. No call raises because the index is away: it then knows nothing."""

    async def add(self, coming: Iterable[Coming]) -> None:
        """Look at these instants as well. Whoever has too many forgets the farthest."""

    async def fill(self, shards: Collection[int], coming: Iterable[Coming], now: Instant) -> None:
        """Everything that the store has of these shards for the next while: from now on they count as filled."""

    async def take(self, shards: Collection[int], until: Instant) -> Instant | None:
        """Forget the instants of these shards up to `until`, which have been looked at; the soonest that remains, if one is known.

        Notices shards that are not filled, or no longer: `wait_gap` tells.
        """

    async def wait_gap(self, timeout: float) -> bool:
        """Wait until shards are found that want filling, at most `timeout` seconds; False when it ran out."""
