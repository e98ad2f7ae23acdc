"""The options of a declaration: what each may be, and the definition that follows from them.

Whatever is wrong raises Invalid where it is declared, at import, and says what to write instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, TypedDict

from duly.domain.calendars import Calendar, OnExcluded
from duly.domain.catchup import CatchUp, CatchUpPolicy
from duly.domain.cron_phrases import cron_text
from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid
from duly.domain.instants import Instant, Micros, from_datetime
from duly.domain.job import JobSpec, JobType, Priority, Target, Timing
from duly.domain.limits import Limits
from duly.domain.overlap import Overlap, OverlapPolicy
from duly.domain.retry import RetryPolicy
from duly.domain.schedule import DstGap, DstOverlap
from duly.sdk.after import dependencies_of
from duly.sdk.alerts import Alert, declared_alert
from duly.sdk.arguments import Arguments
from duly.sdk.checks import kind_checked, one_of, whole
from duly.sdk.limits import Concurrency, Rate, rate_of, unique_of
from duly.sdk.retry import Retry


class JobOptions(TypedDict, total=False):
    """What `@app.job` takes; the same names as on the wire, in snake_case."""

    name: str
    cron: str
    rrule: str
    seconds: bool
    every: str | float | timedelta
    at: datetime
    tz: str
    dst_gap: str
    dst_overlap: str
    start_at: datetime
    end_at: datetime
    calendars: Sequence[str]
    on_excluded: str
    jitter: str | float | timedelta
    overlap: str
    max_queued: int
    max_running: int
    kill_grace: str | float | timedelta
    catch_up: str
    max_concurrent: int
    concurrency: Concurrency
    rate: Rate | str
    unique: bool | str | Sequence[str]
    unique_for: str | float | timedelta
    after: Any
    retry: int | Retry
    timeout: str | float | timedelta
    execution_timeout: str | float | timedelta
    heartbeat_timeout: str | float | timedelta
    heartbeat: str | float | timedelta
    stop_grace: str | float | timedelta
    batch: int
    priority: str
    pool: str
    requires: Mapping[str, str] | Sequence[str]
    executor: str
    description: str
    alert: Alert


_WORDS = {
    "name": '"nightly-report"',
    "cron": '"30 2 * * *"; of several schedules make several jobs',
    "rrule": '"FREQ=MONTHLY;BYDAY=-1FR"',
    "tz": '"Europe/Berlin"',
    "dst_gap": '"run_after"',
    "dst_overlap": '"first"',
    "on_excluded": '"skip"',
    "overlap": '"skip"',
    "catch_up": '"latest"',
    "priority": '"high": critical, high, normal or low',
    "pool": '"mail"',
    "executor": '"process"',
    "description": '"Builds the report."',
}
_NUMBERS = {"max_queued": "100", "max_running": "3", "max_concurrent": "3", "batch": "10"}
_SPANS = frozenset({
    "every", "jitter", "kill_grace", "unique_for", "timeout", "execution_timeout", "heartbeat_timeout", "heartbeat", "stop_grace",
})  # fmt: skip
_SPAN = (str, int, float, timedelta)


def checked_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, without what is None. Raises Invalid for an option that there is none of, and for a value of another kind."""
    options = {name: value for name, value in given.items() if value is not None}
    if unknown := sorted(given.keys() - JobOptions.__annotations__.keys()):
        raise Invalid("DULY-E118", f"there is no option {unknown[0]!r}.", field=unknown[0], hint=_did_you_mean(unknown[0]))
    for name, value in options.items():
        if name in _WORDS:
            kind_checked(value, (str,), name, "text", f"Write {name}={_WORDS[name]}.")
        elif name in _NUMBERS:
            whole(value, name, f"{name}={_NUMBERS[name]}")
        elif name in _SPANS:
            kind_checked(value, _SPAN, name, "a duration", f'Write {name}="15m", or a number of seconds.')
    if "heartbeat" in options:
        if "heartbeat_timeout" in options:
            hint = "They are two names of one option: leave one of them out."
            raise Invalid("DULY-E118", "heartbeat and heartbeat_timeout are both given.", field="heartbeat", hint=hint)
        options["heartbeat_timeout"] = options.pop("heartbeat")
    return options


def _did_you_mean(option: str) -> str:
    close = get_close_matches(option, JobOptions.__annotations__, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Options are {', '.join(JobOptions.__annotations__)}."


def spec_of(source: str, function: Callable[..., Any], name: str, options: dict[str, Any]) -> JobSpec:
    """The definition of a job with these options, which `checked_options` has seen."""
    description = options.get("description") or (inspect.getdoc(function) or "").split("\n")[0] or None
    return JobSpec(
        name=name,
        timing=_timing(options),
        target=Target(pool=options.get("pool", "default"), requires=_labels(options.get("requires")), handler=name),
        retry=_retry(options.get("retry", 3)),
        timeout=_duration(options, "timeout"),
        execution_timeout=_duration(options, "execution_timeout"),
        heartbeat_timeout=_duration(options, "heartbeat_timeout"),
        stop_grace=parse_duration(options.get("stop_grace", "10s"), field="stop_grace"),
        batch=options.get("batch", 1),
        priority=one_of(Priority, options.get("priority", "normal").upper(), "priority", [one.lower() for one in Priority]),
        overlap=Overlap(
            policy=one_of(OverlapPolicy, options.get("overlap", "skip"), "overlap"),
            max_running=options.get("max_running"),
            max_queued=options.get("max_queued", 100),
            grace=parse_duration(options.get("kill_grace", "10s"), field="kill_grace"),
        ),
        catch_up=CatchUp(policy=one_of(CatchUpPolicy, options.get("catch_up", "latest"), "catch_up")),
        limits=_limits(function, options),
        after=dependencies_of(options.get("after")),
        description=None if description is None else description[:1024],
        source=source,
        alert=declared_alert(options.get("alert")),
    )


def _retry(given: Any) -> RetryPolicy:
    if isinstance(given, Retry):
        return given.policy
    kind_checked(given, (int,), "retry", "a number of attempts", 'Write retry=5, Retry(5, initial_delay="30s"), or retry=1 for no retry.')
    return RetryPolicy(max_attempts=given)


def _labels(given: Any) -> dict[str, str]:
    """Labels as a mapping, or as a list of those that must be there: `["gpu", "region=eu"]`."""
    hint = 'Write requires=["gpu"] or requires={"gpu": "", "region": "eu"}.'
    if given is None or isinstance(given, Mapping):
        labels = dict(given or {})
    else:
        if isinstance(given, str) or not isinstance(given, Sequence | set | frozenset):
            raise Invalid("DULY-E118", f"{repr(given)[:60]} is neither a list of labels nor a mapping.", field="requires", hint=hint)
        for one in given:
            kind_checked(one, (str,), "requires", "a label", hint)
        labels = {name: value for name, _, value in (one.partition("=") for one in given)}
    for both in (*labels, *labels.values()):
        kind_checked(both, (str,), "requires", "text", hint)
    return labels


def _limits(function: Callable[..., Any], options: dict[str, Any]) -> Limits:
    """The job's limits; a key that is no argument of the handler is a misspelling, and found here."""
    running, rate = options.get("concurrency"), rate_of(options.get("rate"))
    if running is not None:
        hint = 'Write max_concurrent=3 for the job as a whole, or Concurrency(3, key="user_id").'
        kind_checked(running, (Concurrency,), "concurrency", "a Concurrency", hint)
    limits = Limits(
        max_concurrent=options.get("max_concurrent"),
        concurrency=None if running is None else running.limit,
        rate=None if rate is None else rate.limit,
        unique=unique_of(options.get("unique"), options.get("unique_for")),
    )
    # The fields of a batch handler's items are its item's, not its own.
    return limits if options.get("batch", 1) > 1 else _located(limits, function)


def _located(limits: Limits, function: Callable[..., Any]) -> Limits:
    """The same with keys as paths into the payload. Of a handler that takes one model a key may name its fields."""
    keys = {"concurrency": limits.concurrency, "rate": limits.rate, "unique": limits.unique}
    if not any(limit is not None and limit.key for limit in keys.values()):
        return limits
    parameters = inspect.signature(function).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return limits
    model = Arguments(function).model
    located: dict[str, Any] = {}
    for name, limit in keys.items():
        if limit is not None and limit.key:
            paths = tuple(key if model is None else model.path(key) for key in limit.key)
            for path in paths:
                if path.partition(".")[0] not in parameters:
                    fields = "" if model is None else f", and no field of {model.kind.__name__}"
                    raise Invalid("DULY-E118", f"{path!r} is not an argument of the function{fields}.", field=name)
            located[name] = replace(limit, key=paths)
    return replace(limits, **located)


def _duration(options: dict[str, Any], key: str) -> Micros | None:
    value = options.get(key)
    return None if value is None else parse_duration(value, field=key)


def _timing(options: dict[str, Any]) -> Timing:
    given = [key for key in ("cron", "rrule", "every", "at") if options.get(key) is not None]
    if len(given) > 1:
        raise Invalid("DULY-E118", f"{given[0]} and {given[1]} contradict one another.", field=given[1])
    kind = _KINDS[given[0]] if given else JobType.ON_DEMAND
    if options.get("tz") is not None and kind not in (JobType.CRON, JobType.RRULE):
        raise Invalid("DULY-E118", "tz goes with cron and rrule only.", field="tz")
    every, cron = options.get("every"), options.get("cron")
    seconds, zone = options.get("seconds", False), options.get("tz") or "UTC"
    return Timing(
        type=kind,
        cron=None if cron is None else cron_text(cron, seconds=seconds, zone=zone),
        # A rule without a start is counted from 1970 too, on its zone's own clock.
        rule=options.get("rrule"),
        seconds=seconds,
        zone=zone,
        dst_gap=one_of(DstGap, options.get("dst_gap", "run_after"), "dst_gap"),
        dst_overlap=one_of(DstOverlap, options.get("dst_overlap", "first"), "dst_overlap"),
        every=None if every is None else parse_duration(every, field="every"),
        # Intervals of code are counted from 1970, so that every process and every deploy means the same instants.
        anchor=None if every is None else 0,
        run_at=_moment(options, "at"),
        start_at=_moment(options, "start_at"),
        end_at=_moment(options, "end_at"),
        calendars=_calendars(options.get("calendars")),
        on_excluded=one_of(OnExcluded, options.get("on_excluded", "skip"), "on_excluded"),
        jitter=parse_duration(options.get("jitter", 0), field="jitter"),
    )


def _calendars(given: Any) -> tuple[Calendar, ...]:
    several = [] if given is None else [given] if isinstance(given, str) else given
    hint = 'Write calendars=["holidays"].'
    kind_checked(several, (Sequence, set, frozenset), "calendars", "a list of names", hint)
    for name in several:
        kind_checked(name, (str,), "calendars", "the name of a calendar", hint)
    return tuple(Calendar(name=name) for name in dict.fromkeys(several))


_KINDS = {"cron": JobType.CRON, "rrule": JobType.RRULE, "every": JobType.INTERVAL, "at": JobType.ONE_TIME}


def _moment(options: dict[str, Any], key: str) -> Instant | None:
    value = options.get(key)
    if value is None:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise Invalid("DULY-E105", "must be a datetime with a zone.", field=key)
    return from_datetime(value)
