"""systemd's calendar expressions (systemd.time): weekdays, dates, `~` from the end of a month, ranges, repetitions, a zone.

systemd asks for weekday and date together, passes over a time that the clocks jump over, and fires once when they show it twice.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date
from typing import Any

from duly.domain.errors import Invalid
from duly.domain.imports import walls
from duly.domain.imports.timing import schedule_of
from duly.domain.imports.walls import Again, Gap, Readings
from duly.domain.zones import load_zone

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONG_DAYS = {
    "sunday": 0, "monday": 1, "tuesday": 2, "wednesday": 3, "thursday": 4, "friday": 5, "saturday": 6, "thurs": 4, "tues": 2, "thur": 4,
}  # fmt: skip
SHORTHANDS = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
}
_UNITS = {
    "us": 1e-6, "ms": 0.001, "s": 1, "sec": 1, "second": 1, "seconds": 1, "m": 60, "min": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hr": 3600, "hour": 3600, "hours": 3600, "d": 86_400, "day": 86_400, "days": 86_400, "w": 604_800, "week": 604_800,
    "weeks": 604_800, "month": 2_629_800, "months": 2_629_800, "y": 31_557_600, "year": 31_557_600, "years": 31_557_600,
}  # fmt: skip
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_DATE = re.compile(r"(?:(?P<year>[^-~\s]+)-)?(?P<month>[^-~\s]+)(?P<sign>[-~])(?P<day>[^-~\s]+)\Z")


@dataclass(frozen=True, slots=True)
class Calendar:
    """One expression: what it names. None is every one; days below 0 count from the end of the month (-1 is the last)."""

    weekdays: frozenset[int] | None
    years: frozenset[int] | None
    months: frozenset[int] | None
    days: frozenset[int] | None
    hours: frozenset[int]
    minutes: frozenset[int]
    seconds: frozenset[int]
    zone: str | None

    def is_day(self, day: date) -> bool:
        """Whether it names this day."""
        if self.years is not None and day.year not in self.years:
            return False
        if self.months is not None and day.month not in self.months:
            return False
        if self.weekdays is not None and day.isoweekday() % 7 not in self.weekdays:
            return False
        if self.days is None:
            return True
        return day.day in self.days or day.day - monthrange(day.year, day.month)[1] - 1 in self.days

    def fires(self, zone: str, after: int, until: int) -> list[int]:
        """When systemd elapses."""
        readings = Readings(self.hours, self.minutes, self.is_day, self.seconds)
        return walls.fires(readings, self.zone or zone, Gap.NOTHING, Again.FIRST, after, until)

    def timing(self, zone: str) -> dict[str, Any]:
        """As the API takes it. Raises ValueError when it has no equal here."""
        if self.years is not None:
            raise ValueError("it names years; bound a job with start_at and end_at instead, or run it once with run_at")
        body = schedule_of(
            seconds=self.seconds, minutes=self.minutes, hours=self.hours, days=self.days, months=self.months, weekdays=self.weekdays
        )
        return {**body, "timezone": self.zone or zone, "dstGap": "skip", "dstOverlap": "first"}


def read(text: str) -> Calendar:
    """Read an expression. Raises ValueError with the part that is not understood."""
    words = SHORTHANDS.get(text.strip().lower(), text.strip()).split()
    if not words:
        raise ValueError("it is empty")
    zone = None
    if len(words) > 1 and (words[-1] == "UTC" or ("/" in words[-1] and words[-1][0].isalpha())):
        zone = words.pop()
        try:
            load_zone(zone)
        except Invalid as error:
            raise ValueError(error.message.rstrip(".")) from error
    if len(words) == 1 and words[0].lower() in SHORTHANDS:
        words = SHORTHANDS[words[0].lower()].split()
    weekdays = _weekdays(words.pop(0)) if words and words[0][0].isalpha() else None
    years = months = days = None
    times: tuple[frozenset[int], frozenset[int], frozenset[int]] = (frozenset({0}), frozenset({0}), frozenset({0}))
    if words and ":" not in words[0]:
        years, months, days = _date(words.pop(0))
    if words:
        times = _time(words.pop(0))
    if words:
        raise ValueError(f"{words[0]!r} is not understood")
    return Calendar(weekdays, years, months, days, *times, zone)


def span(text: str) -> float:
    """A length of time such as `1h 30min` or `90`, in seconds."""
    rest = text.strip().lower()
    if not rest or _SPAN.sub("", rest).strip():
        raise ValueError(f"{text!r} is not a length of time")
    total = 0.0
    for number, unit in _SPAN.findall(rest):
        if (unit or "s") not in _UNITS:
            raise ValueError(f"{unit!r} is not a unit of time")
        total += float(number) * _UNITS[unit or "s"]
    return total


def _weekdays(text: str) -> frozenset[int]:
    found: set[int] = set()
    for item in text.rstrip(",").split(","):
        first, separator, last = item.partition("..")
        if not separator:
            first, separator, last = item.partition("-")
        low = _weekday(first)
        high = _weekday(last) if separator else low
        found.update((low + nth) % 7 for nth in range((high - low) % 7 + 1))
    return frozenset(found)


def _weekday(text: str) -> int:
    name = text.lower()
    if name in _DAYS:
        return _DAYS.index(name)
    if name in _LONG_DAYS:
        return _LONG_DAYS[name]
    raise ValueError(f"{text!r} is not a weekday")


def _date(text: str) -> tuple[frozenset[int] | None, frozenset[int] | None, frozenset[int] | None]:
    match = _DATE.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a date")
    years = None if match["year"] in (None, "*") else _component(match["year"], 1970, 2199)
    months = None if match["month"] == "*" else _component(match["month"], 1, 12)
    if match["day"] == "*" and match["sign"] == "-":
        return years, months, None
    if match["sign"] == "-":
        return years, months, _component(match["day"], 1, 31)
    return years, months, _from_the_end(match["day"])


def _from_the_end(text: str) -> frozenset[int]:
    """`~03` is the third last day; `~07/1` the seventh last and every day after it."""
    found: set[int] = set()
    for item in text.split(","):
        start, slash, step = item.partition("/")
        first, dots, last = start.partition("..")
        numbers = (
            [_whole(first, 1, 31)]
            if not dots
            else list(range(min(_whole(first, 1, 31), _whole(last, 1, 31)), max(int(first), int(last)) + 1))
        )
        if slash:
            numbers = list(range(numbers[-1], 0, -_whole(step, 1, 31)))
        found.update(-number for number in numbers)
    return frozenset(found)


def _time(text: str) -> tuple[frozenset[int], frozenset[int], frozenset[int]]:
    parts = text.split(":")
    if not 2 <= len(parts) <= 3:
        raise ValueError(f"{text!r} is not a time")
    if "." in parts[-1].replace("..", ""):
        raise ValueError("it names fractions of a second")
    seconds = _component(parts[2], 0, 59) if len(parts) == 3 else frozenset({0})
    return _component(parts[0], 0, 23), _component(parts[1], 0, 59), seconds


def _component(text: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for item in text.split(","):
        start, slash, step_text = item.partition("/")
        step = _whole(step_text, 1, 10_000) if slash else 1
        if start == "*":
            first, last = low, high
        else:
            first_text, dots, last_text = start.partition("..")
            first = _whole(first_text, low, high)
            last = _whole(last_text, low, high) if dots else (high if slash else first)
        if first > last:
            raise ValueError(f"{item!r} runs backwards")
        found.update(range(first, last + 1, step))
    return frozenset(found)


def _whole(text: str, low: int, high: int) -> int:
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise ValueError(f"{text!r} is not a number from {low} to {high}")
    return int(text)
