"""Jobs on the wire, and their translation to and from the domain."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from duly.domain.calendars import Calendar, OnExcluded
from duly.domain.catchup import CatchUp, CatchUpPolicy
from duly.domain.errors import Invalid
from duly.domain.ids import job_text
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.job import HttpCall, Job, JobSpec, JobType, Priority, Target, Timing
from duly.domain.lifecycle import JobState
from duly.domain.overlap import Overlap, OverlapPolicy
from duly.domain.schedule import DstGap, DstOverlap
from duly.domain.secrets import masked_json
from duly.wire.executions import ExecutionView
from duly.wire.limits import ConcurrencyShape, RateShape, UniqueShape, limit_fields, limits_of
from duly.wire.retry import RetryShape, retry_of, retry_shape
from duly.wire.schedules import TimingShape
from duly.wire.shapes import (
    NO_NUL,
    Label,
    LabelValue,
    Moment,
    Name,
    PoolName,
    Shape,
    Text,
    View,
    json_text,
    moment,
    pattern,
    shown,
    shown_json,
)

Argument = Annotated[str, Meta(max_length=8192, extra_json_schema=NO_NUL)]
VariableName = Annotated[str, Meta(min_length=1, max_length=128, extra_json_schema=pattern("^[A-Za-z_][A-Za-z0-9_]*$"))]
Variable = Annotated[str, Meta(max_length=8192, extra_json_schema=NO_NUL)]
HeaderName = Annotated[str, Meta(max_length=256, extra_json_schema=NO_NUL)]
HeaderValue = Annotated[str, Meta(max_length=4096, extra_json_schema=NO_NUL)]


class HttpShape(Shape, kw_only=True):
    """A webhook: sent signed, to public addresses only unless the worker allows others."""

    url: Annotated[str, Meta(min_length=1, max_length=2048, examples=["https://example.com/hooks/nightly"], extra_json_schema=NO_NUL)]
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"] = "POST"
    headers: Annotated[dict[HeaderName, HeaderValue], Meta(max_length=50)] = {}
    body: Raw | UnsetType = UNSET


class TargetShape(Shape, kw_only=True):
    """Who runs it: a pool, the labels a worker needs, and exactly one of handler, http and shell."""

    pool: PoolName = "default"
    handler: Annotated[Name, Meta(examples=["duly.echo"])] | None = None
    requires: Annotated[dict[Label, LabelValue], Meta(max_length=16)] = {}
    http: HttpShape | None = None
    shell: Annotated[list[Argument], Meta(min_length=1, max_length=256, examples=[["echo", "hello"]])] | None = None
    env: Annotated[dict[VariableName, Variable], Meta(max_length=64, examples=[{"TOKEN": "${secret:env:DULY_SECRET_TOKEN}"}])] = {}


class CatchUpShape(Shape, kw_only=True):
    """The catch-up policy with its bounds."""

    policy: CatchUpPolicy = CatchUpPolicy.LATEST
    max_count: Annotated[int, Meta(ge=1, le=1000)] = 100
    window_sec: Annotated[int, Meta(ge=1, le=31_622_400)] = 86_400
    grace_sec: Annotated[int, Meta(ge=1, le=3600)] = 60


class JobShape(TimingShape, kw_only=True):
    """A job as it is sent."""

    target: TargetShape
    name: Name | None = None
    payload: Raw | UnsetType = UNSET
    retry_policy: RetryShape = msgspec.field(default_factory=RetryShape)
    timeout_sec: Annotated[float, Meta(ge=0.001, le=604_800)] | None = None
    execution_timeout_sec: Annotated[float, Meta(ge=0.001, le=31_622_400)] | None = None
    heartbeat_timeout_sec: Annotated[float, Meta(ge=1, le=604_800)] | None = None
    stop_grace_sec: Annotated[float, Meta(ge=0, le=86_400)] = 10.0
    batch: Annotated[int, Meta(ge=1, le=1000)] = 1
    priority: Priority = Priority.NORMAL
    overlap: OverlapPolicy = OverlapPolicy.SKIP
    max_queued: Annotated[int, Meta(ge=1, le=1000)] = 100
    max_running: Annotated[int, Meta(ge=1, le=1000)] | None = None
    kill_grace_sec: Annotated[float, Meta(ge=0, le=3600)] = 10
    catch_up: CatchUpPolicy | CatchUpShape = CatchUpPolicy.LATEST
    max_concurrent: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    concurrency: ConcurrencyShape | None = None
    rate_limit: RateShape | None = None
    unique: UniqueShape | None = None
    description: Text | None = None


class JobBatchShape(Shape, kw_only=True):
    """Many jobs in one transaction: all are created, or none."""

    jobs: Annotated[list[JobShape], Meta(min_length=1, max_length=10_000)]


class PauseShape(Shape, kw_only=True):
    """Why a job is paused, shown to whoever asks, and until when; without an end it is paused until it is resumed."""

    reason: Text | None = None
    until: Moment | None = None


class SkipShape(Shape, kw_only=True):
    """Which fire to skip; the next one when `at` is left out."""

    at: Moment | None = None


class JobStateName(StrEnum):
    """Job states by name."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"


class JobView(View, kw_only=True):
    """A job as it is read."""

    job_id: str
    name: str
    state: JobStateName
    type: JobType
    version: int
    created_at: str
    updated_at: str
    next_fire_at: str | None
    target: TargetShape
    words: str
    schedule: str | None = None
    seconds: bool = False
    timezone: str | None = None
    dst_gap: DstGap = DstGap.RUN_AFTER
    dst_overlap: DstOverlap = DstOverlap.FIRST
    interval_sec: float | None = None
    anchor_at: str | None = None
    run_at: str | None = None
    start_at: str | None = None
    end_at: str | None = None
    calendars: list[str] = []
    on_excluded: OnExcluded = OnExcluded.SKIP
    jitter_sec: float = 0
    payload: Any = None
    retry_policy: RetryShape
    timeout_sec: float | None = None
    execution_timeout_sec: float | None = None
    heartbeat_timeout_sec: float | None = None
    stop_grace_sec: float = 10.0
    batch: int = 1
    priority: Priority
    overlap: OverlapPolicy
    max_queued: int
    max_running: int | None = None
    kill_grace_sec: float
    catch_up: CatchUpShape
    max_concurrent: int | None = None
    concurrency: ConcurrencyShape | None = None
    rate_limit: RateShape | None = None
    unique: UniqueShape | None = None
    description: str | None = None
    source: str | None = None
    paused_at: str | None = None
    paused_by: str | None = None
    paused_until: str | None = None
    pause_reason: str | None = None
    skip_at: str | None = None
    skip_by: str | None = None


class JobDetailView(JobView, kw_only=True):
    """A job with its next fires and latest executions."""

    next_fires: list[str]
    latest_executions: list[ExecutionView]


def spec_of(shape: JobShape, now: Instant, *, fallback_name: str, source: str | None = None) -> JobSpec:
    """Translate a job from the wire. Raises Invalid when keys contradict one another."""
    return JobSpec(
        name=shape.name or fallback_name,
        timing=timing_of(shape, now),
        target=_target(shape.target),
        payload=json_text(shape.payload, "payload"),
        retry=retry_of(shape.retry_policy),
        timeout=_micros(shape.timeout_sec),
        execution_timeout=_micros(shape.execution_timeout_sec),
        heartbeat_timeout=_micros(shape.heartbeat_timeout_sec),
        stop_grace=round(shape.stop_grace_sec * SECOND),
        batch=shape.batch,
        priority=shape.priority,
        overlap=Overlap(
            policy=shape.overlap,
            max_running=shape.max_running,
            max_queued=shape.max_queued,
            grace=round(shape.kill_grace_sec * SECOND),
        ),
        catch_up=_catch_up(shape.catch_up),
        limits=limits_of(shape.max_concurrent, shape.concurrency, shape.rate_limit, shape.unique),
        description=shape.description,
        source=source,
    )


def job_view(job: Job, words: str, now: Instant) -> JobView:
    """A job as the API answers it."""
    return JobView(**job_fields(job, words, now))


def job_fields(job: Job, words: str, now: Instant) -> dict[str, Any]:
    """The fields that every view of a job has. A pause that is over by itself is not shown any more."""
    spec = job.version.spec
    state = job.standing(now)
    is_paused = state is JobState.PAUSED
    timing = spec.timing
    return {
        "job_id": job_text(job.id),
        "name": spec.name,
        "state": JobStateName[state.name],
        "type": timing.type,
        "version": job.version.version,
        "created_at": shown(job.created_at),
        "updated_at": shown(job.version.created_at),
        "next_fire_at": shown(job.next_fire_at),
        "words": words,
        "target": _target_shape(spec.target),
        "schedule": timing.rule if timing.type is JobType.RRULE else timing.cron,
        "seconds": timing.seconds,
        "timezone": timing.zone if timing.type in _ZONED else None,
        "dst_gap": timing.dst_gap,
        "dst_overlap": timing.dst_overlap,
        "interval_sec": None if timing.every is None else timing.every / SECOND,
        "anchor_at": shown(timing.anchor),
        "run_at": shown(timing.run_at),
        "start_at": shown(timing.start_at),
        "end_at": shown(timing.end_at),
        "calendars": [calendar.name for calendar in timing.calendars],
        "on_excluded": timing.on_excluded,
        "jitter_sec": timing.jitter / SECOND,
        "payload": shown_json(masked_json(spec.payload)),
        "retry_policy": retry_shape(spec.retry),
        "timeout_sec": _seconds(spec.timeout),
        "execution_timeout_sec": _seconds(spec.execution_timeout),
        "heartbeat_timeout_sec": _seconds(spec.heartbeat_timeout),
        "stop_grace_sec": spec.stop_grace / SECOND,
        "batch": spec.batch,
        "priority": spec.priority,
        "overlap": spec.overlap.policy,
        "max_queued": spec.overlap.max_queued,
        "max_running": spec.overlap.max_running,
        "kill_grace_sec": spec.overlap.grace / SECOND,
        "catch_up": _catch_up_shape(spec.catch_up),
        **limit_fields(spec.limits),
        "description": spec.description,
        "source": spec.source,
        "paused_at": shown(job.paused_at) if is_paused else None,
        "paused_by": job.paused_by if is_paused else None,
        "paused_until": shown(job.paused_until) if is_paused else None,
        "pause_reason": job.pause_reason if is_paused else None,
        "skip_at": shown(job.skip_at),
        "skip_by": job.skip_by,
    }


_ZONED = (JobType.CRON, JobType.RRULE)
_OWN_KEY = {JobType.CRON: "schedule", JobType.INTERVAL: "interval_sec", JobType.ONE_TIME: "run_at", JobType.DELAYED: "delay_sec"}


# A rule stands where an expression does; a delayed job is read with the time that came of its delay.
_SHARED_KEYS = {(JobType.RRULE, JobType.CRON), (JobType.DELAYED, JobType.ONE_TIME)}


def _timing_type(given: dict[str, bool], declared: JobType | None) -> JobType:
    """The type that the given keys say; a key of another type is a contradiction, named as such."""
    found = [kind for kind, key in _OWN_KEY.items() if given[key]]
    if declared is None:
        if len(found) > 1:
            one, other = (_wire_name(_OWN_KEY[kind]) for kind in found[:2])
            raise Invalid("DULY-E106", f"{one} and {other} contradict one another.", field=other)
        return found[0] if found else JobType.ON_DEMAND
    for kind in found:
        if kind is not declared and (declared, kind) not in _SHARED_KEYS:
            raise Invalid("DULY-E106", f"does not go with type {declared.value}.", field=_wire_name(_OWN_KEY[kind]))
    return declared


def _wire_name(attribute: str) -> str:
    """snake_case as the wire writes it."""
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


def timing_of(shape: TimingShape, now: Instant) -> Timing:
    """When it fires. Raises Invalid when keys contradict one another; relative times count from `now`."""
    kind = _timing_type({key: getattr(shape, key) is not None for key in _OWN_KEY.values()}, shape.type)
    if (shape.seconds and kind is not JobType.CRON) or (shape.timezone is not None and kind not in _ZONED):
        raise Invalid("DULY-E106", f"does not go with type {kind.value}.", field="seconds" if shape.seconds else "timezone")
    run_at = moment(shape.run_at, "runAt")
    if kind is JobType.DELAYED:
        if (shape.delay_sec is None) is (run_at is None):
            raise Invalid("DULY-E104", "a DELAYED job needs a delay.", field="delaySec", hint='For example "delaySec": 300.')
        # As it is read, a delayed job has the time that came of its delay; sent back, it keeps it.
        run_at = run_at if shape.delay_sec is None else now + round(shape.delay_sec * SECOND)
    start_at = moment(shape.start_at, "startAt")
    anchor = moment(shape.anchor_at, "anchorAt")
    if kind is JobType.INTERVAL and anchor is None:
        anchor = start_at if start_at is not None else now
    if kind is JobType.RRULE and start_at is None:
        start_at = now // SECOND * SECOND
    return Timing(
        type=kind,
        cron=None if kind is JobType.RRULE else shape.schedule,
        rule=shape.schedule if kind is JobType.RRULE else None,
        seconds=shape.seconds,
        zone=shape.timezone or "UTC",
        dst_gap=shape.dst_gap,
        dst_overlap=shape.dst_overlap,
        every=None if shape.interval_sec is None else round(shape.interval_sec * SECOND),
        anchor=anchor,
        run_at=run_at,
        start_at=start_at,
        end_at=moment(shape.end_at, "endAt"),
        # Named only; whoever stores the job writes them out.
        calendars=tuple(Calendar(name=name) for name in dict.fromkeys(shape.calendars)),
        on_excluded=shape.on_excluded,
        jitter=round(shape.jitter_sec * SECOND),
    )


def _target(shape: TargetShape) -> Target:
    http = shape.http
    return Target(
        pool=shape.pool,
        requires=shape.requires,
        handler=shape.handler,
        http=None
        if http is None
        else HttpCall(url=http.url, method=http.method, headers=http.headers, body=json_text(http.body, "target.http.body")),
        shell=None if shape.shell is None else tuple(shape.shell),
        env=shape.env,
    )


def _target_shape(target: Target) -> TargetShape:
    http = target.http
    return TargetShape(
        pool=target.pool,
        handler=target.handler,
        requires=target.requires,
        http=None if http is None else _http_shape(http),
        shell=None if target.shell is None else list(target.shell),
        env=target.env,
    )


def _http_shape(call: HttpCall) -> HttpShape:
    body = UNSET if call.body is None else shown_json(call.body)
    return HttpShape(url=call.url, method=call.method, headers=call.headers, body=body)  # type: ignore[arg-type]


def _micros(seconds: float | None) -> Micros | None:
    return None if seconds is None else round(seconds * SECOND)


def _seconds(micros: Micros | None) -> float | None:
    return None if micros is None else micros / SECOND


def _catch_up(shape: CatchUpPolicy | CatchUpShape) -> CatchUp:
    if isinstance(shape, CatchUpPolicy):
        return CatchUp(policy=shape)
    return CatchUp(policy=shape.policy, max_count=shape.max_count, window=shape.window_sec * SECOND, grace=shape.grace_sec * SECOND)


def _catch_up_shape(policy: CatchUp) -> CatchUpShape:
    return CatchUpShape(
        policy=policy.policy, max_count=policy.max_count, window_sec=policy.window // SECOND, grace_sec=policy.grace // SECOND
    )
