"""What was looked up for one rule and serves the next: rules about the same jobs, judged at one instant, share what is read of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from duly.domain.alerts.facts import PoolFacts, Run, Watched, WorkerFacts
from duly.domain.alerts.rule import Kind
from duly.domain.expected import Expected
from duly.domain.fire_audit import Missed
from duly.domain.ids import ExecutionId, JobId, id_floor
from duly.domain.instants import DAY, Instant, Micros
from duly.ports.alerts import AlertFacts
from duly.ports.figures import Figures

# So far back runs are looked at, and so many of each job.
LOOK_BACK: Micros = 35 * DAY
RUNS_OF_JOB = 200
MOST_MISSED = 1000


class Looks:
    """Everything as it was read at one instant, each thing once. Nothing here outlives a step of whoever judges."""

    def __init__(self, facts: AlertFacts, figures: Figures, now: Instant) -> None:
        self.facts = facts
        self.now = now
        self._figures = figures
        self._named: dict[tuple[int, str], list[Watched]] = {}
        self._runs: dict[JobId, list[Run]] = {}
        self._around: dict[JobId, list[Run]] = {}
        self._deaths: dict[tuple[int, Instant], dict[JobId, list[Run]]] = {}
        self._successes: dict[JobId, Instant | None] = {}
        self._missed: dict[int, list[Missed]] = {}
        self._pools: dict[int, list[PoolFacts]] = {}
        self._workers: dict[tuple[int, Instant], list[WorkerFacts]] = {}

    @property
    def first(self) -> ExecutionId:
        """How far back runs are looked at."""
        return id_floor(self.now - LOOK_BACK)

    async def ahead(self, tenant: int, names: Iterable[str], kinds: Iterable[Kind]) -> None:
        """What rules about these jobs will ask, asked at once."""
        jobs = await self.jobs_named(tenant, list(dict.fromkeys(names)))
        if any(kind is not Kind.NO_SUCCESS for kind in kinds):
            await self.runs(tenant, [job.id for job in jobs])

    async def jobs_named(self, tenant: int, names: Sequence[str]) -> list[Watched]:
        """Live jobs of these names."""
        unknown = [name for name in names if (tenant, name) not in self._named]
        if unknown:
            self._named |= {(tenant, name): [] for name in unknown}
            for job in await self.facts.jobs_named(tenant, unknown, self.now):
                self._named[tenant, job.name].append(job)
        return [job for name in names for job in self._named[tenant, name]]

    async def runs(self, tenant: int, jobs: Sequence[JobId]) -> dict[JobId, list[Run]]:
        """The newest runs of these jobs."""
        unknown = [id for id in jobs if id not in self._runs]
        if unknown:
            self._runs |= await self.facts.runs(tenant, unknown, self.first, RUNS_OF_JOB)
        return {id: self._runs[id] for id in jobs}

    async def runs_around(self, tenant: int, job: JobId, run: ExecutionId) -> list[Run]:
        """A run and its neighbours."""
        if job not in self._around:
            self._around[job] = await self.facts.runs_around(tenant, job, run, self.first, RUNS_OF_JOB // 2)
        return self._around[job]

    async def deaths(self, tenant: int, since: Instant) -> Mapping[JobId, list[Run]]:
        """What has died since."""
        if (tenant, since) not in self._deaths:
            self._deaths[tenant, since] = await self.facts.deaths(tenant, since)
        return self._deaths[tenant, since]

    async def successes(self, tenant: int, jobs: Sequence[JobId]) -> dict[JobId, Instant | None]:
        """When these jobs succeeded last."""
        unknown = [id for id in jobs if id not in self._successes]
        if unknown:
            self._successes |= await self.facts.successes(tenant, unknown, self.first)
        return {id: self._successes[id] for id in jobs}

    async def missed(self, tenant: int) -> list[Missed]:
        """Fires that the auditor misses."""
        if tenant not in self._missed:
            self._missed[tenant] = await self.facts.missed(tenant, MOST_MISSED)
        return self._missed[tenant]

    async def pools(self, tenant: int) -> list[PoolFacts]:
        """What waits in pools."""
        if tenant not in self._pools:
            self._pools[tenant] = await self.facts.pools(tenant, self.now)
        return self._pools[tenant]

    async def workers(self, tenant: int, since: Instant) -> list[WorkerFacts]:
        """Who lives, and who fell silent since."""
        if (tenant, since) not in self._workers:
            self._workers[tenant, since] = await self.facts.workers(tenant, since, self.now)
        return self._workers[tenant, since]

    async def expected(self, tenant: int, jobs: Sequence[JobId]) -> dict[JobId, Expected]:
        """How long these jobs mostly take."""
        return await self._figures.expected(tenant, jobs)
