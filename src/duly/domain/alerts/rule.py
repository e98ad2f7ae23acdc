"""Rules: what is watched, how patiently, and who is told."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from duly.domain.calendars import Calendar, check_calendar, parse_calendar_name
from duly.domain.errors import Invalid
from duly.domain.instants import DAY, HOUR, MINUTE, Micros
from duly.domain.naming import NAME, POOL

BAD_RULE = "DULY-E160"
RULE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
LONGEST: Micros = 31 * DAY
MOST_JOBS = 50
MOST_CHANNELS = 20
MOST_CALENDARS = 8
LONGEST_NOTE = 1000
MOST_RUNS = 50


class Kind(StrEnum):
    """What a rule watches."""

    FINAL_FAILURE = "final_failure"
    FAILURES = "failures"
    FAILURE_RATE = "failure_rate"
    LATE = "late"
    MISSED = "missed"
    OVERRUN = "overrun"
    NO_SUCCESS = "no_success"
    DEAD_LETTERS = "dead_letters"
    POOL_SATURATED = "pool_saturated"
    WORKER_GONE = "worker_gone"
    STORE_UNHEALTHY = "store_unhealthy"


OF_JOBS = frozenset({Kind.FINAL_FAILURE, Kind.FAILURES, Kind.FAILURE_RATE, Kind.LATE, Kind.MISSED, Kind.OVERRUN, Kind.NO_SUCCESS})
OF_POOLS = frozenset({Kind.POOL_SATURATED, Kind.WORKER_GONE})


class GroupBy(StrEnum):
    """What becomes one incident: each job's trouble, all that has one cause, all of one pool, or all that the rule watches."""

    JOB = "job"
    CAUSE = "cause"
    POOL = "pool"
    ALL = "all"


# What is expected may take so many times as long, where a rule does not say how many.
FACTOR = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """When it is trouble. Which of the numbers matter is said by the kind.

    `after`: late, missed, overrun, no_success, pool_saturated; None means for overrun `factor` times what is expected.
    `count`: failures in a row, dead letters, lost workers. `window`: failure_rate, dead_letters, worker_gone.
    `percent` and `least`: failure_rate.
    """

    kind: Kind
    after: Micros | None = None
    factor: float = FACTOR
    count: int | None = None
    percent: float | None = None
    least: int = 10
    window: Micros | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """When it is over: after so many good runs in a row, below this percentage, and once that has held for so long."""

    runs: int = 1
    percent: float | None = None
    after: Micros = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of a tenant. Without jobs and pools it watches all of them; `quiet` and `calendars` say when nobody is told."""

    name: str
    condition: Condition
    jobs: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    grace: Micros = 0
    recovery: Recovery = field(default_factory=Recovery)
    group_by: GroupBy = GroupBy.JOB
    channels: tuple[str, ...] = ()
    # The times of calendars (holidays, windows) are maintenance: nobody is told then.
    calendars: tuple[str, ...] = ()
    quiet: Calendar | None = None
    owner: str | None = None
    note: str | None = None
    enabled: bool = True
    # Of whose code it comes; None: somebody made it.
    source: str | None = None

    @property
    def kind(self) -> Kind:
        """What it watches."""
        return self.condition.kind

    @property
    def window(self) -> Micros:
        """How far back it looks."""
        return self.condition.window or DEFAULT_WINDOWS.get(self.kind, DAY)


DEFAULT_WINDOWS = {Kind.FAILURE_RATE: HOUR, Kind.DEAD_LETTERS: HOUR, Kind.WORKER_GONE: HOUR}
DEFAULT_AFTER: dict[Kind, Micros] = {Kind.LATE: 5 * MINUTE, Kind.MISSED: 15 * MINUTE, Kind.POOL_SATURATED: 10 * MINUTE}
DEFAULT_GRACE: dict[Kind, Micros] = {Kind.STORE_UNHEALTHY: MINUTE // 2}
DEFAULT_COUNTS = {Kind.FAILURES: 3, Kind.DEAD_LETTERS: 10, Kind.WORKER_GONE: 1}

# Which numbers go with which kind; every other one is a mistake.
_TAKES: dict[Kind, frozenset[str]] = {
    Kind.FINAL_FAILURE: frozenset(),
    Kind.FAILURES: frozenset({"count"}),
    Kind.FAILURE_RATE: frozenset({"percent", "window"}),
    Kind.LATE: frozenset({"after"}),
    Kind.MISSED: frozenset({"after"}),
    Kind.OVERRUN: frozenset({"after"}),
    Kind.NO_SUCCESS: frozenset({"after"}),
    Kind.DEAD_LETTERS: frozenset({"count", "window"}),
    Kind.POOL_SATURATED: frozenset({"after"}),
    Kind.WORKER_GONE: frozenset({"count", "window"}),
    Kind.STORE_UNHEALTHY: frozenset(),
}
_ON_THE_WIRE = {"after": "afterSec", "window": "windowSec", "count": "count", "percent": "percent"}


def parse_rule_name(text: str, field: str = "name") -> str:
    """The name of a rule or a channel; raises Invalid for anything else."""
    if not RULE_NAME.match(text):
        hint = "1 to 64 letters, digits and . _ -, starting with a letter or digit."
        raise Invalid("DULY-E114", f"{text[:40]!r} is not a name.", field=field, hint=hint)
    return text


def check_rule(rule: Rule) -> None:
    """Refuse what cannot be watched. Raises Invalid that names the field."""
    parse_rule_name(rule.name)
    _check_condition(rule.condition)
    _check_scope(rule)
    for field_name, value in (("graceSec", rule.grace), ("recovery.afterSec", rule.recovery.after)):
        if not 0 <= value <= DAY:
            raise _refuse(field_name, "must be between 0 and a day.")
    if not 1 <= rule.recovery.runs <= MOST_RUNS:
        raise _refuse("recovery.runs", f"must be between 1 and {MOST_RUNS}.")
    if rule.recovery.percent is not None and not _recovers_below(rule):
        raise _refuse("recovery.percent", "goes with failure_rate only, and lies below its percentage.")
    if len(rule.channels) > MOST_CHANNELS or len(set(rule.channels)) < len(rule.channels):
        raise _refuse("channels", f"names at most {MOST_CHANNELS} channels, each once.")
    for name in rule.channels:
        parse_rule_name(name, "channels")
    if len(rule.calendars) > MOST_CALENDARS:
        raise _refuse("calendars", f"names at most {MOST_CALENDARS} calendars.")
    for name in rule.calendars:
        parse_calendar_name(name, "calendars")
    if rule.quiet is not None:
        check_calendar(rule.quiet)
    for field_name, text in (("owner", rule.owner), ("note", rule.note)):
        if text is not None and (len(text) > LONGEST_NOTE or "\x00" in text):
            raise _refuse(field_name, f"is at most {LONGEST_NOTE} characters of text.")


def _check_condition(condition: Condition) -> None:
    kind = condition.kind
    for name, on_the_wire in _ON_THE_WIRE.items():
        if getattr(condition, name) is not None and name not in _TAKES[kind]:
            raise _refuse(on_the_wire, f"does not go with {kind.value}.")
    for name in ("after", "window"):
        value = getattr(condition, name)
        if value is not None and not 0 < value <= LONGEST:
            raise _refuse(_ON_THE_WIRE[name], "must be more than 0 and at most 31 days.")
    if kind is Kind.NO_SUCCESS and condition.after is None:
        raise _refuse("afterSec", "says how long is too long without a success.")
    if kind is Kind.FAILURE_RATE and (condition.percent is None or not 0 < condition.percent <= 100):
        raise _refuse("percent", "must be more than 0 and at most 100.")
    if condition.count is not None and not 1 <= condition.count <= (MOST_RUNS if kind is Kind.FAILURES else 10_000):
        raise _refuse("count", f"must be between 1 and {MOST_RUNS if kind is Kind.FAILURES else 10_000}.")
    if not 1 <= condition.least <= MOST_RUNS:
        raise _refuse("least", f"must be between 1 and {MOST_RUNS}.")
    if not 1 <= condition.factor <= 100:
        raise _refuse("factor", "must be between 1 and 100.")


def _check_scope(rule: Rule) -> None:
    if rule.jobs and rule.kind not in OF_JOBS:
        raise _refuse("jobs", f"does not go with {rule.kind.value}.")
    if rule.pools and rule.kind not in OF_POOLS:
        raise _refuse("pools", f"does not go with {rule.kind.value}.")
    if rule.kind is Kind.NO_SUCCESS and not rule.jobs:
        raise _refuse("jobs", "must name the jobs that have to succeed.")
    if rule.group_by is not GroupBy.JOB and rule.kind not in OF_JOBS:
        raise _refuse("groupBy", f"does not go with {rule.kind.value}.")
    if len(rule.jobs) > MOST_JOBS or len(rule.pools) > MOST_JOBS:
        raise _refuse("jobs", f"names at most {MOST_JOBS}.", hint="A rule that names none watches all of them.")
    for name in rule.jobs:
        if not NAME.match(name):
            raise Invalid("DULY-E114", f"{name[:40]!r} is not a job name.", field="jobs")
    for pool in rule.pools:
        if not POOL.match(pool):
            raise Invalid("DULY-E114", f"{pool[:40]!r} is not a pool name.", field="pools")


def _recovers_below(rule: Rule) -> bool:
    percent, over = rule.condition.percent, rule.recovery.percent
    return rule.kind is Kind.FAILURE_RATE and percent is not None and over is not None and 0 <= over <= percent


def _refuse(field_name: str, message: str, hint: str | None = None) -> Invalid:
    return Invalid(BAD_RULE, message, field=field_name, hint=hint)
