"""The hydrator: keeps the hot index filled with the instants of the next window. Far-future work stays in the store only."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from duly.domain.instants import SECOND, Instant, Micros
from duly.ports.hot_index import HotIndex
from duly.ports.store import Schedules
from duly.ports.transport import Transport
from duly.roles.loop import Step
from duly.roles.ownership import Ownership


@dataclass(frozen=True, slots=True)
class HydratorSettings:
    """How far ahead it looks, how often, how many instants it brings at most, and how long it gathers news first. Where there are more
    than that, it comes again when half of the time that they cover is over, but not at once."""

    window: Micros = 30 * SECOND
    every: float = 5.0
    least: float = 0.5
    limit: int = 4_000
    gather: float = 0.05


class Hydrator:
    """Reads what comes up; a window is looked at again before it ends, so nothing falls between two looks. An index that was emptied,
    went back in time or belongs to new shards is filled as soon as somebody notices."""

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
        settings = self._settings
        coming = await self._schedules.upcoming(shards, now, now + settings.window, settings.limit)
        await self._hot_index.fill(shards, coming, now)
        is_cut_off = len(coming) >= settings.limit
        again = max((coming[-1].at - now) / SECOND / 2, settings.least) if is_cut_off else settings.every
        return Step(min(again, settings.every), {"hydrated": len(coming)})

    async def wait(self, seconds: float) -> None:
        """Rest until something new is scheduled or the index has a gap, and a little longer: news comes in crowds."""
        news = asyncio.ensure_future(self._transport.wait_scheduled(seconds))
        gap = asyncio.ensure_future(self._hot_index.wait_gap(seconds))
        try:
            await asyncio.wait({news, gap}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_news = any(waiter.done() and not waiter.cancelled() and waiter.result() for waiter in (news, gap))
            news.cancel()
            gap.cancel()
        if is_news:
            await self._transport.wait_scheduled(self._settings.gather)
