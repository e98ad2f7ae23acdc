"""The timekeeper: keeps our clock on the store's."""

from __future__ import annotations

from duly.domain.instants import Instant, Micros
from duly.ports.clock import SettableClock
from duly.ports.store import Health
from duly.roles.loop import Step

SAMPLES = 5
# Every answer bounds the store's time from below, by what its way to us took. As long as the best of them was under way for longer than
# this, whatever is due may be late by as much, and the store is soon asked again: a process that starts is busy.
TIGHT: Micros = 500
SOON = 1.0


class Timekeeper:
    """Asks the store what time it is; the tightest of a few answers counts."""

    name = "timekeeper"

    def __init__(self, clock: SettableClock, health: Health, every: float = 20.0) -> None:
        self._clock = clock
        self._health = health
        self._every = every
        self._wait = SOON / 2

    async def step(self, now: Instant) -> Step:
        """Correct the clock. The offset is its lowest possible value, so that our clock is never ahead of the store's: the highest of the
        lowest, as each of them holds."""
        tightest, offset = None, None
        for _ in range(SAMPLES):
            before = self._clock.boottime()
            store_now = await self._health.store_now()
            after = self._clock.boottime()
            tightest = after - before if tightest is None else min(tightest, after - before)
            offset = store_now - after if offset is None else max(offset, store_now - after)
        assert tightest is not None
        assert offset is not None
        self._clock.set_offset(offset)
        self._wait = self._every if tightest <= TIGHT else min(self._wait * 2, self._every)
        return Step(self._wait)
