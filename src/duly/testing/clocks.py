"""The clocks of the simulated fleet: the store's, which may be stepped, and one per node, which has its own origin and drift.

There is one true time, the loop's. The host of the store keeps the wall clock that every log is written by: when it is
stepped, clients and nemesis see it as well, as on one machine.
"""

from __future__ import annotations

from duly.domain.instants import SECOND, Instant, Micros
from duly.testing.loop import SimulatedLoop


class StoreClock:
    """The store's time: true time since `start`, plus what it was stepped by."""

    def __init__(self, loop: SimulatedLoop, start: Instant) -> None:
        self._loop = loop
        self._base = start

    def now(self) -> Instant:
        return self._base + round(self._loop.now * SECOND)

    def step(self, by: Micros) -> None:
        """Somebody sets it."""
        self._base += by


class NodeClock:
    """A node's clock: boottime from an origin of its own, at a rate of its own, and the offset that the timekeeper sets.

    Its wall clock is the store's where both are on one machine; a machine `apart` has one that nobody sets.
    """

    def __init__(self, loop: SimulatedLoop, store: StoreClock, origin: Micros, *, apart: bool = False) -> None:
        self._loop = loop
        self._store = store
        self._apart = apart
        # How far it was from the store's clock at most, once it was set.
        self.farthest: Micros = 0
        self._is_set = False
        self._since = loop.now
        self._base: float = origin
        self._rate = 1.0
        self._read_at = -1.0
        self._boottime: Micros = origin
        self._offset: Micros = 0

    def boottime(self) -> Micros:
        # Asked for far more often than it moves.
        if self._read_at != (now := self._loop.now):
            self._read_at, self._boottime = now, round(self._base + (now - self._since) * SECOND * self._rate)
        return self._boottime

    def now(self) -> Instant:
        return (self._boottime if self._read_at == self._loop.now else self.boottime()) + self._offset

    def set_offset(self, offset: Micros) -> None:
        if self._is_set:
            self.measure()
        self._offset, self._is_set = offset, True
        self.measure()

    def skew(self) -> Micros:
        return 0 if self._apart else self._store.now() - self.now()

    def measure(self) -> None:
        """Note how far it is from the store's clock."""
        if self._is_set:
            self.farthest = max(self.farthest, abs(self.now() - self._store.now()))

    def drift(self, rate: float) -> None:
        """From now on it runs at this rate. It may be farther off now than it will be when it is next set."""
        self.measure()
        self._base, self._since, self._rate = self.boottime(), self._loop.now, rate
        self._read_at = -1.0
