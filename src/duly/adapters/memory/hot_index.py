"""The hot index in memory: a heap of instants for each shard."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Collection, Iterable

from duly.domain.instants import Instant
from duly.ports.hot_index import Coming

MOST = 100_000


class MemoryHotIndex:
    """Instants, each once. When there are too many, the farthest are forgotten: the hydrator brings them back in time."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._heaps: dict[int, list[Instant]] = {}
        self._known: set[Coming] = set()
        self._filled: set[int] = set()
        self._gap = asyncio.Event()

    async def add(self, coming: Iterable[Coming]) -> None:
        for one in coming:
            if one not in self._known:
                self._known.add(one)
                heapq.heappush(self._heaps.setdefault(one.shard, []), one.at)
        if len(self._known) > self._most:
            self._keep(heapq.nsmallest(self._most // 2, self._known))

    async def fill(self, shards: Collection[int], coming: Iterable[Coming], now: Instant) -> None:
        # What belongs to somebody else now is nobody's here.
        self._filled = set(shards)
        if any(shard not in self._filled for shard in self._heaps):
            self._keep([one for one in self._known if one.shard in self._filled])
        await self.add(coming)

    async def take(self, shards: Collection[int], until: Instant) -> Instant | None:
        soonest: Instant | None = None
        for shard in shards:
            heap = self._heaps.get(shard, [])
            while heap and heap[0] <= until:
                self._known.discard(Coming(heapq.heappop(heap), shard))
            if heap and (soonest is None or heap[0] < soonest):
                soonest = heap[0]
        if not self._filled.issuperset(shards):
            self._gap.set()
        return soonest

    async def wait_gap(self, timeout: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._gap.wait()
        is_gap = self._gap.is_set()
        self._gap.clear()
        return is_gap

    def _keep(self, kept: Collection[Coming]) -> None:
        self._known = set(kept)
        self._heaps = {}
        for one in sorted(self._known):
            self._heaps.setdefault(one.shard, []).append(one.at)
