"""Where everything stands: workers, pools, counts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from duly.domain.access import Actor
from duly.domain.instants import Instant
from duly.domain.lifecycle import JobState, State
from duly.ports.clock import Clock
from duly.ports.store import Insights, WorkerRow


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


class Fleet:
    """The use cases on workers and pools."""

    def __init__(self, insights: Insights, clock: Clock) -> None:
        self._insights = insights
        self._clock = clock

    async def workers(self, actor: Actor) -> list[WorkerRow]:
        """Live ones, and lost ones of the last hour: those of the tenant, and those that serve every tenant."""
        return [worker for worker in await self._insights.workers(self._clock.now()) if worker.tenant in (None, actor.tenant)]

    def is_live(self, worker: WorkerRow) -> bool:
        """Whether it may still hold work."""
        return worker.lost_at is None and worker.expires_at > self._clock.now()

    async def pools(self, actor: Actor) -> list[Pool]:
        """Every pool that has a live worker or ready work."""
        live: dict[str, list[WorkerRow]] = defaultdict(list)
        for worker in await self.workers(actor):
            if self.is_live(worker):
                live[worker.about.pool].append(worker)
        ready = {pool: (pending, oldest) for pool, pending, oldest in await self._insights.ready_by_pool()}
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
        """Where the tenant's jobs and executions stand."""
        workers = [worker for worker in await self.workers(actor) if self.is_live(worker)]
        return Counts(
            await self._insights.job_counts(actor.tenant, self._clock.now()),
            await self._insights.standing_counts(actor.tenant),
            len(workers),
        )
