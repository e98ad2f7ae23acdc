"""The hydrator: keeps the hot index filled with the instants of the next window. Far-future work stays in the store only."""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.instants import SECOND, Instant, Micros
from duly.ports.hot_index import HotIndex
from duly.ports.store import Schedules
from duly.ports.transport import Transport
from duly.roles.loop import Step
from duly.roles.ownership import Ownership


@dataclass(frozen=True, slots=True)
class HydratorSettings:
    """How far ahead it looks, how often, how many instants it keeps at most, and how long it gathers news first."""

    window: Micros = 30 * SECOND
    every: float = 5.0
    limit: int = 10_000
    gather: float = 0.05


class Hydrator:
    """Reads what comes up; a window is looked at again before it ends, so nothing falls between two looks."""

    name = "hydrator"

    def __init__(
        self, ownership: Ownership, schedules: Schedules, hot_index: HotIndex, transport: Transport, settings: HydratorSettings
    ) -> None:
        self._ownership = ownership
        self._schedules = schedules
        self._hot_index = hot_index
        self._transport = transport
        self._settings = settings

    async def step(self, now: Instant) -> Step:
        """Add the instants of the next window."""
        shards = sorted(self._ownership.epochs())
        if not shards:
            return Step(1.0)
        instants = await self._schedules.upcoming(shards, now, now + self._settings.window, self._settings.limit)
        await self._hot_index.add(instants)
        return Step(self._settings.every, {"hydrated": len(instants)})

    async def wait(self, seconds: float) -> None:
        """Rest until something new is scheduled, and a little longer: news comes in crowds."""
        if await self._transport.wait_scheduled(seconds):
            await self._transport.wait_scheduled(self._settings.gather)
