"""Which keys and sessions were used, and when: noted at no cost while requests are answered, written down afterwards."""

from __future__ import annotations

from typing import Generic, TypeVar

from duly.domain.instants import MINUTE, Instant, Micros

Id = TypeVar("Id", str, bytes)

# One node tells the store that often about one key, however busy it is.
TELL_EVERY: Micros = MINUTE
# What is used beyond this between two writes goes untold.
MOST = 10_000


class Uses(Generic[Id]):
    """The last use of each, until it is told."""

    def __init__(self) -> None:
        self._seen: dict[Id, Instant] = {}
        self._told: dict[Id, Instant] = {}

    def note(self, id: Id, now: Instant) -> None:
        """It was used."""
        if id in self._seen or len(self._seen) < MOST:
            self._seen[id] = now

    def due(self, now: Instant) -> dict[Id, Instant]:
        """What was used and not told for a while."""
        # A clock that was set back must not keep anything untold.
        self._told = {id: at for id, at in self._told.items() if 0 <= now - at < TELL_EVERY}
        return {id: at for id, at in self._seen.items() if id not in self._told}

    def told(self, told: dict[Id, Instant], now: Instant) -> None:
        """That much is written down. What was used again since stays for the next time."""
        for id, at in told.items():
            self._told[id] = now
            if self._seen.get(id) == at:
                del self._seen[id]
