"""The timekeeper: keeps our clock on the store's."""

from __future__ import annotations

from duly.domain.instants import Instant, Micros
from duly.ports.clock import SettableClock
from duly.ports.store import Health
from duly.roles.loop import Step

SAMPLES = 3


class Timekeeper:
    """Asks the store what time it is; the tightest of a few answers counts."""

    name = "timekeeper"

    def __init__(self, clock: SettableClock, health: Health, every: float = 20.0) -> None:
        self._clock = clock
        self._health = health
        self._every = every

    async def step(self, now: Instant) -> Step:
        """Correct the clock. The offset is its lowest possible value, so that our clock is never ahead of the store's."""
        lowest: list[tuple[Micros, Micros]] = []
        for _ in range(SAMPLES):
            before = self._clock.boottime()
            store_now = await self._health.store_now()
            after = self._clock.boottime()
            lowest.append((after - before, store_now - after))
        self._clock.set_offset(min(lowest)[1])
        return Step(self._every)
