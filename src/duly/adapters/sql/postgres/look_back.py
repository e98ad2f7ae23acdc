"""How far back a dispatcher looks for what is due.

Whatever is due stands at the beginning of its index, behind everything that was due before and has moved on. Usually that is gone
at once. While somebody holds an old snapshot nothing of it goes, and each look would walk past all of it: with a thousand fires a
second, ten minutes of an open transaction make a look of half a second. So where a table is full of dead rows most looks go back a
few seconds only, and the whole is looked at when there is nothing else to do, at least every few seconds: whatever was not taken
at its time is found then. The longer that takes, the more seldom it is done.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from duly.adapters.sql.engine import Rows, one
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.domain.instants import SECOND, Instant, Micros

# Before everything.
EVER: Instant = -1
BACK: Micros = 10 * SECOND
CROWDED = 5_000
ASK_EVERY = 5.0
# The whole is looked at this often while nothing else is due, and that often whatever is due.
WHOLE_EVERY = 1.0
WHOLE_AT_LEAST_EVERY = 5.0
# How much of the time it may take at most: a twentieth.
PART_OF_TIME = 20


class LookBack:
    """Looks at one table, of which it knows how many dead rows it has."""

    def __init__(self, engine: PostgresEngine, relation: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._relation = relation
        self._clock = clock
        self._asked_at = float("-inf")
        self._whole_at = float("-inf")
        self._whole_took = 0.0
        self._is_crowded = False

    async def look(self, look: Callable[[Instant], Awaitable[Rows]], count: Callable[[Rows], int], now: Instant) -> Rows:
        """Look at what has become due since an instant: lately, or ever."""
        await self._ask()
        pause = PART_OF_TIME * self._whole_took
        if self._is_crowded and self._clock() < self._whole_at + max(WHOLE_AT_LEAST_EVERY, pause):
            rows = await look(now - BACK)
            if count(rows) or self._clock() < self._whole_at + max(WHOLE_EVERY, pause):
                return rows
        began = self._clock()
        rows = await look(EVER)
        self._whole_took = self._clock() - began
        # As long as the whole has something, it may have more.
        self._whole_at = float("-inf") if count(rows) else self._clock()
        return rows

    async def _ask(self) -> None:
        if self._clock() >= self._asked_at + ASK_EVERY:
            self._is_crowded = one(await self._engine.fetch("dead_rows", {"relation": self._relation}))["dead"] >= CROWDED
            self._asked_at = self._clock()
