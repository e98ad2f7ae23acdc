"""The timekeeper: keeps our clock on the store's."""

from __future__ import annotations

from duly.domain.instants import SECOND, Instant, Micros
from duly.ports.clock import SettableClock
from duly.ports.store import Health
from duly.roles.loop import Step

SAMPLES = 5
# Every answer bounds the store's time from below, by what its way to us took. As long as the best of them was under way for longer than
# this, whatever is due may be late by as much, and the store is soon asked again: a process that starts is busy.
TIGHT: Micros = 500
SOON = 1.0
# A wall clock that has moved by so much against boottime was set, or the machine stood still: the store's may have moved as well. Nobody
# goes by it, but looking costs nothing, and a store on this machine is learnt of at once.
MOVED: Micros = 100_000
GLANCE = 1.0


class Timekeeper:
    """Asks the store what time it is; the tightest of a few answers counts."""

    name = "timekeeper"

    def __init__(self, clock: SettableClock, health: Health, every: float = 20.0) -> None:
        self._clock = clock
        self._health = health
        self._every = every
        self._wait = SOON / 2
        # Boottime at which the store is asked again, unless the wall clock moves before.
        self._due: Micros | None = None
        self._skew: Micros = 0

    async def step(self, now: Instant) -> Step:
        """Correct the clock when it is time to, or when something has moved."""
        if self._due is not None and abs(self._clock.skew() - self._skew) > MOVED:
            self._wait = SOON / 2
        elif self._due is not None and (left := self._due - self._clock.boottime()) > 0:
            return Step(min(left / SECOND, GLANCE))
        await self._ask()
        return Step(min(self._wait, GLANCE))

    async def _ask(self) -> None:
        """Unless the clock moves while it is asked for: then what was told before may not hold any more, and it is asked for once again."""
        skew = self._clock.skew()
        tightest, offset = await self._sample()
        if abs(self._clock.skew() - skew) > MOVED:
            tightest, offset = await self._sample()
        self._clock.set_offset(offset)
        self._wait = self._every if tightest <= TIGHT else min(self._wait * 2, self._every)
        self._due, self._skew = self._clock.boottime() + round(self._wait * SECOND), self._clock.skew()

    async def _sample(self) -> tuple[Micros, Micros]:
        """How long the quickest of a few answers took, and the offset: its lowest possible value, so that our clock is never ahead of the
        store's; the highest of the lowest, as each of them holds."""
        ways, offsets = [], []
        for _ in range(SAMPLES):
            before = self._clock.boottime()
            store_now = await self._health.store_now()
            after = self._clock.boottime()
            ways.append(after - before)
            offsets.append(store_now - after)
        return min(ways), max(offsets)
