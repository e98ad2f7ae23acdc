"""Partitions that roll within the run: days long gone are made, filled, used and dropped while everything else goes on.

Partitions are days, and a day does not pass in an hour. But a partition is chosen by the time in an execution's id, and executions
with old ids are common: whatever was enqueued long ago and is due now. So each round makes the partitions of a day in the past,
submits executions whose ids are of that day and which are due now, lets the workers run them, and drops the oldest such day, all of
it through the product's own ports. Some are still waiting when their day is dropped: those must be kept, run, and go later.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field

import asyncpg

from duly.adapters.sql.engine import one
from duly.adapters.system.clock import system_entropy
from duly.compose import Node
from duly.domain.access import DEFAULT_TENANT, DEFAULT_TENANT_NUMBER, Actor, Role
from duly.domain.errors import DulyError
from duly.domain.ids import new_ids
from duly.domain.instants import DAY, SECOND, Instant, Micros, to_rfc3339
from duly.domain.job import Job
from duly.usecases.executions import Wanted, headers

ACTOR = Actor(DEFAULT_TENANT_NUMBER, DEFAULT_TENANT, Role.ADMIN, "soak")
DAYS_BACK = 3000
DAYS_KEPT = 5
PER_DAY = 200
# Of those: due only when their day is gone.
LATE_PER_DAY = 10
BATCH = 500
MOST_STEPS = 40


@dataclass(slots=True)
class Rolls:
    """What was done, and how long each of it took, in milliseconds."""

    counts: Counter[str] = field(default_factory=Counter)
    made: list[float] = field(default_factory=list)
    dropped: list[float] = field(default_factory=list)


class Roller:
    """The days of one run. On a store without partitions it only prunes."""

    def __init__(self, node: Node, keep: Micros, every: float) -> None:
        self._node = node
        self._keep = keep
        self._every = every
        self._days: list[Instant] = []
        self.rolls = Rolls()

    async def run(self, stop: asyncio.Event) -> None:
        """Round after round until `stop`. What the store refuses is counted; its loop would try again, as we do."""
        job = await self._node.jobs.named(ACTOR, "churn")
        assert job is not None
        next_day = self._node.clock.now() // DAY * DAY - DAYS_BACK * DAY
        while not stop.is_set():
            began = time.monotonic()
            try:
                if await self._timed(self._node.store.retention.prepare(next_day, 0), self.rolls.made):
                    self._days.append(next_day)
                    await self._fill(job, next_day)
                    next_day += DAY
                await self._prune()
            except (asyncpg.PostgresError, DulyError) as error:
                self.rolls.counts[f"refused: {type(error).__name__}"] += 1
            await _wait(stop, self._every - (time.monotonic() - began))

    async def _fill(self, job: Job, day: Instant) -> None:
        """Executions whose ids are of that day: most are due now, some only when their day is gone."""
        self.rolls.counts["days made"] += 1
        now = self._node.clock.now()
        late = now + round(self._every * (DAYS_KEPT + 2) * SECOND)
        wanted = [Wanted(payload="{}")] * (PER_DAY - LATE_PER_DAY) + [Wanted(payload="{}", run_at=late)] * LATE_PER_DAY
        ids = new_ids(PER_DAY, day + DAY // 2, system_entropy)
        new = headers(job, wanted, now, system_entropy)
        await self._node.executions.submit([item._replace(id=id) for item, id in zip(new, ids, strict=True)])

    async def _prune(self) -> None:
        """As the pruner does, step by step; but one day a round, so that some stay for a while."""
        retention = self._node.store.retention
        for _ in range(MOST_STEPS):
            now = self._node.clock.now()
            if self._days and len(self._days) <= DAYS_KEPT:
                return
            pruned = await self._timed(retention.prune(now - self._keep, now, BATCH), self.rolls.dropped)
            self.rolls.counts["pruned"] += pruned
            self.rolls.counts["days dropped"] += await self._forget_dropped()
            if not pruned:
                self.rolls.counts["nothing to prune, or somebody reads it"] += 1
                return

    async def _forget_dropped(self) -> int:
        """Days that are gone, by our hand or another pruner's."""
        if not self._days:
            return 0
        oldest = one(await self._node.engine.fetch("oldest_partition", {}))["day"]
        left = [day for day in self._days if oldest is not None and to_rfc3339(day)[:10].replace("-", "") >= oldest]
        gone = len(self._days) - len(left)
        self._days = left
        return gone

    async def _timed(self, act: Awaitable[int], times: list[float]) -> int:
        began = time.perf_counter()
        try:
            return await act
        finally:
            times.append((time.perf_counter() - began) * 1000)


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), max(seconds, 0.01))
    except TimeoutError:
        return
