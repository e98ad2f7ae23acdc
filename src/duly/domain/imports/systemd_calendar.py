"""systemd's calendar expressions (systemd.time): weekdays, dates, `~` from the end of a month, ranges, repetitions, a zone.

systemd asks for weekday and date together, passes over a time that the clocks jump over, and fires once when they show it twice.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from duly.domain.errors import Invalid
from duly.domain.imports import walls
from duly.domain.imports.timing import schedule_of
from duly.domain.imports.walls import Again, Gap, Readings
from duly.domain.zones import load_zone

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SHORTHANDS = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    **dict.fromkeys(("semiannually", "semi-annually", "biannually", "bi-annually"), "*-01,07-01 00:00:00"),
}
_UNITS = {
    "us": 1e-6, "ms": 0.001, "s": 1, "sec": 1, "second": 1, "seconds": 1, "m": 60, "min": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hr": 3600, "hour": 3600, "hours": 3600, "d": 86_400, "day": 86_400, "days": 86_400, "w": 604_800, "week": 604_800,
    "weeks": 604_800, "month": 2_629_800, "months": 2_629_800, "y": 31_557_600, "year": 31_557_600, "years": 31_557_600,
}  # fmt: skip
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_ITEM = re.compile(r"([0-9]{1,9})(?:\.\.([0-9]{1,9}))?(?:/([0-9]{1,9}))?")
# Days from the end of a month are such as every month has.
_MOST_FROM_THE_END = 28
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
    zone = _zone(words.pop()) if len(words) > 1 and _is_zone(words[-1]) else None
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


def _is_zone(word: str) -> bool:
    return word[0].isalpha() and ("/" in word or not _is_weekday(word))


def _is_weekday(word: str) -> bool:
    return word[:3].lower() in {day[:3] for day in _DAYS}


def _zone(name: str) -> str:
    if name.upper() == "UTC":
        return "UTC"
    try:
        load_zone(name)
    except Invalid as error:
        raise ValueError(error.message.rstrip(".")) from error
    return name


def _weekdays(text: str) -> frozenset[int]:
    found: set[int] = set()
    for item in text.removesuffix(",").split(","):
        first, separator, last = item.partition(".." if ".." in item else "-")
        low = _weekday(first)
        high = _weekday(last) if separator else low
        if high < low:
            # systemd calls this an invalid argument: the timer has never elapsed.
            raise ValueError(f"{item!r} runs backwards, and systemd's weeks end on Sunday")
        found.update((number + 1) % 7 for number in range(low, high + 1))
    return frozenset(found)


def _weekday(text: str) -> int:
    """Monday is 0. systemd knows whole names and those of three letters."""
    for number, day in enumerate(_DAYS):
        if text.lower() in (day, day[:3]):
            return number
    raise ValueError(f"{text!r} is not a weekday")


def _date(text: str) -> tuple[frozenset[int] | None, frozenset[int] | None, frozenset[int] | None]:
    match = _DATE.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a date")
    years = None if match["year"] in (None, "*") else _component(match["year"], 1970, 2199)
    months = None if match["month"] == "*" else _component(match["month"], 1, 12)
    if match["day"] == "*":
        return years, months, None
    if match["sign"] == "-":
        return years, months, _component(match["day"], 1, 31)
    return years, months, _from_the_end(match["day"])


def _from_the_end(text: str) -> frozenset[int]:
    """`~03` is the third last day; `~07/1` the seventh last and every day after it."""
    found: set[int] = set()
    for start, stop, step in _items(text, 1, _MOST_FROM_THE_END, ahead=-1):
        found.update(range(-start, 0, step) if stop is None else range(-stop, -start + 1, step))
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
    if text == "*":
        return frozenset(range(low, high + 1))
    found: set[int] = set()
    for start, stop, step in _items(text, low, high):
        found.update(range(start, (high if stop is None else stop) + 1, step))
    return frozenset(found)


def _items(text: str, low: int, high: int, *, ahead: int = 1) -> Iterator[tuple[int, int | None, int]]:
    """(from, to, step) of each item; without a `to` the steps go on to the end. A star stands alone: systemd does not take `*/15`.

    A first step that leads out of the field is refused, as systemd does; `ahead` says where days that count from the end of a month go.
    """
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            hint = f"; systemd takes {low}{item[1:]}" if item.startswith("*/") else ""
            raise ValueError(f"{item!r} is not understood by systemd{hint}")
        start, stop, step = int(match[1]), None if match[2] is None else int(match[2]), None if match[3] is None else int(match[3])
        if step == 0:
            raise ValueError(f"{item!r} has a step of 0")
        if stop is None and step is None:
            stop = start
        if stop is not None and stop >= start:
            # What no step reaches is not looked at: 5..24/2 ends at 23.
            stop -= (stop - start) % (step or 1)
        if stop is not None and stop < start:
            raise ValueError(f"{item!r} runs backwards")
        reached = start + ahead * (step or 1) if stop is None else stop
        if not (low <= start <= high and low <= reached <= high):
            raise ValueError(f"{item!r} is not within {low} to {high}")
        yield start, stop, step or 1
