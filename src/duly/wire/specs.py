"""Definitions from the wire: what was sent, as the domain has it.

The other way, and the shapes themselves, are in the modules of their nouns, which a client needs without any of this.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from duly.domain.alerts.of_job import JobAlert
from duly.domain.calendars import Calendar, Holiday, WeeklyWindow, Window, parse_calendar_name
from duly.domain.catchup import CatchUp
from duly.domain.choices import CatchUpPolicy, JobType, Weekday
from duly.domain.cron_phrases import cron_text
from duly.domain.dependencies import Dependency
from duly.domain.errors import Invalid
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.job import JobSpec, Timing
from duly.domain.limits import Concurrency, Limits, Rate, Unique
from duly.domain.overlap import Overlap
from duly.domain.retry import RetryPolicy, RetryRule
from duly.domain.target import WORKFLOW_HANDLER, HttpCall, Target
from duly.domain.workflow.step import Approval, Awaited, Step
from duly.wire.calendars import CalendarShape, CalendarView
from duly.wire.dependencies import DependencyShape
from duly.wire.job_alerts import JobAlertShape
from duly.wire.jobs import ZONED, CatchUpShape, JobShape
from duly.wire.limits import ConcurrencyShape, RateShape, UniqueShape
from duly.wire.retry import RetryRuleShape, RetryShape
from duly.wire.schedules import TimingShape
from duly.wire.shapes import json_text, moment
from duly.wire.targets import TargetShape
from duly.wire.workflows import StepShape

_OWN_KEY = {JobType.CRON: "schedule", JobType.INTERVAL: "interval_sec", JobType.ONE_TIME: "run_at", JobType.DELAYED: "delay_sec"}
# A rule stands where an expression does; a delayed job is read with the time that came of its delay.
_SHARED_KEYS = {(JobType.RRULE, JobType.CRON), (JobType.DELAYED, JobType.ONE_TIME)}
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


def spec_of(shape: JobShape, now: Instant, *, fallback_name: str, source: str | None = None) -> JobSpec:
    """Translate a job from the wire. Raises Invalid when keys contradict one another."""
    return JobSpec(
        name=shape.name or fallback_name,
        timing=timing_of(shape, now),
        target=_target_of(shape),
        steps=steps_of(shape.steps),
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
        after=dependencies_of(shape.after),
        alert=alert_of(shape.alert),
        description=shape.description,
        source=source,
    )


def timing_of(shape: TimingShape, now: Instant) -> Timing:
    """When it fires. Raises Invalid when keys contradict one another; relative times count from `now`."""
    kind = _timing_type({key: getattr(shape, key) is not None for key in _OWN_KEY.values()}, shape.type)
    if (shape.seconds and kind is not JobType.CRON) or (shape.timezone is not None and kind not in ZONED):
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
        # The first full second to come: the start may be the first fire, and what is over never fires.
        start_at = (now // SECOND + 1) * SECOND
    zone = shape.timezone or "UTC"
    return Timing(
        type=kind,
        cron=None if kind is JobType.RRULE or shape.schedule is None else cron_text(shape.schedule, seconds=shape.seconds, zone=zone),
        rule=shape.schedule if kind is JobType.RRULE else None,
        seconds=shape.seconds,
        zone=zone,
        dst_gap=shape.dst_gap,
        dst_overlap=shape.dst_overlap,
        every=None if shape.interval_sec is None else round(shape.interval_sec * SECOND),
        anchor=anchor,
        run_at=run_at,
        start_at=start_at,
        end_at=moment(shape.end_at, "endAt"),
        # Named only; whoever stores the job writes them out.
        calendars=tuple(Calendar(name=parse_calendar_name(name, "calendars")) for name in dict.fromkeys(shape.calendars)),
        on_excluded=shape.on_excluded,
        jitter=round(shape.jitter_sec * SECOND),
    )


def target_of(shape: TargetShape, field: str = "target") -> Target:
    """Translate a target from the wire."""
    http = shape.http
    return Target(
        pool=shape.pool,
        requires=shape.requires,
        handler=shape.handler,
        http=None
        if http is None
        else HttpCall(url=http.url, method=http.method, headers=http.headers, body=json_text(http.body, f"{field}.http.body")),
        shell=None if shape.shell is None else tuple(shape.shell),
        env=shape.env,
    )


def retry_of(shape: RetryShape) -> RetryPolicy:
    """The policy from the wire."""
    return RetryPolicy(
        max_attempts=shape.max_attempts,
        backoff=shape.backoff,
        initial_delay=shape.initial_delay_ms * 1000,
        max_delay=shape.max_delay_ms * 1000,
        multiplier=shape.multiplier,
        jitter=shape.jitter,
        max_losses=shape.max_losses,
        rules=tuple(_rule(rule) for rule in shape.rules),
    )


def limits_of(
    max_concurrent: int | None, concurrency: ConcurrencyShape | None, rate: RateShape | None, unique: UniqueShape | None
) -> Limits:
    """The limits of a job from the wire."""
    return Limits(
        max_concurrent=max_concurrent,
        concurrency=None if concurrency is None else Concurrency(max=concurrency.max, key=_fields(concurrency.key), name=concurrency.name),
        rate=None if rate is None else Rate(count=rate.count, per=round(rate.per_sec * SECOND), key=_fields(rate.key), name=rate.name),
        unique=None
        if unique is None
        else Unique(key=_fields(unique.key), window=None if unique.for_sec is None else round(unique.for_sec * SECOND)),
    )


def alert_of(shape: JobAlertShape | None) -> JobAlert | None:
    """Translate from the wire; `check_spec` judges it."""
    if shape is None:
        return None
    return JobAlert(
        failed=shape.failed,
        failures=shape.failures,
        late_after=_micros(shape.late_after_sec),
        missed_after=_micros(shape.missed_after_sec),
        overrun_after=_micros(shape.overrun_after_sec),
        overrun=shape.overrun,
        no_success_in=_micros(shape.no_success_in_sec),
        to=tuple(shape.to),
        grace=round(shape.grace_sec * SECOND),
        recovery_runs=shape.recovery_runs,
        calendars=tuple(shape.calendars),
        owner=shape.owner,
        note=shape.note,
    )


def dependencies_of(shapes: Sequence[DependencyShape]) -> tuple[Dependency, ...]:
    """Translate from the wire."""
    return tuple(Dependency(job=one.job, per=one.per, within=round(one.within_sec * SECOND), on_deadline=one.on_deadline) for one in shapes)


def steps_of(shapes: Sequence[StepShape]) -> tuple[Step, ...]:
    """Translate steps from the wire; whether they make a graph is checked with the job."""
    return tuple(_step(shape) for shape in shapes)


def calendar_of(shape: CalendarShape, name: str) -> Calendar:
    """Translate a calendar from the wire; the path names it. Raises Invalid when the body names another."""
    if shape.name is not None and shape.name != name:
        raise Invalid("DULY-E106", f"is not {name!r}, which the path names.", field="name")
    return Calendar(
        name=name,
        zone=shape.timezone,
        business_days=None if shape.business_days is None else tuple(day for day in Weekday if day in shape.business_days),
        holidays=tuple(Holiday(day=holiday.date, name=holiday.name) for holiday in shape.holidays),
        windows=tuple(
            Window(
                start=moment(window.start, f"windows[{nth}].start") or 0,
                end=moment(window.end, f"windows[{nth}].end") or 0,
                name=window.name,
            )
            for nth, window in enumerate(shape.windows)
        ),
        weekly=tuple(
            WeeklyWindow(
                days=tuple(day for day in Weekday if day in weekly.days),
                start=_minute(weekly.start, f"weekly[{nth}].from"),
                end=_minute(weekly.end, f"weekly[{nth}].to"),
            )
            for nth, weekly in enumerate(shape.weekly)
        ),
    )


def viewed_calendar(view: CalendarView) -> Calendar:
    """The calendar of an answer, for those who compute its fires themselves."""
    shape = CalendarShape(
        timezone=view.timezone, business_days=view.business_days, holidays=view.holidays, windows=view.windows, weekly=view.weekly
    )
    return replace(calendar_of(shape, view.name), version=view.version)


def _target_of(shape: JobShape) -> Target:
    """A job has a target, or steps: then it stands in the conductor's queue, in the pool that is named."""
    if not shape.steps:
        if shape.target is None:
            raise Invalid("DULY-E106", "is missing.", field="target", hint="A job has a target, or steps.")
        return target_of(shape.target)
    given = shape.target or TargetShape()
    if given.handler not in (None, WORKFLOW_HANDLER) or given.http is not None or given.shell is not None:
        raise Invalid("DULY-E106", "goes with a job that has no steps.", field="target", hint="Give each step a target.")
    return Target(pool=given.pool, handler=WORKFLOW_HANDLER)


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


def _catch_up(shape: CatchUpPolicy | CatchUpShape) -> CatchUp:
    if isinstance(shape, CatchUpPolicy):
        return CatchUp(policy=shape)
    return CatchUp(policy=shape.policy, max_count=shape.max_count, window=shape.window_sec * SECOND, grace=shape.grace_sec * SECOND)


def _rule(shape: RetryRuleShape) -> RetryRule:
    delay = None if shape.delay_ms is None else shape.delay_ms * 1000
    return RetryRule(error=shape.error, retry=shape.retry, delay=delay, max_attempts=shape.max_attempts)


def _fields(key: str | list[str]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _step(shape: StepShape) -> Step:
    approval, signal = shape.approval, shape.signal
    return Step(
        name=shape.name,
        after=tuple(dict.fromkeys(shape.depends_on)),
        rule=shape.trigger,
        when=shape.when,
        target=None if shape.target is None else target_of(shape.target, "steps.target"),
        workflow=shape.workflow,
        map=shape.map,
        max_parallel=shape.max_parallel,
        inputs=shape.inputs,
        payload=None if (payload := json_text(shape.payload, "steps.payload")) == "null" else payload,
        approval=None
        if approval is None
        else Approval(by=tuple(approval.by), timeout=_micros(approval.timeout_sec), on_timeout=approval.on_timeout),
        signal=None if signal is None else Awaited(name=signal.name, timeout=_micros(signal.timeout_sec), on_timeout=signal.on_timeout),
        delay=_micros(shape.delay_sec),
        compensates=shape.compensates,
        retry=retry_of(shape.retry_policy),
        timeout=_micros(shape.timeout_sec),
        priority=shape.priority,
        description=shape.description,
    )


def _minute(text: str, field: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None and text != "24:00":
        raise Invalid("DULY-E135", f"{text[:20]!r} is not a time of day.", field=field, hint="Write 02:00; 24:00 is the end of the day.")
    return 1440 if match is None else int(match[1]) * 60 + int(match[2])


def _micros(seconds: float | None) -> Micros | None:
    return None if seconds is None else round(seconds * SECOND)
