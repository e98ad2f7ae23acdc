"""What will fire: the schedules of all jobs of a tenant, merged in the order of their times.

Bounded in three ways: so many jobs are read, soonest first; so many fires are computed; so many of one job are shown. Where one
of the bounds cuts in, the answer says up to when it is complete.
"""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, field
from uuid import UUID

from duly.domain.access import Actor
from duly.domain.instants import MINUTE, Instant
from duly.domain.job import Job
from duly.domain.schedule import next_fire
from duly.ports.store import Definitions

MOST_JOBS = 5_000
MOST_FIRES = 20_000
# So often others have their turn while fires are computed.
BREATHE_EVERY = 500


@dataclass(frozen=True, slots=True)
class Window:
    """From when (still in it) until when (no longer)."""

    first: Instant
    until: Instant


@dataclass(slots=True)
class Forecast:
    """Fires with their jobs, in order; exact before `until`. `capped`: jobs that have more fires than are shown."""

    until: Instant
    fires: list[tuple[Instant, Job]] = field(default_factory=list)
    capped: int = 0
    has_more: bool = False


class Upcoming:
    """The use case of those who look ahead."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions

    async def fires(self, actor: Actor, window: Window, per_job: int, after: tuple[Instant, UUID] | None, limit: int) -> Forecast:
        """The first `limit` fires of the window past `after`, at most `per_job` of each job."""
        return await self._merged(actor, window, per_job, after, limit)

    async def minutes(self, actor: Actor, window: Window) -> tuple[Forecast, dict[Instant, int]]:
        """How many fires each minute of the window has, of those that have any."""
        forecast = await self._merged(actor, window, MOST_FIRES + 1, None, MOST_FIRES + 1)
        counts: dict[Instant, int] = {}
        for at, _ in forecast.fires:
            minute = at - at % MINUTE
            counts[minute] = counts.get(minute, 0) + 1
        return forecast, counts

    async def _merged(self, actor: Actor, window: Window, per_job: int, after: tuple[Instant, UUID] | None, limit: int) -> Forecast:
        jobs = await self._definitions.waiting_jobs(actor.tenant, window.until, MOST_JOBS + 1)
        forecast = Forecast(window.until)
        if len(jobs) > MOST_JOBS:
            # Of those that were not read none fires before this one.
            forecast.until = min(forecast.until, jobs.pop().next_fire_at or 0)
        shown = [0] * len(jobs)
        heap = [(at, job.id, nth) for nth, job in enumerate(jobs) if (at := _first(job, window.first)) is not None and at < forecast.until]
        heapq.heapify(heap)
        computed = 0
        while heap:
            at, id, nth = heap[0]
            if len(forecast.fires) == limit:
                forecast.has_more = True
                break
            if computed >= MOST_FIRES:
                forecast.until = min(forecast.until, at)
                forecast.fires = [fire for fire in forecast.fires if fire[0] < at]
                break
            if after is None or (at, id) > after:
                forecast.fires.append((at, jobs[nth]))
            shown[nth] += 1
            computed += 1
            schedule = jobs[nth].version.schedule
            following = None if schedule is None else next_fire(schedule, at)
            if following is None or following >= forecast.until:
                heapq.heappop(heap)
            elif shown[nth] >= per_job:
                forecast.capped += 1
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (following, id, nth))
            if computed % BREATHE_EVERY == 0:
                await asyncio.sleep(0)
        return forecast


def _first(job: Job, first: Instant) -> Instant | None:
    """The job's first fire at or after an instant. The one it waits for comes first, whatever its schedule says."""
    if job.next_fire_at is None or job.next_fire_at >= first:
        return job.next_fire_at
    schedule = job.version.schedule
    return None if schedule is None else next_fire(schedule, first - 1)
