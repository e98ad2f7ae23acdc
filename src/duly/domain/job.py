"""A job: what to run, when, and under which policies. A version of it never changes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import assert_never
from uuid import UUID

from duly.domain.addresses import fault_of
from duly.domain.alerts.of_job import JobAlert, check_alert
from duly.domain.calendars import Calendar, OnExcluded
from duly.domain.catchup import CatchUp
from duly.domain.choices import JobType as JobType
from duly.domain.cron import parse_cron
from duly.domain.dependencies import Dependency, check_dependencies
from duly.domain.errors import Invalid
from duly.domain.ids import JobId
from duly.domain.instants import DAY, LATEST, SECOND, Instant, Micros
from duly.domain.lifecycle import JobState
from duly.domain.limits import Limits
from duly.domain.naming import NAME as NAME
from duly.domain.naming import POOL as POOL
from duly.domain.overlap import Overlap
from duly.domain.retry import RetryPolicy
from duly.domain.rule import Rule, parse_rule
from duly.domain.schedule import (
    CalendarSchedule,
    CronSchedule,
    DstGap,
    DstOverlap,
    IntervalSchedule,
    OneTimeSchedule,
    PlainSchedule,
    RuleSchedule,
    Schedule,
)
from duly.domain.secrets import check_json, check_text, references_in
from duly.domain.target import HEAD_STARTS as HEAD_STARTS
from duly.domain.target import HTTP_HANDLER, SHELL_HANDLER, WORKFLOW_HANDLER
from duly.domain.target import HttpCall as HttpCall
from duly.domain.target import Priority as Priority
from duly.domain.target import Target as Target
from duly.domain.workflow.check import check_steps
from duly.domain.workflow.step import Step, StepOf
from duly.domain.zones import load_zone, offset_at, stretch_at

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}\Z")
SHORTEST_INTERVAL: Micros = SECOND
LONGEST_TIMEOUT: Micros = 7 * DAY
LONGEST_EXECUTION: Micros = 366 * DAY
LONGEST_STOP_GRACE: Micros = DAY
LARGEST_BATCH = 1000
LONGEST_JITTER: Micros = DAY

_ONCE = "Leave the bound out: a job that runs once needs none."


def parse_pool_name(text: str) -> str:
    """The name of a pool; raises Invalid for anything else."""
    if not POOL.match(text):
        hint = "1 to 64 letters, digits and . _ -, starting with a letter or digit."
        raise Invalid("DULY-E114", f"{text[:40]!r} is not the name of a pool.", field="pool", hint=hint)
    return text


class _Compiled:
    """Where a version, or a timing that many versions share, keeps its schedule from the first question on, to be forgotten with it: no
    field, so it is in no comparison and goes over no wire."""

    __slots__ = ("_schedule",)
    _schedule: Schedule | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing(_Compiled):
    """When a job fires, as it was asked for; `schedule_of` compiles it."""

    type: JobType = JobType.ON_DEMAND
    cron: str | None = None
    rule: str | None = None
    seconds: bool = False
    zone: str = "UTC"
    dst_gap: DstGap = DstGap.RUN_AFTER
    dst_overlap: DstOverlap = DstOverlap.FIRST
    every: Micros | None = None
    anchor: Instant | None = None
    run_at: Instant | None = None
    start_at: Instant | None = None
    end_at: Instant | None = None
    # Written out, so that the fires of a version follow from the version alone.
    calendars: tuple[Calendar, ...] = ()
    on_excluded: OnExcluded = OnExcluded.SKIP
    jitter: Micros = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The whole definition of one job version."""

    name: str
    timing: Timing
    target: Target
    payload: str | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeout: Micros | None = None
    # All attempts together, from the time it was due.
    execution_timeout: Micros | None = None
    # The longest silence of a handler that runs.
    heartbeat_timeout: Micros | None = None
    # How long a handler that was asked to stop may take before it is ended.
    stop_grace: Micros = 10 * SECOND
    # How many executions one call of a batch handler takes at most.
    batch: int = 1
    priority: Priority = Priority.NORMAL
    overlap: Overlap = field(default_factory=Overlap)
    catch_up: CatchUp = field(default_factory=CatchUp)
    limits: Limits = field(default_factory=Limits)
    # Jobs that must have succeeded for the same day before a fire runs.
    after: tuple[Dependency, ...] = ()
    description: str | None = None
    source: str | None = None
    # What is told about it, and whom.
    alert: JobAlert | None = None
    # A workflow: what it consists of. Its own target is the conductor's queue.
    steps: tuple[Step, ...] = ()
    # The version of a step: which one of its workflow's.
    step: StepOf | None = None


@dataclass(frozen=True, slots=True)
class JobVersion(_Compiled):
    """A version as roles need it: immutable, so it is cached by its small number for as long as it is used."""

    number: int
    job_id: JobId
    version: int
    tenant: int
    tenant_name: str
    route: int
    spec: JobSpec
    created_at: Instant

    @property
    def schedule(self) -> Schedule | None:
        """The compiled schedule; None when it fires only on demand."""
        try:
            return self._schedule
        except AttributeError:
            object.__setattr__(self, "_schedule", _schedule_in(self.spec.timing, self.job_id))
            return self._schedule

    @property
    def head_start(self) -> Micros:
        """How far ahead of its due time it stands in the queue."""
        return HEAD_STARTS[self.spec.priority]


@dataclass(frozen=True, slots=True)
class Job:
    """A job as people read it: its current version and where it stands."""

    id: JobId
    state: JobState
    version: JobVersion
    created_at: Instant
    next_fire_at: Instant | None = None
    paused_at: Instant | None = None
    pause_reason: str | None = None
    paused_by: str | None = None
    paused_until: Instant | None = None
    skip_at: Instant | None = None
    skip_by: str | None = None

    def is_paused_until_later(self, now: Instant) -> bool:
        """Whether a pause with an end is on: the store keeps it ACTIVE, waiting for a fire past that end."""
        return self.state is JobState.ACTIVE and self.paused_until is not None and now < self.paused_until

    def standing(self, now: Instant) -> JobState:
        """The state that people see: a pause with an end is over by itself."""
        return JobState.PAUSED if self.is_paused_until_later(now) else self.state


def route_labels(requires: dict[str, str]) -> str:
    """The canonical text of required labels: `gpu,region=eu`, sorted. An empty value means the label must be there."""
    return ",".join(f"{key}={value}" if value else key for key, value in sorted(requires.items()))


def satisfies(offered: dict[str, str], labels: str) -> bool:
    """Whether a worker with these labels may run what requires `labels` (canonical text)."""
    for label in labels.split(",") if labels else ():
        key, _, value = label.partition("=")
        if key not in offered or (value and offered[key] != value):
            return False
    return True


def _schedule_in(timing: Timing, job_id: UUID) -> Schedule | None:
    """The schedule of a version's timing. Without an H it is everybody's, and a herd of versions has one timing."""
    if timing.cron is not None and "H" in timing.cron.upper():
        return schedule_of(timing, job_id)
    try:
        return timing._schedule
    except AttributeError:
        object.__setattr__(timing, "_schedule", schedule_of(timing, job_id))
        return timing._schedule


# For a moment's worth of requests: each is asked for more than once. Versions that fire keep theirs.
@lru_cache(maxsize=1024)
def schedule_of(timing: Timing, job_id: UUID) -> Schedule | None:
    """Compile a timing. Raises Invalid when it is malformed or can never fire.

    The job's id seeds `H`, so a slot is stable over versions and differs between jobs.
    """
    if not 0 <= timing.jitter <= LONGEST_JITTER:
        raise Invalid("DULY-E104", "must be at most a day.", field="jitterSec")
    base = _plain(timing, job_id)
    if base is None:
        for field, given in (("calendars", bool(timing.calendars)), ("jitterSec", timing.jitter > 0)):
            if given:
                raise Invalid("DULY-E106", "goes with a schedule only.", field=field)
        return None
    if not timing.calendars:
        if timing.on_excluded is not OnExcluded.SKIP:
            raise Invalid("DULY-E106", "goes with calendars only.", field="onExcluded", hint='Name them: "calendars": ["holidays"].')
        return base
    return CalendarSchedule(base, timing.calendars, timing.on_excluded)


def _plain(timing: Timing, job_id: UUID) -> PlainSchedule | None:
    """The schedule without its calendars."""
    start, end = timing.start_at, timing.end_at
    if start is not None and end is not None and end <= start:
        raise Invalid("DULY-E105", "ends before it starts.", field="endAt", hint="endAt must be later than startAt.")
    match timing.type:
        case JobType.CRON:
            if timing.cron is None:
                raise Invalid("DULY-E101", "a CRON job needs a schedule.", field="schedule", hint='For example "schedule": "0 3 * * *".')
            # Without an H the slot is everybody's, so a herd of jobs on one expression is parsed once.
            cron = parse_cron(timing.cron, seconds=timing.seconds, hash_key=job_id.hex if "H" in timing.cron.upper() else "")
            load_zone(timing.zone)
            return CronSchedule(cron=cron, zone=timing.zone, gap=timing.dst_gap, overlap=timing.dst_overlap, start_at=start, end_at=end)
        case JobType.RRULE:
            if timing.rule is None:
                hint = 'For example "schedule": "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9".'
                raise Invalid("DULY-E134", "an RRULE job needs a rule.", field="schedule", hint=hint)
            load_zone(timing.zone)
            rule = _rule(timing.rule, timing.zone, timing.dst_overlap, start)
            return RuleSchedule(rule=rule, zone=timing.zone, gap=timing.dst_gap, overlap=timing.dst_overlap, start_at=start, end_at=end)
        case JobType.INTERVAL:
            if timing.every is None or timing.anchor is None:
                raise Invalid(
                    "DULY-E104", "an INTERVAL job needs an interval.", field="intervalSec", hint='For example "intervalSec": 900.'
                )
            if timing.every < SHORTEST_INTERVAL:
                raise Invalid("DULY-E104", "an interval is at least one second.", field="intervalSec")
            return IntervalSchedule(every=timing.every, anchor=timing.anchor, start_at=start, end_at=end)
        case JobType.ONE_TIME | JobType.DELAYED:
            if timing.run_at is None:
                raise Invalid(
                    "DULY-E105", "needs the time at which it runs.", field="runAt", hint='For example "runAt": "2026-12-01T09:00:00Z".'
                )
            if not 0 <= timing.run_at <= LATEST:
                raise Invalid("DULY-E105", "is out of range.", field="runAt", hint="Times lie between 1970 and 9999.")
            return OneTimeSchedule(at=timing.run_at, start_at=start, end_at=end)
        case JobType.ON_DEMAND:
            return None
        case _:
            assert_never(timing.type)


def _rule(text: str, zone: str, overlap: DstOverlap, start: Instant | None) -> Rule:
    """A rule that begins at this instant; without one, on the first day of 1970, on the zone's own clock."""
    if start is None:
        return parse_rule(text, 0, zone)
    second = start // SECOND
    # What it names before the first full second, or has named in an hour that comes again, does not fire: COUNT begins after it.
    full = -(-start // SECOND)
    stretch = stretch_at(zone, full)
    first = full + stretch.offset
    if overlap is DstOverlap.FIRST and stretch.offset_before > stretch.offset:
        first = max(first, stretch.repeats_until)
    return parse_rule(text, second + offset_at(zone, second), zone, first)


def check_once(timing: Timing) -> None:
    """Refuse a single time that the schedule's own bounds leave out. Not when a version is compiled: older ones may have it."""
    at = timing.run_at
    if at is None:
        return
    if timing.end_at is not None and at > timing.end_at:
        raise Invalid("DULY-E102", "The schedule can never fire: its time lies after endAt.", field="endAt", hint=_ONCE)
    if timing.start_at is not None and at < timing.start_at:
        raise Invalid("DULY-E102", "The schedule can never fire: its time lies before startAt.", field="startAt", hint=_ONCE)


def check_spec(spec: JobSpec, *, sealed: bool = False) -> None:
    """Refuse what cannot be a job: bad names, labels, targets, bounds. The schedule is checked by `schedule_of`.

    `sealed`: payloads are encrypted at rest, so this one may have secret values in it.
    """
    if not NAME.match(spec.name):
        raise Invalid(
            "DULY-E114",
            f"{spec.name[:40]!r} is not a job name.",
            field="name",
            hint="1 to 128 letters, digits and . _ : / @ -, starting with a letter or digit.",
        )
    if spec.steps:
        _check_workflow(spec, sealed)
    else:
        _check_target(spec.target, "target")
    for key, limit in (("concurrency", spec.limits.concurrency), ("rateLimit", spec.limits.rate)):
        if limit is not None and limit.name is not None and not NAME.match(limit.name):
            raise Invalid("DULY-E114", f"{limit.name[:40]!r} is not a name of a limit.", field=f"{key}.name")
    check_once(spec.timing)
    check_dependencies(spec.name, spec.after, has_schedule=spec.timing.type is not JobType.ON_DEMAND)
    _check_secrets(spec, sealed)
    if spec.alert is not None:
        check_alert(spec.alert, spec.name)
    if spec.timeout is not None and not 0 < spec.timeout <= LONGEST_TIMEOUT:
        raise Invalid("DULY-E106", "must be more than 0 and at most 7 days.", field="timeoutSec")
    if spec.execution_timeout is not None and not 0 < spec.execution_timeout <= LONGEST_EXECUTION:
        raise Invalid("DULY-E106", "must be more than 0 and at most 366 days.", field="executionTimeoutSec")
    if spec.heartbeat_timeout is not None and not SECOND <= spec.heartbeat_timeout <= LONGEST_TIMEOUT:
        raise Invalid("DULY-E106", "must be at least 1 second and at most 7 days.", field="heartbeatTimeoutSec")
    if not 0 <= spec.stop_grace <= LONGEST_STOP_GRACE:
        raise Invalid("DULY-E106", "must be between 0 and 1 day.", field="stopGraceSec")
    if not 1 <= spec.batch <= LARGEST_BATCH:
        raise Invalid("DULY-E106", f"must be between 1 and {LARGEST_BATCH}.", field="batch")


def _check_workflow(spec: JobSpec, sealed: bool) -> None:
    """The graph, and each step as the job that it is."""
    check_steps(spec.steps)
    _check_pool(spec.target.pool, "target")
    if spec.batch > 1:
        raise Invalid("DULY-E106", "does not go with steps.", field="batch")
    for nth, step in enumerate(spec.steps):
        if step.target is not None:
            _check_target(step.target, "steps.target")
            try:
                check_spec(step_spec(spec, step, 0), sealed=sealed)
            except Invalid as error:
                error.field = f"steps[{nth}].{error.field}"
                raise


def step_spec(spec: JobSpec, step: Step, place: int) -> JobSpec:
    """A step as the job whose executions it makes. One that only waits stands in the conductor's queue."""
    return JobSpec(
        name=spec.name,
        timing=Timing(),
        target=step.target or Target(pool=spec.target.pool, handler=WORKFLOW_HANDLER),
        payload=step.payload,
        retry=step.retry,
        timeout=step.timeout,
        stop_grace=spec.stop_grace,
        priority=step.priority or spec.priority,
        description=step.description,
        step=StepOf(place=place, name=step.name),
    )


def _check_pool(pool: str, field: str) -> None:
    if not POOL.match(pool):
        hint = "1 to 64 letters, digits and . _ -"
        raise Invalid("DULY-E114", f"{pool[:40]!r} is not a pool name.", field=f"{field}.pool", hint=hint)


def _check_target(target: Target, field: str) -> None:
    _check_pool(target.pool, field)
    chosen = [name for name in ("handler", "http", "shell") if getattr(target, name) is not None]
    if len(chosen) != 1:
        raise Invalid("DULY-E106", "needs exactly one of handler, http and shell.", field=field)
    if target.handler is not None and not NAME.match(target.handler):
        raise Invalid("DULY-E114", f"{target.handler[:40]!r} is not a handler name.", field=f"{field}.handler")
    if target.handler in (SHELL_HANDLER, HTTP_HANDLER, WORKFLOW_HANDLER):
        hint = 'Use "shell": [...], "http": {...} or "steps": [...] instead.'
        raise Invalid("DULY-E106", f"{target.handler!r} is reserved.", field=f"{field}.handler", hint=hint)
    for key, value in target.requires.items():
        if not LABEL.match(key) or (value and not LABEL.match(value)):
            raise Invalid(
                "DULY-E114", f"{key[:40]!r} is not a label.", field=f"{field}.requires", hint='For example {"region": "eu", "gpu": ""}.'
            )
    if len(target.requires) > 16:
        raise Invalid("DULY-E106", "at most 16 labels.", field=f"{field}.requires")
    if target.http is not None:
        _check_address(target.http.url, f"{field}.http.url")
    _check_variables(target)


def _check_address(url: str, field: str) -> None:
    """It can be taken apart. Whether anything may be sent there is for the worker to say, who resolves its secrets and its name."""
    if (fault := fault_of(url)) is not None:
        raise Invalid("DULY-E106", f"is not an address: {fault}.", field=field, hint="For example https://example.com/hook.")


def _check_variables(target: Target) -> None:
    if target.env and target.shell is None:
        raise Invalid("DULY-E106", "goes with shell only.", field="target.env")
    for name, value in target.env.items():
        if not VARIABLE.match(name) or name.upper().startswith("DULY_"):
            hint = "Letters, digits and _; names that begin with DULY_ are Duly's own."
            raise Invalid("DULY-E114", f"{name[:40]!r} is not the name of a variable.", field="target.env", hint=hint)
        if "\0" in value:
            raise Invalid("DULY-E110", "a variable contains a NUL character.", field="target.env")


def _check_secrets(spec: JobSpec, sealed: bool) -> None:
    """References must have their shape. Whether they can be resolved is known to the worker alone."""
    target = spec.target
    if spec.payload is not None:
        check_json(spec.payload, "payload", values=sealed)
    if target.http is not None:
        check_text(target.http.url, "target.http.url")
        for name, value in target.http.headers.items():
            check_text(value, f"target.http.headers.{name}")
        if target.http.body is not None:
            check_json(target.http.body, "target.http.body", values=False)
    for name, value in target.env.items():
        check_text(value, f"target.env.{name}")
    if any(map(references_in, target.shell or ())):
        hint = "Everybody on the host can read the arguments of a command. Put it into target.env."
        raise Invalid("DULY-E141", "an argument cannot have a secret.", field="target.shell", hint=hint)
