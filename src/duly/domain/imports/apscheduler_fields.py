"""The cron trigger of APScheduler 3: eight fields, weekdays from Monday on, days such as `last` and `2nd fri`, all of which must match.

It reckons on the wall clock of its zone. Of the times that the clocks jump over the first is as much later; what comes twice runs twice.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from duly.domain.imports import walls
from duly.domain.imports.timing import listed, schedule_of
from duly.domain.imports.walls import Again, Gap, Readings

FIELDS = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")
_DEFAULTS = {"year": "*", "month": "1", "day": "1", "week": "*", "day_of_week": "*", "hour": "0", "minute": "0", "second": "0"}
_BOUNDS = {
    "year": (1970, 9999), "month": (1, 12), "day": (1, 31), "week": (1, 53), "day_of_week": (0, 6), "hour": (0, 23), "minute": (0, 59),
    "second": (0, 59),
}  # fmt: skip
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NTH = ("1st", "2nd", "3rd", "4th", "5th", "last")
_POSITION = re.compile(rf"({'|'.join(_NTH)}) +({'|'.join(_WEEKDAYS)})\Z", re.IGNORECASE)
_RANGE = re.compile(r"(\w+)(?:-(\w+))?(?:/(\d+))?\Z")


@dataclass(frozen=True, slots=True)
class CronTrigger:
    """A trigger: what it names. `positions` are (which one of the month, weekday from Monday on); 6 is the last."""

    years: frozenset[int] | None
    months: frozenset[int]
    days: frozenset[int]
    weekdays: frozenset[int]
    hours: frozenset[int]
    minutes: frozenset[int]
    seconds: frozenset[int]
    has_last_day: bool
    positions: frozenset[tuple[int, int]]

    def is_day(self, day: date) -> bool:
        """Whether it names this day."""
        if day.month not in self.months or day.weekday() not in self.weekdays or (self.years is not None and day.year not in self.years):
            return False
        length = monthrange(day.year, day.month)[1]
        if day.day in self.days or (self.has_last_day and day.day == length):
            return True
        nth = (day.day - 1) // 7 + 1
        return (nth, day.weekday()) in self.positions or (day.day + 7 > length and (6, day.weekday()) in self.positions)

    def fires(self, zone: str, after: int, until: int) -> list[int]:
        """When it fires."""
        readings = Readings(self.hours, self.minutes, self.is_day, self.seconds)
        return walls.fires(readings, zone, Gap.FIRST_LATER, Again.BOTH, after, until)

    def timing(self) -> dict[str, Any]:
        """As the API takes it, without its years. Raises ValueError when it has no equal here."""
        months = None if len(self.months) == 12 else self.months
        weekdays = None if len(self.weekdays) == 7 else frozenset((day + 1) % 7 for day in self.weekdays)
        if not self.positions:
            days: frozenset[int] | None = self.days | ({-1} if self.has_last_day else set())
            if len(self.days) == 31:
                days = None
            return schedule_of(seconds=self.seconds, minutes=self.minutes, hours=self.hours, days=days, months=months, weekdays=weekdays)
        if self.days or self.has_last_day or weekdays is not None:
            raise ValueError("it joins days such as `2nd fri` with others; make two jobs of it")
        named = [f"{(day + 1) % 7}L" if nth == 6 else f"{(day + 1) % 7}#{nth}" for nth, day in sorted(self.positions)]
        star = len(self.hours) == 24
        fields = [
            listed(self.minutes, 0, 59, star=star),
            listed(self.hours, 0, 23, star=star),
            "*",
            listed(self.months, 1, 12),
            ",".join(named),
        ]
        if self.seconds == {0}:
            return {"schedule": " ".join(fields)}
        return {"schedule": " ".join([listed(self.seconds, 0, 59, star=star), *fields]), "seconds": True}


def read(given: Mapping[str, Any]) -> CronTrigger:
    """Read the fields of a trigger: what stands after the last one given has its smallest value, the others are stars."""
    left = {key: str(value) for key, value in given.items() if value is not None}
    texts: dict[str, str] = {}
    for field in FIELDS:
        if field in left:
            texts[field] = left.pop(field)
        else:
            texts[field] = "*" if left else _DEFAULTS[field]
    if texts["week"] != "*":
        raise ValueError("it names weeks of the year; there is no schedule for that here")
    days: set[int] = set()
    positions: set[tuple[int, int]] = set()
    has_last = False
    for item in re.split(r"\s*,\s*", texts["day"].strip()):
        if item.lower() == "last":
            has_last = True
        elif match := _POSITION.match(item):
            positions.add((_NTH.index(match[1].lower()) + 1, _WEEKDAYS.index(match[2].lower())))
        else:
            days |= _values(item, "day")
    return CronTrigger(
        years=None if texts["year"] == "*" else _values(texts["year"], "year"),
        months=_values(texts["month"], "month"),
        days=frozenset(days),
        weekdays=_values(texts["day_of_week"], "day_of_week"),
        hours=_values(texts["hour"], "hour"),
        minutes=_values(texts["minute"], "minute"),
        seconds=_values(texts["second"], "second"),
        has_last_day=has_last,
        positions=frozenset(positions),
    )


def from_crontab(text: str) -> CronTrigger:
    """Five fields, where weekdays are APScheduler's: 0 is Monday, and both kinds of days must match."""
    parts = text.split()
    if len(parts) != 5:
        raise ValueError(f"from_crontab takes five fields, and it has {len(parts)}")
    return read({"minute": parts[0], "hour": parts[1], "day": parts[2], "month": parts[3], "day_of_week": parts[4]})


def _values(text: str, field: str) -> frozenset[int]:
    low, high = _BOUNDS[field]
    found: set[int] = set()
    for item in re.split(r"\s*,\s*", text.strip()):
        star, slash, step_text = item.partition("/")
        if star == "*" and (not slash or step_text.isdigit()):
            found.update(range(low, high + 1, int(step_text) if slash and int(step_text) else 1))
            continue
        match = _RANGE.match(item)
        if match is None:
            raise ValueError(f"{field}={item!r} is not understood")
        first = _number(match[1], field)
        last = _number(match[2], field) if match[2] else (high if match[3] else first)
        if not low <= first <= last <= high:
            raise ValueError(f"{field}={item!r} is out of range or runs backwards")
        found.update(range(first, last + 1, max(1, int(match[3] or 1))))
    return frozenset(found)


def _number(text: str, field: str) -> int:
    names = _WEEKDAYS if field == "day_of_week" else _MONTHS if field == "month" else ()
    if text.lower() in names:
        return names.index(text.lower()) + (1 if names is _MONTHS else 0)
    if not text.isascii() or not text.isdigit() or len(text) > 4:
        raise ValueError(f"{field}={text!r} is not understood")
    return int(text)
