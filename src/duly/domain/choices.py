"""What people choose from: every enumeration that stands in a definition, on the wire as in the domain.

Apart from the policies that they belong to: whoever only reads and writes definitions, such as a client, needs these and no more.
"""

from __future__ import annotations

from enum import StrEnum


class JobType(StrEnum):
    """How a job comes to fire."""

    CRON = "CRON"
    RRULE = "RRULE"
    INTERVAL = "INTERVAL"
    ONE_TIME = "ONE_TIME"
    DELAYED = "DELAYED"
    ON_DEMAND = "ON_DEMAND"


class Priority(StrEnum):
    """Priority is a head start in time, so nobody starves."""

    CRITICAL = "CRITICAL"
    HIGH = "HIGH"
    NORMAL = "NORMAL"
    LOW = "LOW"


class Weekday(StrEnum):
    """The days of the week, in their order."""

    MON = "MON"
    TUE = "TUE"
    WED = "WED"
    THU = "THU"
    FRI = "FRI"
    SAT = "SAT"
    SUN = "SUN"


class OnExcluded(StrEnum):
    """What becomes of a fire on an excluded day."""

    SKIP = "skip"
    NEXT_BUSINESS_DAY = "next_business_day"
    PREVIOUS_BUSINESS_DAY = "previous_business_day"


class DstGap(StrEnum):
    """What becomes of a fixed local time that the clocks jump over."""

    RUN_AFTER = "run_after"  # fires at the first instant after the gap
    SKIP = "skip"  # does not fire that day
    SHIFT = "shift"  # fires as much later as the clocks jumped


class DstOverlap(StrEnum):
    """Which occurrence of a fixed local time fires when the clocks show it twice."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class CatchUpPolicy(StrEnum):
    """Which of the targets that an outage swallowed still run."""

    LATEST = "latest"
    ALL = "all"
    NONE = "none"


class OverlapPolicy(StrEnum):
    """`allow` lets them run side by side, up to a number if one is given; the others let one execution of the job be live."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue_one"
    QUEUE_ALL = "queue_all"
    CANCEL_PREVIOUS = "cancel_previous"
    KILL_PREVIOUS = "kill_previous"


class Backoff(StrEnum):
    """How the wait grows with the number of failures."""

    EXPONENTIAL = "EXPONENTIAL"
    LINEAR = "LINEAR"
    FIXED = "FIXED"


class Per(StrEnum):
    """Which times belong together."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class OnDeadline(StrEnum):
    """What becomes of a fire that has waited in vain."""

    SKIP = "skip"
    RUN = "run"


class Rule(StrEnum):
    """Which ends of its parents let a step run."""

    ALL_SUCCEEDED = "all_succeeded"
    ALL_DONE = "all_done"
    ANY_SUCCEEDED = "any_succeeded"
    ANY_FAILED = "any_failed"


class OnTimeout(StrEnum):
    """What becomes of a step that waited in vain for somebody: it fails, or goes on as if it had been asked to."""

    FAIL = "fail"
    CONTINUE = "continue"
