"""All metrics at one moment: what this process has counted, and what the store says when it is asked."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from duly.domain.alerts.judge import SHORTEST_OVERRUN, overrun_after
from duly.domain.alerts.rule import FACTOR
from duly.domain.errors import Unavailable
from duly.domain.ids import JobId
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.lifecycle import State
from duly.domain.metrics import Family, Metric, Sample
from duly.domain.metrics import catalogue as found
from duly.domain.metrics.tables import capped
from duly.domain.scaling import Goal, Load, recommended, together
from duly.ports.clock import Clock
from duly.ports.dispatch import Leases, ShardLease
from duly.ports.figures import Figures
from duly.ports.readings import Readings
from duly.ports.scaling import PoolLoads
from duly.ports.store import Health, Insights, ReadyQueue
from duly.ports.telemetry import NoTelemetry, Telemetry
from duly.ports.wall import behind_wall
from duly.usecases.scaling import Scaling

log = logging.getLogger("duly.metrics")

# What was read is good for so long: two servers that scrape at once ask the store once.
FRESH_FOR: Micros = SECOND
# A store that takes longer than this is not waited for: its numbers are left out, and that it is away is said.
PATIENCE = 5.0
STANDING_COUNTED_TO = 1_000_000
LETTERS_COUNTED_TO = 10_000
DEPTH_COUNTED_TO = 100_000
MISSING_COUNTED_TO = 10_000
# Of so many, those that have run longest, it is asked whether they overrun.
RUNS_SAMPLED = 500
# Of so many queues, those with the earliest heads, the wait is looked up.
QUEUES_SAMPLED = 50
SAMPLED = 20
_LEAST_SLOTS = 1


@dataclass(frozen=True, slots=True)
class Reading:
    """What a store says of itself."""

    took: Micros
    standing: Mapping[State, int]
    letters: int
    missing: int
    overruns: int
    depths: Mapping[tuple[str, ...], int]
    waits: Mapping[tuple[str, ...], float]
    tenants: Mapping[str, tuple[int, float]]
    loads: Mapping[str, Load]
    longest: Mapping[str, float]
    dispatchers: int
    shards: Sequence[ShardLease]
    now: Instant


class StoreMetrics:
    """What one store says, kept for a moment. Nobody waits for it longer than `PATIENCE`."""

    def __init__(
        self,
        name: str,
        readings: Readings,
        ready: ReadyQueue,
        loads: PoolLoads,
        insights: Insights,
        leases: Leases,
        figures: Figures,
        health: Health,
        clock: Clock,
        *,
        by_tenant: bool = False,
    ) -> None:
        self.name = name
        self._readings = readings
        self._ready = ready
        self._looks = loads
        self._scaling = Scaling(loads, insights, ready, clock)
        self._insights = insights
        self._leases = leases
        self._figures = figures
        self._health = health
        self._clock = clock
        self._by_tenant = by_tenant
        self._lock = asyncio.Lock()
        self._read_at: Micros | None = None
        self._last: Reading | None = None

    async def read(self) -> Reading | None:
        """What it says, not older than a second; None while it is away."""
        async with self._lock:
            now = self._clock.boottime()
            if self._read_at is None or now - self._read_at >= FRESH_FOR:
                self._last, self._read_at = await self._read_or_not(), now
            return self._last

    async def ping(self) -> Micros | None:
        """How long it took to answer; None when it does not."""
        asked = self._clock.boottime()
        try:
            async with asyncio.timeout(PATIENCE):
                await self._health.ping()
        except (Unavailable, TimeoutError) as error:
            log.warning("metrics: the store %s does not answer: %s", self.name, error)
            return None
        return self._clock.boottime() - asked

    async def _read_or_not(self) -> Reading | None:
        took = await self.ping()
        if took is None:
            return None
        try:
            # Over all tenants, whoever asks.
            with behind_wall(None):
                async with asyncio.timeout(PATIENCE):
                    return await self._read(took)
        except (Unavailable, TimeoutError) as error:
            log.warning("metrics: the store %s does not answer: %s", self.name, error)
            return None

    async def _read(self, took: Micros) -> Reading:
        now = self._clock.now()
        routes = {route.number: (route.pool, route.labels, route.handler) for route in await self._ready.routes()}
        work = await self._ready.work(sorted(routes), DEPTH_COUNTED_TO)
        depths: dict[tuple[str, ...], int] = defaultdict(int)
        waits: dict[tuple[str, ...], float] = {}
        tenants: dict[int, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
        for one in work:
            depths[routes[one.route]] += one.depth
            count, wait = tenants[one.tenant]
            tenants[one.tenant] = (count + one.depth, wait)
        for one in sorted(work, key=lambda one: one.head)[:QUEUES_SAMPLED]:
            due = await self._looks.oldest_due(one.route, one.tenant, SAMPLED)
            if due is not None:
                waited = max(0, now - due) / SECOND
                waits[routes[one.route]] = max(waited, waits.get(routes[one.route], 0.0))
                count, wait = tenants[one.tenant]
                tenants[one.tenant] = (count, max(waited, wait))
        pools = {worker.id: worker.about.pool for worker in await self._insights.workers(now, None)}
        longest: dict[str, float] = {}
        for worker, since in (await self._readings.oldest_leases()).items():
            pool = pools.get(worker, found.OTHER)
            longest[pool] = max(longest.get(pool, 0.0), max(0, now - since) / SECOND)
        names = await self._readings.tenant_names(sorted(tenants)) if self._by_tenant else {}
        return Reading(
            took,
            await self._readings.standing(STANDING_COUNTED_TO),
            await self._readings.open_letters(LETTERS_COUNTED_TO),
            await self._readings.missing_fires(MISSING_COUNTED_TO),
            await self._overruns(now),
            depths,
            waits,
            {names[number]: load for number, load in tenants.items() if number in names},
            await self._scaling.loads_of_all(),
            longest,
            len(await self._leases.dispatchers(now)),
            await self._leases.shards(),
            now,
        )

    async def _overruns(self, now: Instant) -> int:
        """How many run for longer than a rule of the kind `overrun` lets them that says nothing else."""
        began: dict[int, list[tuple[JobId, Instant]]] = defaultdict(list)
        for tenant, job_id, since in await self._readings.long_runs(now - SHORTEST_OVERRUN, RUNS_SAMPLED):
            began[tenant].append((job_id, since))
        count = 0
        for tenant, runs in began.items():
            expected = await self._figures.expected(tenant, sorted({job_id for job_id, _ in runs}))
            count += sum(now - since > overrun_after(expected[job_id], FACTOR) for job_id, since in runs if job_id in expected)
        return count


class Metrics:
    """The use case. `own` are gauges of this process; a worker reads nothing of the store, for every worker would read the same."""

    def __init__(
        self,
        telemetry: Telemetry | None = None,
        stores: Sequence[StoreMetrics] = (),
        own: Callable[[], Iterable[Family]] = tuple,
        *,
        reads: bool = True,
    ) -> None:
        self._telemetry = telemetry or NoTelemetry()
        self._stores = stores
        self._own = own
        self._reads = reads

    async def gather(self) -> list[Family]:
        """Every metric there is at this moment, in the order of the catalogue. For those who run the installation: it is of all tenants."""
        families = [*self._telemetry.families(), *self._own()]
        read: list[Reading] = []
        up, took = [], []
        for store in self._stores:
            reading = await store.read() if self._reads else None
            ping = reading.took if reading is not None else None if self._reads else await store.ping()
            up.append(Sample((store.name,), 0 if ping is None else 1))
            if ping is not None:
                took.append(Sample((store.name,), ping / SECOND))
            if reading is not None:
                read.append(reading)
        families += [Family(found.STORE_UP, up), Family(found.STORE_PING, took)]
        families += _together(read) if read else []
        order = {metric: place for place, metric in enumerate(found.CATALOGUE)}
        return sorted((family for family in families if family.samples), key=lambda family: order[family.metric])


def pool_families(loads: Mapping[str, Load]) -> list[Family]:
    """The loads of pools. No label says whose work it is."""
    return [
        capped(metric, [Sample((pool,), read(load)) for pool, load in loads.items()])
        for metric, read in (
            (found.POOL_PENDING, lambda load: load.pending),
            (found.POOL_RUNNING, lambda load: load.running),
            (found.POOL_OLDEST, lambda load: round(load.oldest_wait, 3)),
            (found.POOL_WORKERS, lambda load: load.workers),
            (found.POOL_SLOTS, lambda load: load.slots),
            (found.POOL_REPLICAS, lambda load: recommended(load, Goal(slots_per_worker=usual_slots(load)))),
        )
    ]


def usual_slots(load: Load) -> int:
    """How many slots a worker of this pool has, as far as there are workers."""
    return max(_LEAST_SLOTS, load.slots // load.workers) if load.workers else Goal().slots_per_worker


def _together(read: Sequence[Reading]) -> list[Family]:
    """Of several stores one number wherever it can be one."""
    loads = {name for each in read for name in each.loads}
    pools = {pool: together(each.loads[pool] for each in read if pool in each.loads) for pool in sorted(loads)}
    held = [lease.owner is not None and lease.lease_until > each.now for each in read for lease in each.shards]
    epochs: dict[int, int] = defaultdict(int)
    for each in read:
        for lease in each.shards:
            epochs[lease.shard] = max(epochs[lease.shard], lease.epoch)
    return [
        Family(found.STANDING, [Sample((state.name,), sum(each.standing[state] for each in read)) for state in read[0].standing]),
        Family(found.DEAD_LETTERS, [Sample((), sum(each.letters for each in read))]),
        Family(found.MISSING, [Sample((), sum(each.missing for each in read))]),
        Family(found.OVERRUNS, [Sample((), sum(each.overruns for each in read))]),
        _family(found.DEPTH, [each.depths for each in read], sum),
        _family(found.OLDEST, [each.waits for each in read], max),
        *pool_families(pools),
        _family(found.POOL_LONGEST, [{(pool,): age for pool, age in each.longest.items()} for each in read], max),
        Family(found.DISPATCHERS, [Sample((), sum(each.dispatchers for each in read))]),
        Family(found.SHARDS, [Sample(("owned",), sum(held)), Sample(("free",), len(held) - sum(held))]),
        Family(found.EPOCHS, [Sample((str(shard),), epoch) for shard, epoch in sorted(epochs.items())]),
        _family(found.TENANT_PENDING, [{(name,): load[0] for name, load in each.tenants.items()} for each in read], sum),
        _family(found.TENANT_OLDEST, [{(name,): load[1] for name, load in each.tenants.items()} for each in read], max),
    ]


def _family(metric: Metric, tables: Sequence[Mapping[tuple[str, ...], float]], of: Callable[[list[float]], float]) -> Family:
    keys = sorted({key for table in tables for key in table})
    return capped(metric, [Sample(key, of([table[key] for table in tables if key in table])) for key in keys])
