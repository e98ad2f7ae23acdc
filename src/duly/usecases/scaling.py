"""How busy pools are, for people and for what starts and stops workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from duly.domain.access import DEFAULT_TENANT_NUMBER, Actor
from duly.domain.ids import id_floor
from duly.domain.instants import MINUTE, SECOND, Instant, Micros
from duly.domain.scaling import Load
from duly.ports.clock import Clock
from duly.ports.scaling import PoolLately, PoolLoads
from duly.ports.store import Insights, ReadyQueue, WorkerRow
from duly.ports.wall import behind_wall

# What came and ended since tells how busy a pool is; of very much, the newest.
LOOK_BACK: Micros = MINUTE
LOOKED_AT = 2_000
COUNTED_TO = 100_000
SAMPLED = 50
QUEUES_SAMPLED = 20


class Scaling:
    """The loads of pools. The tenant of those who run the installation sees all of them, any other its own part."""

    def __init__(self, loads: PoolLoads, insights: Insights, ready: ReadyQueue, clock: Clock) -> None:
        self._looks = loads
        self._insights = insights
        self._ready = ready
        self._clock = clock

    async def loads(self, actor: Actor) -> dict[str, Load]:
        """By the names of the pools that have a live worker, or something to do."""
        tenant = None if actor.tenant == DEFAULT_TENANT_NUMBER else actor.tenant
        with behind_wall(tenant):
            return await self._loads(tenant)

    async def loads_of_all(self) -> dict[str, Load]:
        """Of all tenants together, whoever asks."""
        with behind_wall(None):
            return await self._loads(None)

    async def _loads(self, tenant: int | None) -> dict[str, Load]:
        now = self._clock.now()
        live: dict[str, list[WorkerRow]] = defaultdict(list)
        for worker in await self._insights.workers(now, tenant):
            if worker.lost_at is None and worker.expires_at > now and not worker.about.draining and worker.tenant in (None, tenant):
                live[worker.about.pool].append(worker)
        pools = {route.number: route.pool for route in await self._ready.routes()}
        pending: dict[str, int] = defaultdict(int)
        work = [one for one in await self._ready.work(sorted(pools), COUNTED_TO) if tenant in (None, one.tenant)]
        for one in work:
            pending[pools[one.route]] += one.depth
        waits: dict[str, Instant] = {}
        # Those with the earliest heads: a head start (priority) may hide an older one, which then comes up in a later look.
        for one in sorted(work, key=lambda one: one.head)[:QUEUES_SAMPLED]:
            due = await self._looks.oldest_due(one.route, one.tenant, SAMPLED)
            if due is not None:
                waits[pools[one.route]] = min(due, waits.get(pools[one.route], due))
        lately = await self._looks.lately(tenant, id_floor(now - LOOK_BACK), LOOKED_AT)
        is_all = sum(pool.arrived for pool in lately.values()) < LOOKED_AT
        return {
            name: Load(
                pending=pending.get(name, 0),
                running=sum(worker.running for worker in live.get(name, ())),
                oldest_wait=max(0, now - waits[name]) / SECOND if name in waits and pending.get(name) else 0.0,
                arrivals=_rate(lately[name], LOOK_BACK if is_all else now - lately[name].since) if name in lately else 0.0,
                mean_run=lately[name].mean_run if name in lately else None,
                processes=_processes(live.get(name, ())),
            )
            for name in sorted(live.keys() | pending.keys() | lately.keys())
        }


def _rate(pool: PoolLately, over: Micros) -> float:
    return pool.arrived * SECOND / max(over, SECOND)


def _processes(workers: Sequence[WorkerRow]) -> tuple[tuple[str, int, int], ...]:
    return tuple((worker.about.host, worker.about.pid, worker.about.slots) for worker in workers)
