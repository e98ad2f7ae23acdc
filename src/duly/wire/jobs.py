"""Jobs on the wire, and their translation to and from the domain."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType, field

from duly.domain.choices import CatchUpPolicy, DstGap, DstOverlap, JobType, OnExcluded, OverlapPolicy, Priority
from duly.domain.ids import job_text
from duly.domain.instants import SECOND
from duly.domain.lifecycle import JobState
from duly.domain.secrets import masked_json
from duly.wire.dependencies import DependencyShape, dependency_shapes
from duly.wire.executions import ExecutionView
from duly.wire.job_alerts import JobAlertShape, alert_shape
from duly.wire.limits import ConcurrencyShape, RateShape, UniqueShape, limit_fields
from duly.wire.retry import RetryShape, retry_shape
from duly.wire.schedules import TimingShape
from duly.wire.shapes import (
    Moment,
    Name,
    Shape,
    Text,
    View,
    shown,
    shown_json,
)
from duly.wire.targets import TargetShape, target_shape
from duly.wire.workflows import DeclaredStepView, StepShape, step_view

if TYPE_CHECKING:
    from duly.domain.catchup import CatchUp
    from duly.domain.expected import Expected
    from duly.domain.instants import Instant, Micros
    from duly.domain.job import Job


class CatchUpShape(Shape, kw_only=True):
    """The catch-up policy with its bounds."""

    policy: CatchUpPolicy = CatchUpPolicy.LATEST
    max_count: Annotated[int, Meta(ge=1, le=1000)] = 100
    window_sec: Annotated[int, Meta(ge=1, le=31_622_400)] = 86_400
    grace_sec: Annotated[int, Meta(ge=1, le=3600)] = 60


class JobShape(TimingShape, kw_only=True):
    """A job as it is sent."""

    target: TargetShape | None = None
    steps: Annotated[list[StepShape], Meta(max_length=2000)] = []
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
    after: Annotated[list[DependencyShape], Meta(max_length=20)] = []
    alert: JobAlertShape | None = None
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
    steps: Annotated[list[DeclaredStepView], Meta(examples=[[]])] = []
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
    after: Annotated[list[DependencyShape], Meta(examples=[[]])] = []
    alert: JobAlertShape | None = None
    description: str | None = None
    source: str | None = None
    paused_at: str | None = None
    paused_by: str | None = None
    paused_until: str | None = None
    pause_reason: str | None = None
    skip_at: str | None = None
    skip_by: str | None = None


class ExpectedView(View, kw_only=True):
    """How long the job's runs take, from those of the last two weeks: half of them no more than `p50Sec`, of twenty nineteen no more than
    `p95Sec`."""

    p50_sec: float = field(name="p50Sec")
    p95_sec: float = field(name="p95Sec")
    runs: int


class JobDetailView(JobView, kw_only=True):
    """A job with its next fires and latest executions; `expectedDuration` is null while there were too few runs."""

    next_fires: list[str]
    latest_executions: list[ExecutionView]
    expected_duration: ExpectedView | None = None


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
        "target": target_shape(spec.target),
        "steps": [step_view(step) for step in spec.steps],
        "schedule": timing.rule if timing.type is JobType.RRULE else timing.cron,
        "seconds": timing.seconds,
        "timezone": timing.zone if timing.type in ZONED else None,
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
        "after": dependency_shapes(spec.after),
        "alert": alert_shape(spec.alert),
        "description": spec.description,
        "source": spec.source,
        "paused_at": shown(job.paused_at) if is_paused else None,
        "paused_by": job.paused_by if is_paused else None,
        "paused_until": shown(job.paused_until) if is_paused else None,
        "pause_reason": job.pause_reason if is_paused else None,
        "skip_at": shown(job.skip_at),
        "skip_by": job.skip_by,
    }


ZONED = (JobType.CRON, JobType.RRULE)


def _seconds(micros: Micros | None) -> float | None:
    return None if micros is None else micros / SECOND


def _catch_up_shape(policy: CatchUp) -> CatchUpShape:
    return CatchUpShape(
        policy=policy.policy, max_count=policy.max_count, window_sec=policy.window // SECOND, grace_sec=policy.grace // SECOND
    )


def expected_view(expected: Expected | None) -> ExpectedView | None:
    """What is expected of a job, as the API shows it."""
    return None if expected is None else ExpectedView(p50_sec=expected.p50 / SECOND, p95_sec=expected.p95 / SECOND, runs=expected.runs)
