"""Time and chance, as roles and use cases see them."""

from __future__ import annotations

from typing import Protocol

from duly.domain.instants import Instant, Micros


class Clock(Protocol):
    """One clock decides: the store's. Trust is bounded by a clock that no step and no suspend can fool."""

    def now(self) -> Instant:
        """The store's time as well as we know it, never ahead of it."""

    def boottime(self) -> Micros:
        """Microseconds that only grow, also while the machine sleeps."""


class SettableClock(Clock, Protocol):
    """A clock that can be put right."""

    def set_offset(self, offset: Micros) -> None:
        """The store's time is boottime plus `offset`."""

    def skew(self) -> Micros:
        """How far the machine's wall clock is ahead of `now`."""


class Entropy(Protocol):
    """Random bits, injected so that tests choose them."""

    def __call__(self, bits: int, /) -> int:
        """A number of that many random bits."""
