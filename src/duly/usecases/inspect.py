"""Where everything stands: workers, pools, counts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from duly.domain.access import DEFAULT_TENANT_NUMBER, Actor
from duly.domain.history import Change
from duly.domain.instants import DAY, HOUR, MINUTE, Instant
from duly.domain.lifecycle import JobState, State
from duly.ports.clock import Clock
from duly.ports.search import Ended, Lately, Search
from duly.ports.store import Insights, WorkerRow

# So many of the newest executions tell what the last hour was like.
LOOKED_AT = 5_000
# A day has no more minutes in which jobs were changed, paused or resumed.
MOST_CHANGES = 3 * DAY // MINUTE


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool with what waits, what runs and who serves it."""

    name: str
    workers: int
    slots: int
    pending: int
    running: int
    oldest_rank: Instant | None


@dataclass(frozen=True, slots=True)
class Counts:
    """How many jobs, executions and live workers there are."""

    jobs: dict[JobState, int]
    executions: dict[State, int]
    workers: int
    pools: list[Pool]
    lately: Lately


class Fleet:
    """The use cases on workers and pools."""

    def __init__(self, insights: Insights, search: Search, clock: Clock) -> None:
        self._insights = insights
        self._search = search
        self._clock = clock

    async def workers(self, actor: Actor) -> list[WorkerRow]:
        """Live ones, and lost ones of the last hour: those of the tenant, and those that serve every tenant.

        What they run is the tenant's own work alone. Where those that serve everybody run is for the tenant of those who run
        the installation; the others learn what they offer.
        """
        found = await self._insights.workers(self._clock.now(), actor.tenant)
        is_host = actor.tenant == DEFAULT_TENANT_NUMBER
        return [
            worker if is_host or worker.tenant is not None else replace(worker, about=replace(worker.about, host="", pid=0))
            for worker in found
            if worker.tenant in (None, actor.tenant)
        ]

    def is_live(self, worker: WorkerRow) -> bool:
        """Whether it may still hold work."""
        return worker.lost_at is None and worker.expires_at > self._clock.now()

    async def pools(self, actor: Actor) -> list[Pool]:
        """Every pool that has a live worker or ready work of the tenant's. What waits and what runs is the tenant's own."""
        live: dict[str, list[WorkerRow]] = defaultdict(list)
        for worker in await self.workers(actor):
            if self.is_live(worker):
                live[worker.about.pool].append(worker)
        ready = {pool: (pending, oldest) for pool, pending, oldest in await self._insights.ready_by_pool(actor.tenant)}
        return [
            Pool(
                name=name,
                workers=len(live[name]) if name in live else 0,
                slots=sum(worker.about.slots for worker in live.get(name, ())),
                pending=ready.get(name, (0, None))[0],
                running=sum(worker.running for worker in live.get(name, ())),
                oldest_rank=ready.get(name, (0, None))[1],
            )
            for name in sorted(live.keys() | ready.keys())
        ]

    async def counts(self, actor: Actor) -> Counts:
        """Where the tenant's jobs and executions stand, and what the last hour has brought.

        Live executions are counted where they stand and dead ones along their own small index. Of the last hour so many are
        looked at, newest first, and no more.
        """
        now = self._clock.now()
        pools = await self.pools(actor)
        return Counts(
            await self._insights.job_counts(actor.tenant, now),
            await self._insights.standing_counts(actor.tenant),
            sum(pool.workers for pool in pools),
            pools,
            await self._search.lately(actor.tenant, now - HOUR, LOOKED_AT),
        )

    async def ended(self, actor: Actor, since: Instant) -> tuple[Instant, list[Ended]]:
        """How the tenant's newest executions ended, of as many as are looked at, and since when these are all of them."""
        return await self._search.ended(actor.tenant, since, LOOKED_AT)

    async def changes(self, actor: Actor, since: Instant) -> list[Change]:
        """When the tenant's jobs were changed, paused and resumed: what else may have made a difference."""
        return await self._search.changes(actor.tenant, since, MOST_CHANGES)
