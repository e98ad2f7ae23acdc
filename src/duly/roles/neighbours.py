"""The tenants that a worker has seen with work lately, and how they share it (docs/decisions/0015)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from duly.domain.fairness import Ask, Work, kept_open, share_out, slots_kept
from duly.domain.instants import SECOND, Micros

COUNTED_TO = 64
# Who had work within this time may have some again at any moment, and must not wait behind a large batch of somebody else's.
NEIGHBOUR_FOR: Micros = 10 * SECOND


class Neighbours:
    """One worker's."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._credit: dict[int, float] = {}
        # When each was last seen with work, and its weight.
        self.seen: dict[int, tuple[Micros, int]] = {}

    @property
    def are_several(self) -> bool:
        """Whether more than one is about."""
        return len(self.seen) > 1

    @property
    def weights(self) -> dict[int, int]:
        """Of those who are about."""
        return {tenant: weight for tenant, (_, weight) in self.seen.items()}

    @property
    def at_once(self) -> int:
        """How many handlers that wait begin together: what begins together ends together, and others would wait for all of it."""
        return min(self._slots, max(self._slots // 4, 2)) if self.are_several else self._slots

    def see(self, work: Iterable[Work], now: Micros) -> None:
        """These have work."""
        self.seen |= {item.tenant: (now, item.weight) for item in work}
        self.seen = {tenant: (at, weight) for tenant, (at, weight) in self.seen.items() if now - at < NEIGHBOUR_FOR}

    def share(self, budget: int, room: int, work: Iterable[Work], running: Mapping[int, int]) -> list[Ask]:
        """Split the budget over the work; while several are about, none takes the last of the room unless it has less than its share."""
        most = kept_open(room, self._slots, slots_kept(self._slots), running, self.weights) if self.are_several else None
        return share_out(budget, work, self._credit, counted_to=COUNTED_TO, most=most)
