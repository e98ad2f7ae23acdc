"""The capacity planner's files and its answer: plans and unit costs as they are written, forecasts as they are read."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Annotated, TypeVar
from uuid import UUID, uuid5

import msgspec
from msgspec import Meta

from duly.domain.capacity.costs import COSTS, Fleet, PoolSize, UnitCosts, WriteCost
from duly.domain.capacity.forecast import Forecast, PoolForecast, Use
from duly.domain.capacity.load import LoadClass
from duly.domain.capacity.spans import Span
from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.job import Priority, schedule_of
from duly.domain.overlap import Overlap, OverlapPolicy
from duly.wire.retry import RetryShape
from duly.wire.schedules import TimingShape
from duly.wire.shapes import Name, PoolName, Shape, View, shown
from duly.wire.specs import retry_of, timing_of

T = TypeVar("T")

# Jobs with an H in their expression each have a slot of their own; so many slots are told apart.
MOST_HASHES = 600
_HASHED = re.compile(r"(?:^|[\s,])H(?:$|[\s,/(])")
_HASHES = UUID("6f0c3f6e-5d4e-4b5a-9d0c-0d0d1e5f3c11")

Length = str | float


class SpanShape(Shape, kw_only=True):
    """How long runs take: half of them at most p50, 95 of 100 at most p95."""

    p50: Length
    p95: Length | None = None


class ClassShape(TimingShape, kw_only=True):
    """Jobs that are alike. When they fire is said as in a job; `perSecond` instead means that executions are enqueued."""

    name: Name
    pool: PoolName = "default"
    jobs: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 1
    per_second: Annotated[float, Meta(ge=0, le=1_000_000_000)] = 0
    spread: bool = False
    duration: Length | SpanShape = 1.0
    cpu: Length = 0.0
    failures: Annotated[float, Meta(ge=0, le=1)] = 0
    retry_policy: RetryShape = msgspec.field(default_factory=RetryShape)
    overlap: OverlapPolicy = OverlapPolicy.SKIP
    max_queued: Annotated[int, Meta(ge=1, le=1000)] = 100
    max_running: Annotated[int, Meta(ge=1, le=1000)] | None = None
    max_concurrent: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    priority: Priority = Priority.NORMAL
    payload_bytes: Annotated[int, Meta(ge=0, le=262_144)] = 0


class PoolShape(Shape, kw_only=True):
    """The workers of a pool."""

    workers: Annotated[int, Meta(ge=0, le=1_000_000)] = 1
    slots: Annotated[int, Meta(ge=0, le=1_000_000)] = 50


class PlanShape(Shape, kw_only=True):
    """A plan: classes of jobs, and what is there to run them."""

    classes: Annotated[list[ClassShape], Meta(min_length=1, max_length=1_000_000)]
    pools: dict[PoolName, PoolShape] = {}
    engine: str = "postgres"
    servers: int = 1
    database_cores: float = 4
    worker_cores: float = 4
    one_machine: bool = False


class WriteCostShape(Shape, kw_only=True):
    """One kind of write: microseconds of a processor and of waiting, bytes of the database's log."""

    row_database: float
    row_process: float
    batch_database: float
    batch_process: float
    round: float
    row_log: float
    batch_log: float


class CostsShape(Shape, kw_only=True):
    """Unit costs, as `python -m benchmarks.capacity` prints them."""

    engine: str
    measured_on: str
    fire: WriteCostShape
    enqueue: WriteCostShape
    claim: WriteCostShape
    finish: WriteCostShape
    execution_disk: float
    attempt_disk: float
    job_disk: float
    server_connections: int
    worker_connections: int
    idle_commits: float
    idle_log: float


class PoolForecastView(View, kw_only=True):
    """One pool of a forecast. Times of lateness are milliseconds."""

    pool: str
    verdict: str
    lack: str
    words: str
    workers: int
    slots: int
    fires: int
    succeeded: int
    dead: int
    skipped: int
    stopped: int
    retries: int
    running: int
    lateness_p50_ms: float
    lateness_p95_ms: float
    lateness_p99_ms: float
    lateness_max_ms: float
    worst_minute: str
    peak_queue: int
    peak_queue_at: str
    peak_busy: int
    peak_busy_at: str
    mean_busy: float
    slots_needed: int | None
    needed_at: str | None
    spreading_helps: bool


class UseView(View, kw_only=True):
    """Processors, and the share of them that is used: in the worst minute, and over all."""

    verdict: str
    cores: float
    worst: float
    worst_minute: str
    mean: float


class ForecastView(View, kw_only=True):
    """A forecast. Rates are for a second; bytes are bytes."""

    verdict: str
    words: list[str]
    begin: str
    end: str
    jobs: int
    due: int
    waiting: int
    grain: int
    pools: list[PoolForecastView]
    database: UseView
    workers: UseView
    dispatchers: UseView
    commits: float
    worst_commits: float
    log_bytes: float
    worst_log_bytes: float
    log_bytes_a_day: float
    disk_bytes_a_day: float
    disk_bytes: float
    connections: int
    notes: list[str]


def read_plan(source: bytes, is_toml: bool) -> PlanShape:
    """A plan from a file. Raises Invalid, and says where, when it is none."""
    return _read(source, is_toml, PlanShape, "DULY-E281", "docs/how-to/capacity.md shows what a plan looks like.")


def read_costs(source: bytes) -> UnitCosts:
    """Unit costs from a file. Raises Invalid, and says where, when they are none."""
    hint = "`python -m benchmarks.capacity` measures them, and prints them as they are read."
    shape = _read(source, False, CostsShape, "DULY-E285", hint)
    fields = msgspec.structs.asdict(shape)
    numbers = [value for one in fields.values() for value in (msgspec.structs.asdict(one).values() if isinstance(one, Shape) else (one,))]
    if any(isinstance(number, int | float) and not 0 <= number < 1e12 for number in numbers) or any(
        one.round <= 0 for one in (shape.fire, shape.enqueue, shape.claim, shape.finish)
    ):
        raise Invalid("DULY-E285", "costs are not negative, and a round takes some time.", field="--costs", hint=hint)
    writes = {name: WriteCost(**msgspec.structs.asdict(one)) for name, one in fields.items() if isinstance(one, WriteCostShape)}
    return UnitCosts(**{**fields, **writes})


def costs_text(costs: UnitCosts) -> str:
    """Unit costs as a file has them."""
    fields = asdict(costs)
    writes = {name: WriteCostShape(**one) for name, one in fields.items() if isinstance(one, dict)}
    return msgspec.json.format(msgspec.json.encode(CostsShape(**{**fields, **writes})), indent=2).decode()


def costs_of(engine: str) -> UnitCosts:
    """The costs that come with Duly for an engine. Raises Invalid for any other name."""
    if engine not in COSTS:
        raise Invalid("DULY-E285", f"there are no costs for {engine[:40]!r}.", field="engine", hint=f"There are: {', '.join(COSTS)}.")
    return COSTS[engine]


def fleet_of(shape: PlanShape) -> Fleet:
    """What a plan says is there."""
    return Fleet(
        pools={name: PoolSize(pool.workers, pool.slots) for name, pool in shape.pools.items()},
        servers=shape.servers,
        database_cores=shape.database_cores,
        worker_cores=shape.worker_cores,
        one_machine=shape.one_machine,
    )


def classes_of(shape: PlanShape, begin: Instant) -> list[LoadClass]:
    """The classes of a plan. Schedules are checked as those of jobs are; relative times count from `begin`."""
    return [load for one in shape.classes for load in _class(one, begin)]


def _class(shape: ClassShape, begin: Instant) -> list[LoadClass]:
    if shape.calendars:
        hint = "Leave it out, or plan with the jobs of a server: `duly capacity` without a file."
        raise Invalid("DULY-E281", f"{shape.name!r} names a calendar, and a plan has none.", field="calendars", hint=hint)
    timing = timing_of(shape, begin)
    count = min(shape.jobs, MOST_HASHES) if timing.cron is not None and _HASHED.search(timing.cron.upper()) else 1
    return [
        LoadClass(
            name=shape.name,
            pool=shape.pool,
            jobs=shape.jobs * (nth + 1) // count - shape.jobs * nth // count,
            schedule=schedule_of(timing, uuid5(_HASHES, f"{shape.name}/{nth}")),
            per_second=shape.per_second,
            spread=shape.spread,
            jitter=timing.jitter,
            span=_span(shape.duration),
            cpu=parse_duration(shape.cpu, field="cpu"),
            failures=shape.failures,
            retry=retry_of(shape.retry_policy),
            overlap=Overlap(policy=shape.overlap, max_running=shape.max_running, max_queued=shape.max_queued),
            priority=shape.priority,
            max_concurrent=shape.max_concurrent,
            payload_bytes=shape.payload_bytes,
        )
        for nth in range(count)
    ]


def _span(given: Length | SpanShape) -> Span:
    if isinstance(given, SpanShape):
        p50 = parse_duration(given.p50, field="duration.p50")
        return Span(p50, p50 if given.p95 is None else parse_duration(given.p95, field="duration.p95"))
    always = parse_duration(given, field="duration")
    return Span(always, always)


def forecast_view(forecast: Forecast, words: list[str], pool_words: dict[str, str]) -> ForecastView:
    """A forecast as programs read it, with the words that people get."""
    return ForecastView(
        verdict=forecast.verdict,
        words=words,
        begin=_time(forecast.begin),
        end=_time(forecast.end),
        jobs=forecast.jobs,
        due=forecast.due,
        waiting=forecast.waiting,
        grain=forecast.grain,
        pools=[_pool_view(pool, pool_words[pool.pool]) for pool in forecast.pools],
        database=_use_view(forecast.database),
        workers=_use_view(forecast.workers),
        dispatchers=_use_view(forecast.dispatchers),
        commits=round(forecast.commits, 2),
        worst_commits=round(forecast.worst_commits, 2),
        log_bytes=round(forecast.log),
        worst_log_bytes=round(forecast.worst_log),
        log_bytes_a_day=round(forecast.log_a_day),
        disk_bytes_a_day=round(forecast.disk_a_day),
        disk_bytes=round(forecast.disk),
        connections=forecast.connections,
        notes=forecast.notes,
    )


def _pool_view(pool: PoolForecast, words: str) -> PoolForecastView:
    return PoolForecastView(
        pool=pool.pool,
        verdict=pool.verdict,
        lack=pool.lack,
        words=words,
        workers=pool.size.workers,
        slots=pool.size.total,
        fires=pool.fires,
        succeeded=pool.done,
        dead=pool.dead,
        skipped=pool.skipped,
        stopped=pool.stopped,
        retries=pool.retries,
        running=pool.running,
        lateness_p50_ms=_millis(pool.p50),
        lateness_p95_ms=_millis(pool.p95),
        lateness_p99_ms=_millis(pool.p99),
        lateness_max_ms=_millis(pool.latest),
        worst_minute=_time(pool.worst_minute),
        peak_queue=pool.deepest,
        peak_queue_at=_time(pool.deepest_at),
        peak_busy=pool.most_busy,
        peak_busy_at=_time(pool.most_busy_at),
        mean_busy=round(pool.mean_busy, 3),
        slots_needed=pool.needed,
        needed_at=shown(pool.needed_at),
        spreading_helps=pool.spreading,
    )


def _use_view(use: Use) -> UseView:
    return UseView(
        verdict=use.verdict, cores=use.cores, worst=round(use.worst, 4), worst_minute=_time(use.worst_minute), mean=round(use.mean, 4)
    )


def _time(at: Instant) -> str:
    return shown(at // SECOND * SECOND) or ""


def _millis(micros: Micros) -> float:
    return round(micros / 1000, 1)


def _read(source: bytes, is_toml: bool, kind: type[T], code: str, hint: str) -> T:
    try:
        return msgspec.toml.decode(source, type=kind) if is_toml else msgspec.json.decode(source, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = str(error).replace("Object", "the file")
        raise Invalid(code, f"the file cannot be read: {text}.", hint=hint) from error
