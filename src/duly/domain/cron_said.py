"""What a phrase has said about a schedule, part by part, and the cron expression that means the same.

One expression cannot say everything: times that are no grid of hours and minutes, steps that do not divide the hour. Such a phrase
is refused, with what to write instead; none is rounded to something near.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from duly.domain.cron_fields import refuse, shown
from duly.domain.errors import Invalid

EXAMPLES = 'Write it like "every weekday at 07:30" or "every 15 minutes between 9 and 17", or as a cron expression: "30 7 * * 1-5".'


class Time(NamedTuple):
    """A time of day."""

    hour: int
    minute: int
    second: int = 0


class Window(NamedTuple):
    """A part of the day. `from a to b` names its last time; `between a and b` ends before b."""

    start: Time
    end: Time
    has_end: bool


@dataclass(slots=True)
class Said:
    """The parts of a phrase; what was not said is None."""

    step: tuple[int, str] | None = None
    times: list[Time] | None = None
    seconds: list[int] | None = None
    minutes: list[int] | None = None
    hours: list[int] | None = None
    window: Window | None = None
    every_day: bool | None = None
    weekdays: list[int] | None = None
    days: list[int] | None = None
    # Days that only a month decides, as the two day fields have them: "L", "15W", "1#2".
    day_forms: list[str] = field(default_factory=list)
    weekday_forms: list[str] = field(default_factory=list)
    months: list[int] | None = None
    # "every month", "every year": what has to be said beside it.
    period: str | None = None

    def set(self, part: str, value: object) -> None:
        """Say a part, which is said once. Raises Invalid the second time."""
        if getattr(self, part) is not None:
            raise refuse(f"the schedule says {_PARTS[part]} twice.", "Make two jobs of it, or list them: at 09:00 and 17:00.")
        setattr(self, part, value)


_PARTS = {
    "step": "how often",
    "times": "at what time",
    "seconds": "the seconds",
    "minutes": "the minutes",
    "hours": "the hours",
    "window": "from when to when",
    "every_day": "the days",
    "weekdays": "the weekdays",
    "days": "the days of the month",
    "months": "the months",
    "period": "how often",
}


def expression(said: Said, *, seconds: bool) -> str:
    """The expression of five fields, or of six. Raises Invalid (DULY-E101) when none says the same."""
    days = _days(said)
    second, minute, hour = _repeated(said, *said.step) if said.step is not None else _named(said)
    if second != "0" and not seconds:
        raise refuse("cron counts in minutes.", 'Seconds need "seconds": true (seconds=True in Python), or an interval: every="10s".')
    return " ".join([*([second] if seconds else []), minute, hour, *days])


# --- days -------------------------------------------------------------------------------------


def _days(said: Said) -> tuple[str, str, str]:
    by_month = said.days is not None
    months = "*" if said.months is None else _items(said.months)
    if by_month and said.weekdays is not None:
        hint = "Cron would take either. Name one kind of days, or say which weekday of the month: on the first monday of the month."
        raise refuse("the schedule names weekdays and days of the month.", hint)
    if said.every_day and (by_month or said.weekdays is not None):
        raise refuse("the schedule says every day, and names days.", "Leave one of them out.")
    if said.period == "week" and said.weekdays is None:
        raise refuse("the schedule does not say on which day of the week.", 'Name it: "every monday at 09:00".')
    if said.period in ("month", "year") and not by_month:
        raise refuse(f"the schedule does not say on which day of the {said.period}.", 'Name it: "on the 1st of every month at 06:00".')
    if said.period == "year" and said.months is None:
        raise refuse("the schedule does not say in which month.", 'Name it: "every year on 1 January at 00:00".')
    if not by_month:
        return "*", months, "*" if said.weekdays is None else _items(said.weekdays)
    day = ",".join(part for part in [_items(said.days or ()), *said.day_forms] if part)
    return day or "*", months, ",".join(said.weekday_forms) or "*"


# --- the clock --------------------------------------------------------------------------------


def _named(said: Said) -> tuple[str, str, str]:
    """Second, minute and hour of the times of day that are named."""
    if said.times is None:
        return _listed_clock(said)
    if said.window is not None or said.minutes is not None or said.hours is not None or said.seconds is not None:
        raise refuse("the schedule names times, and a part of the day as well.", EXAMPLES)
    times = set(said.times or ())
    hours, minutes, seconds = ({time[part] for time in times} for part in range(3))
    if len(hours) * len(minutes) * len(seconds) != len(times):
        listed = " and ".join(f"{time.hour:02}:{time.minute:02}" for time in sorted(times))
        other = min({(hour, minute) for hour in hours for minute in minutes} - {time[:2] for time in times}, default=None)
        also = "" if other is None else f": it would run at {other[0]:02}:{other[1]:02} too"
        raise refuse(f"one expression cannot say {listed[:80]}{also}.", "Make a job for each of these times.")
    return _items(seconds), _items(minutes), _items(hours)


def _listed_clock(said: Said) -> tuple[str, str, str]:
    """`at minutes 0 and 30 of hours 9 to 17`."""
    if said.window is not None or said.seconds is not None or said.minutes is None or said.hours is None:
        raise refuse("the schedule does not say at what time.", 'Add it: "every day at 00:00", "every monday at 9am".')
    return "0", _items(said.minutes), _items(said.hours)


def _repeated(said: Said, count: int, unit: str) -> tuple[str, str, str]:
    if said.times is not None:
        hint = 'Write "every hour at minute 30", or the times: "every day at 09:00 and 17:00".'
        raise refuse("the schedule says how often, and a time of day as well.", hint)
    if said.window is not None and _goes_over_midnight(said.window) and (said.weekdays or said.days is not None or said.months):
        hint = "Make two jobs, one for each side of midnight, and say which days each has."
        raise refuse("the schedule goes over midnight on some days only, and cron counts days from midnight.", hint)
    if unit == "hour":
        return _by_hours(said, count)
    step = "*" if count == 1 else f"*/{count}"
    if 60 % count or count == 60:
        raise _uneven(count, unit, 60, {"second": "minute", "minute": "hour"}[unit])
    if unit == "minute":
        if said.minutes is not None or (said.seconds is not None and count > 1):
            raise refuse("the schedule says how often, and minutes as well.", 'Write "every hour at minutes 0 and 30".')
        return _items(said.seconds or [0]), step, _hours_around(said, 60 - count)
    if said.minutes is not None or said.seconds is not None or said.hours is not None or said.window is not None:
        raise refuse("seconds in a part of the day take a cron expression.", 'For example "*/10 * 9-16 * * *", with "seconds": true.')
    return step, "*", "*"


def _goes_over_midnight(window: Window) -> bool:
    return window.start > window.end and (window.has_end or window.end > Time(0, 0))


def _hours_around(said: Said, last_minute: int) -> str:
    """The whole hours of a part of the day in which something runs every few minutes."""
    if said.hours is not None and said.window is not None:
        raise refuse("the schedule names hours twice.", EXAMPLES)
    if said.window is None:
        return "*" if said.hours is None else _items(said.hours)
    start, end, has_end = said.window
    if start.minute or start.second or (end.minute or end.second if not has_end else not end.minute >= last_minute):
        ends = f"{(end.hour - (not end.minute)) % 24:02}:{last_minute:02}"
        hint = f'Write "between {start.hour:02}:00 and {(end.hour + bool(end.minute)) % 24:02}:00", or "from {start.hour:02}:00 to {ends}".'
        raise refuse("cron takes whole hours for something that runs every few minutes.", hint)
    return _items(_around(start.hour, end.hour if has_end else (end.hour - 1) % 24))


def _by_hours(said: Said, count: int) -> tuple[str, str, str]:
    if said.hours is not None or said.seconds is not None:
        raise refuse("the schedule says how often, and hours or seconds as well.", 'Write "every hour at minute 30".')
    if said.window is None:
        if 24 % count or count == 24:
            raise _uneven(count, "hour", 24, "day")
        return "0", _items(said.minutes or [0]), "*" if count == 1 else f"*/{count}"
    start, end, has_end = said.window
    if start.second or end.second or (said.minutes is not None and (has_end or start.minute or end.minute)):
        raise refuse("minutes and a part of the day contradict one another.", 'Write "every hour from 09:30 to 17:30".')
    first, last = start.hour * 60 + start.minute, end.hour * 60 + end.minute
    if last < first or (last == first and not has_end):
        last += 24 * 60
    reached = range(first, min(last + has_end, first + 24 * 60), count * 60)
    return "0", _items(said.minutes or [start.minute]), _items(minute // 60 % 24 for minute in reached)


def _around(first: int, last: int) -> list[int]:
    return [(first + nth) % 24 for nth in range((last - first) % 24 + 1)]


def _uneven(count: int, unit: str, width: int, around: str) -> Invalid:
    even = [number for number in range(1, width) if width % number == 0]
    below, above = max((n for n in even if n <= count), default=1), min((n for n in even if n > count), default=None)
    near = " or ".join(f'"every {n} {unit}s"' if n > 1 else f'"every {unit}"' for n in (below, above) if n is not None)
    why = f"cron starts again with each {around}" if count < width else f"cron has no steps wider than the {around}"
    hint = f'Use an interval: every="{count}{unit[0]}" (intervalSec), or {near}.'
    if (count, unit) == (24, "hour"):
        hint = 'Write "every day at 00:00", or use an interval: every="24h".'
    return refuse(f"{shown(f'every {count} {unit}s')} is not even: {why}.", hint)


def _items(values: Iterable[int]) -> str:
    """Numbers as a field has them: runs of three and more as a range. Never a star: one is said, and makes the expression wild."""
    ordered = sorted(set(values))
    parts: list[str] = []
    start = 0
    while start < len(ordered):
        end = start
        while end + 1 < len(ordered) and ordered[end + 1] == ordered[end] + 1:
            end += 1
        parts += [f"{ordered[start]}-{ordered[end]}"] if end - start > 1 else map(str, ordered[start : end + 1])
        start = end + 1
    return ",".join(parts)
