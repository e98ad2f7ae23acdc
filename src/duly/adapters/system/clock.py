"""The machine's clocks and its randomness."""

from __future__ import annotations

import secrets
import time

from duly.domain.instants import Instant, Micros

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The store's time: boottime plus an offset that the timekeeper sets.

    Counted from boottime, which no administrator and no NTP step can turn, and which grows while the machine
    sleeps: a wall clock that jumps an hour ahead on one node must not make it fire an hour early.
    """

    def __init__(self) -> None:
        self._offset: Micros = time.time_ns() // 1000 - self.boottime()

    def now(self) -> Instant:
        return time.clock_gettime_ns(_BOOTTIME) // 1000 + self._offset

    def set_offset(self, offset: Micros) -> None:
        self._offset = offset

    def skew(self) -> Micros:
        """How far the machine's wall clock is ahead of the store's, as well as we know it."""
        return time.time_ns() // 1000 - self.now()

    def boottime(self) -> Micros:
        return time.clock_gettime_ns(_BOOTTIME) // 1000


def system_entropy(bits: int, /) -> int:
    """Random bits from the operating system."""
    return secrets.randbits(bits)
