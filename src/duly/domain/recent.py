"""What was used lately, and nothing else: a memory of two generations.

What is asked for moves into the young generation. When that has lasted its time, it becomes the old one, and what was still old is
forgotten: nobody asked for it for a whole generation. So whatever is in use is always known, and the memory follows what is in
use now, not what ever was.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from duly.domain.instants import MINUTE, Instant, Micros

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

GENERATION: Micros = 5 * MINUTE


class Lately(Generic[K, V]):
    """One value at a time, by any key. Time is an argument, of whatever clock the caller has; a generation also ends when it has `most`."""

    def __init__(self, lasts: Micros = GENERATION, most: int | None = None) -> None:
        self._lasts = lasts
        self._most = most
        self._turn_at: Instant = 0
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: K, now: Instant) -> V | None:
        """Its value, if it was asked for lately; it is kept for another generation."""
        self._turn(now)
        value = self._young.get(key)
        if value is None and (value := self._old.get(key)) is not None:
            self._young[key] = value
        return value

    def put(self, key: K, value: V) -> None:
        """It has this value now."""
        if self._most is not None and len(self._young) >= self._most:
            self._old, self._young = self._young, {}
        self._young[key] = value

    def _turn(self, now: Instant) -> None:
        # A clock that was set back must not keep everything for ever.
        if not 0 <= self._turn_at - now <= self._lasts:
            self._old, self._young = self._young, {}
            self._turn_at = now + self._lasts


class Recent(Lately[int, V]):
    """Values by their number, many at a time."""

    def unknown(self, wanted: set[int], now: Instant) -> list[int]:
        """Which of these must be looked up, in order. The others are kept for another generation."""
        self._turn(now)
        young, old = self._young, self._old
        unknown: list[int] = []
        for number in wanted:
            if number not in young:
                if number in old:
                    young[number] = old[number]
                else:
                    unknown.append(number)
        unknown.sort()
        return unknown

    def learn(self, found: Mapping[int, V]) -> None:
        """These are known now."""
        self._young |= found

    def known(self, wanted: set[int]) -> dict[int, V]:
        """Those of these that are known. Somebody else may have ended the generation since they were asked for."""
        return {number: value for number in wanted if (value := self._young.get(number, self._old.get(number))) is not None}
