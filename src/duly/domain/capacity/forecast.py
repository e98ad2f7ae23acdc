"""The question and its answer: will they start on time, when is it worst, what would do, and what has the database to take?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from heapq import heappop, heappush

from duly.domain.capacity.costs import Fleet, PoolSize, UnitCosts
from duly.domain.capacity.figures import Lateness
from duly.domain.capacity.load import MOST_UNITS, Expected, LoadClass, Progress, Slice, alike, expect
from duly.domain.capacity.simulation import Run, Simulation
from duly.domain.capacity.stations import Pool, Station
from duly.domain.errors import Invalid
from duly.domain.instants import DAY, MINUTE, SECOND, Instant, Micros

# From here on there is little room for what a forecast does not know.
TIGHT = 0.8
# A minute in which this share of what there is was used is a minute in which it did not suffice.
FULL = 0.98
UNLIMITED = PoolSize(1000, 1_000_000)


class Verdict(StrEnum):
    """`fine`; `tight`: it holds, with less than a fifth to spare; `short`: it does not suffice."""

    FINE = "fine"
    TIGHT = "tight"
    SHORT = "short"


class Lack(StrEnum):
    """What a pool that starts its work too late lacks most."""

    WORKERS = "workers"
    SLOTS = "slots"
    PROCESSES = "processes"
    WORKER_CORES = "worker cores"
    DATABASE_CORES = "database cores"
    SERVERS = "servers"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A load, a fleet and what they cost; on time is who starts within `tolerance`, 99 of 100 of them."""

    classes: Sequence[LoadClass]
    fleet: Fleet
    costs: UnitCosts
    begin: Instant
    horizon: Micros = DAY
    tolerance: Micros = SECOND
    retention: Micros = 30 * DAY
    seed: int = 1
    most_units: int = MOST_UNITS

    def __post_init__(self) -> None:
        if not self.classes:
            raise Invalid("DULY-E281", "there are no jobs to plan for.", field="classes")
        if self.tolerance <= 0:
            raise Invalid("DULY-E284", "must be longer than nothing.", field="tolerance")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolForecast:
    """One pool. `needed`: how many slots would do, where there are too few. `spreading`: those there are would do, were fires spread."""

    pool: str
    size: PoolSize
    verdict: Verdict
    lack: Lack
    fires: int
    done: int
    dead: int
    skipped: int
    stopped: int
    retries: int
    running: int
    p50: Micros
    p95: Micros
    p99: Micros
    latest: Micros
    worst_minute: Instant
    deepest: int
    deepest_at: Instant
    most_busy: int
    most_busy_at: Instant
    mean_busy: float
    loop_use: float
    needed: int | None = None
    needed_at: Instant | None = None
    spreading: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Processors: how many, what share of them is used in the worst minute and over all, and when that minute is."""

    cores: float
    worst: float
    worst_minute: Instant
    mean: float

    @property
    def verdict(self) -> Verdict:
        """Whether they suffice."""
        return Verdict.SHORT if self.worst >= FULL else Verdict.TIGHT if self.worst >= TIGHT else Verdict.FINE


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The answer. Rates are for a second; those of `worst` are the mean of the worst minute."""

    begin: Instant
    end: Instant
    grain: int
    jobs: int
    due: int
    waiting: int
    pools: list[PoolForecast]
    database: Use
    workers: Use
    dispatchers: Use
    commits: float
    worst_commits: float
    log: float
    worst_log: float
    log_a_day: float
    disk_a_day: float
    disk: float
    retention: Micros
    connections: int
    one_machine: bool
    notes: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        """The worst of all verdicts."""
        verdicts = [self.database.verdict, self.workers.verdict, *(pool.verdict for pool in self.pools)]
        return next((verdict for verdict in (Verdict.SHORT, Verdict.TIGHT) if verdict in verdicts), Verdict.FINE)


def forecast(question: Question, progress: Progress = lambda share: None) -> Forecast:
    """Simulate. Where slots are too few, once more with as many as anybody could want, to see how many would do."""
    classes = alike(question.classes)
    begin, end = question.begin, question.begin + question.horizon
    expected = expect(classes, begin, end, question.seed, question.most_units, progress)
    run = Simulation(expected, question.fleet, question.costs, begin, end, question.seed).run(lambda share: progress(0.25 + share / 2))
    late = [name for name, pool in run.pools.items() if pool.lateness.quantile(0.99) > question.tolerance]
    free = _with_every_slot(question, expected, late, progress) if late else None
    pools = [_of_pool(question, run, name, None if free is None or name not in late else free) for name in run.pools]
    return _answer(question, expected, run, pools)


def _with_every_slot(question: Question, expected: Expected, late: list[str], progress: Progress) -> Run:
    fleet, begin = question.fleet, question.begin
    roomy = replace(fleet, pools=fleet.pools | dict.fromkeys(late, UNLIMITED))
    fresh = [Slice(one.load, one.size, one.offset, one.width) for one in expected.slices]
    again = Expected(fresh, expected.dues, expected.grain)
    return Simulation(again, roomy, question.costs, begin, begin + question.horizon, question.seed).run(
        lambda share: progress(0.75 + share / 4)
    )


def _of_pool(question: Question, run: Run, name: str, free: Run | None) -> PoolForecast:
    pool, minutes, length = run.pools[name], _minutes(question.horizon), min(MINUTE, question.horizon)
    size, lateness = pool.size, pool.lateness
    loop_use = pool.loop.minutes.top(minutes)[0] / (length * pool.loop.rate)
    needed, needed_at, spreading = None, None, False
    lack, verdict = Lack.NOTHING, Verdict.FINE
    if free is not None:
        verdict = Verdict.SHORT
        roomy = free.pools[name]
        needed, needed_at = least_slots(roomy, question.tolerance), roomy.slots_used.at
        spreading = size.total > 0 and roomy.slot_time.hourly(minutes) / length < TIGHT * size.total
        lack = _lack(question, run, pool, loop_use, needed)
        if lack is not Lack.SLOTS:
            needed = needed if lack is Lack.WORKERS else None
            spreading = spreading and lack is not Lack.WORKERS
    elif pool.fires and (pool.slots_used.most >= TIGHT * size.total or loop_use >= TIGHT):
        verdict = Verdict.TIGHT
    late_by_minute = pool.late_by_minute
    worst = max(late_by_minute, key=lambda minute: (late_by_minute[minute], -minute)) if late_by_minute else 0
    return PoolForecast(
        pool=name,
        size=size,
        verdict=verdict,
        lack=lack,
        fires=pool.fires,
        done=pool.done,
        dead=pool.dead,
        skipped=pool.skipped,
        stopped=pool.stopped,
        retries=pool.retries,
        running=pool.running,
        p50=lateness.quantile(0.5),
        p95=lateness.quantile(0.95),
        p99=lateness.quantile(0.99),
        latest=lateness.most,
        worst_minute=run.begin + worst * MINUTE,
        deepest=pool.depths.most,
        deepest_at=pool.depths.at,
        most_busy=pool.slots_used.most,
        most_busy_at=pool.slots_used.at,
        mean_busy=sum(pool.slot_time.amounts.values()) / question.horizon,
        loop_use=loop_use,
        needed=needed,
        needed_at=needed_at,
        spreading=spreading,
    )


def _lack(question: Question, run: Run, pool: Pool, loop_use: float, needed: int) -> Lack:
    minutes, length = _minutes(question.horizon), min(MINUTE, question.horizon)
    uses = {
        Lack.DATABASE_CORES: _use(run.database, minutes, length).worst,
        Lack.WORKER_CORES: _use(run.workers, minutes, length).worst,
        Lack.PROCESSES: loop_use,
        Lack.SERVERS: run.dispatching.top(minutes)[0] / (length * question.fleet.servers),
    }
    if pool.size.total == 0:
        return Lack.WORKERS
    if needed > pool.size.total:
        return Lack.SLOTS
    return max(uses, key=lambda lack: uses[lack])


def least_slots(pool: Pool, tolerance: Micros) -> int:
    """The least number of slots with which 99 of 100 wait no longer than that, first come, first served."""
    asked = sorted(pool.asked)
    low, high = 0, max(pool.slots_used.most, 1)
    while high - low > max(1, high // 200):
        middle = (low + high) // 2
        if _wait(asked, middle) > tolerance:
            low = middle
        else:
            high = middle
    return high


def _wait(asked: Sequence[tuple[float, float, int]], slots: int) -> Micros:
    """How long 99 of 100 wait at most with so many slots."""
    waits = Lateness()
    taken: list[tuple[float, int]] = []
    free = slots
    for ready, held, wanted in asked:
        while wanted > 0:
            now = ready
            while taken and taken[0][0] <= now:
                free += heappop(taken)[1]
            if free <= 0:
                now, given_back = heappop(taken)
                free += given_back
            share = min(wanted, free)
            free -= share
            wanted -= share
            waits.add(max(round(now - ready), 0), share)
            heappush(taken, (max(now, ready) + held, share))
    return waits.quantile(0.99)


def _use(station: Station, minutes: int, length: Micros) -> Use:
    most, at = station.minutes.top(minutes)
    horizon = minutes * length
    return Use(cores=station.rate, worst=most / (length * station.rate), worst_minute=at, mean=station.spent / (horizon * station.rate))


def _answer(question: Question, expected: Expected, run: Run, pools: list[PoolForecast]) -> Forecast:
    horizon, costs, fleet = question.horizon, question.costs, question.fleet
    minutes, length = _minutes(horizon), min(MINUTE, horizon)
    seconds, days = horizon / SECOND, horizon / DAY
    jobs = sum(load.jobs for load in question.classes)
    payloads = sum(expected.slices[number].size * expected.slices[number].load.payload_bytes for _, number in expected.dues)
    rows = run.due * costs.execution_disk + payloads + run.attempts_failed * costs.attempt_disk
    idle_commits, idle_log = fleet.processes * costs.idle_commits, fleet.processes * costs.idle_log
    log = sum(run.log.amounts.values()) / seconds + idle_log
    firing, firing_at = run.dispatching.top(minutes)
    return Forecast(
        begin=run.begin,
        end=run.end,
        grain=expected.grain,
        jobs=jobs,
        due=run.due,
        waiting=run.waiting,
        pools=pools,
        database=_use(run.database, minutes, length),
        workers=_use(run.workers, minutes, length),
        dispatchers=Use(
            cores=fleet.servers,
            worst=firing / (length * fleet.servers),
            worst_minute=firing_at,
            mean=sum(run.dispatching.amounts.values()) / (horizon * fleet.servers),
        ),
        commits=sum(run.commits.amounts.values()) / seconds + idle_commits,
        worst_commits=run.commits.top(minutes)[0] / (length / SECOND) + idle_commits,
        log=log,
        worst_log=run.log.top(minutes)[0] / (length / SECOND) + idle_log,
        log_a_day=log * DAY / SECOND,
        disk_a_day=rows / days,
        disk=rows / days * question.retention / DAY + jobs * costs.job_disk,
        retention=question.retention,
        connections=fleet.servers * costs.server_connections
        + sum(size.workers for size in fleet.pools.values()) * costs.worker_connections,
        one_machine=fleet.one_machine,
        notes=_notes(expected, run),
    )


def _notes(expected: Expected, run: Run) -> list[str]:
    notes = []
    if expected.grain > 1:
        notes.append(f"jobs were followed in groups of up to {expected.grain:,}: single figures below that number are rounded")
    if run.waiting:
        notes.append(f"{run.waiting:,} executions wait when the time is over: a longer horizon may show longer waits")
    return notes


def _minutes(horizon: Micros) -> int:
    return -(-horizon // MINUTE)
