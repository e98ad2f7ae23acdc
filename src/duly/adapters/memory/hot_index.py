"""The hot index in memory: a heap of instants."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from duly.domain.instants import Instant

MOST = 100_000


class MemoryHotIndex:
    """Instants, each once. When there are too many, the farthest are forgotten: the hydrator brings them back in time."""

    def __init__(self) -> None:
        self._heap: list[Instant] = []
        self._known: set[Instant] = set()

    async def add(self, instants: Sequence[Instant]) -> None:
        for instant in instants:
            if instant not in self._known:
                self._known.add(instant)
                heapq.heappush(self._heap, instant)
        if len(self._heap) > MOST:
            self._heap = heapq.nsmallest(MOST // 2, self._heap)
            self._known = set(self._heap)

    async def take_due(self, now: Instant) -> int:
        taken = 0
        while self._heap and self._heap[0] <= now:
            self._known.discard(heapq.heappop(self._heap))
            taken += 1
        return taken

    async def next_due(self) -> Instant | None:
        return self._heap[0] if self._heap else None

    async def clear(self) -> None:
        self._heap.clear()
        self._known.clear()
