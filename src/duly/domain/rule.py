"""Recurrence rules (RFC 5545, RRULE) as values: parse one, and walk the local times it names.

    parse_rule("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9", start, "Europe/Berlin")

The days come from python-dateutil, one year at a time, so that a rule that began long ago costs no
more than one that begins today: a year is expanded as if INTERVAL were 1, and the periods that
INTERVAL passes over are taken out by counting from the start. Years of one shape have the same days. Like a `Cron`, a `Rule` names readings
of a wall clock and knows no change of the clocks; `dst` decides about these.

Two things are said more exactly here than in the RFC: the start is a fire only when the rule names
it, and an UNTIL that is a date holds for the whole of that day. One is kept where the library does not
keep it: `BYDAY=MO,-1FR` is every Monday and the last Friday.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import isleap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple, assert_never

from duly.domain.errors import Invalid
from duly.domain.rule_parts import Freq, Parts, Until, read_parts
from duly.domain.zones import DAY_SECONDS, LocalSecond, offset_at

CANNOT_FIRE = "DULY-E102"
# A COUNT is counted from the start, and nobody counts further than this.
COUNTED_YEARS = 100
# A leap day on some weekday of every n-th year comes round within the Gregorian cycle, or never.
SEARCH_YEARS = 400

_LAST_YEAR = 9998
_LAST: LocalSecond = int(datetime(_LAST_YEAR, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())
_EPOCH_DAY = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that can fire, from `start` to `last`: readings of a wall clock, in seconds since 1970-01-01 00:00 on it."""

    text: str
    start: LocalSecond
    last: LocalSecond
    parts: Parts = field(compare=False, repr=False)

    # A rule names fixed times; it never follows the wall clock through a change.
    is_wild = False

    def __str__(self) -> str:
        return self.text

    @property
    def times(self) -> tuple[int, ...]:
        """The seconds of a day at which it fires."""
        return self.parts.times(_time_of(self.start))

    def matches(self, local: LocalSecond) -> bool:
        """True when this wall clock reading is one that the rule names."""
        return self.at_or_after(local) == local

    def at_or_after(self, local: LocalSecond) -> LocalSecond | None:
        """The least named reading that is not before `local`; None when there is none, or none in 400 years."""
        local = max(local, self.start)
        if local > self.last:
            return None
        year = _year_of(local)
        for nth in range(year, min(year + SEARCH_YEARS, _year_of(self.last)) + 1):
            found = _expand(self, nth).at_or_after(local)
            if found is not None:
                return found if found <= self.last else None
        return None

    def at_or_before(self, local: LocalSecond) -> LocalSecond | None:
        """The greatest named reading that is not after `local`: the mirror of `at_or_after`."""
        local = min(local, self.last)
        if local < self.start:
            return None
        year = _year_of(local)
        for nth in range(year, max(year - SEARCH_YEARS, _year_of(self.start)) - 1, -1):
            found = _expand(self, nth).at_or_before(local)
            if found is not None:
                return found if found >= self.start else None
        return None


def parse_rule(text: str, start: LocalSecond, zone: str, first: LocalSecond | None = None) -> Rule:
    """Read a rule that begins at a reading of the zone's clock. COUNT counts from `first` on, where that is later than the start.

    Raises Invalid: DULY-E134 when it is malformed or too frequent, DULY-E102 when it never fires.
    """
    return _parse(text, start, zone, start if first is None else max(first, start))


@lru_cache(maxsize=8192)
def _parse(text: str, start: LocalSecond, zone: str, first: LocalSecond) -> Rule:
    parts = read_parts(text)
    last = _LAST if parts.until is None else min(_LAST, _local(parts.until, zone))
    rule = Rule(text.strip(), start, last, parts)
    if parts.count is not None:
        rule = Rule(rule.text, start, _counted(rule, parts.count, first), parts)
    if rule.at_or_after(start) is None:
        hint = "Look at UNTIL and at the start." if parts.until is not None else "Check the days against the months."
        raise Invalid(CANNOT_FIRE, f"the rule {text.strip()[:80]!r} can never fire: it names no day.", field="schedule", hint=hint)
    return rule


class _Year(NamedTuple):
    """The readings of one year: each of `starts` plus each of `times`, both in order."""

    starts: tuple[LocalSecond, ...]
    times: tuple[int, ...]

    def at_or_after(self, local: LocalSecond) -> LocalSecond | None:
        nth = bisect_right(self.starts, local) - 1
        if nth >= 0:
            time = bisect_left(self.times, local - self.starts[nth])
            if time < len(self.times):
                return self.starts[nth] + self.times[time]
        return self.starts[nth + 1] + self.times[0] if nth + 1 < len(self.starts) else None

    def at_or_before(self, local: LocalSecond) -> LocalSecond | None:
        nth = bisect_right(self.starts, local) - 1
        if nth < 0:
            return None
        time = bisect_right(self.times, local - self.starts[nth]) - 1
        if time >= 0:
            return self.starts[nth] + self.times[time]
        return self.starts[nth - 1] + self.times[-1] if nth > 0 else None


@lru_cache(maxsize=4096)
def _expand(rule: Rule, year: int) -> _Year:
    """Every reading of the year that the rule names, whatever its start and end."""
    parts, times = rule.parts, rule.times
    period = _period(parts, _moment(rule.start).date())
    first, last = period(date(year, 1, 1).toordinal()), period(date(year, 12, 31).toordinal())
    if last // parts.interval * parts.interval < first:
        # INTERVAL passes over the whole of it.
        return _Year((), times)
    if not parts.positions:
        return _Year(tuple(_reading(day) for day in _days(rule, year) if period(day) % parts.interval == 0), times)
    chosen: set[LocalSecond] = set()
    # A week may begin in the year before, or end in the next.
    around = (year - 1, year, year + 1) if parts.freq is Freq.WEEKLY else (year,)
    for nth, group in groupby((day for near in around for day in _days(rule, near)), period):
        if nth % parts.interval == 0:
            readings = [_reading(day) + time for day in group for time in times]
            chosen.update(
                readings[position - 1 if position > 0 else position] for position in parts.positions if abs(position) <= len(readings)
            )
    return _Year(tuple(sorted(reading for reading in chosen if _year_of(reading) == year)), (0,))


def _days(rule: Rule, year: int) -> Iterator[int]:
    """The days of the year that the BY… parts name, as ordinals in order: INTERVAL and BYSETPOS come after."""
    first = date(year, 1, 1).toordinal()
    return (first + day for day in _days_of_shape(rule, _first_of_shape(isleap(year), isleap(year - 1), first % 7)))


@lru_cache(maxsize=64)
def _first_of_shape(is_leap: bool, is_after_leap: bool, weekday: int) -> int:
    """A year for all that name the same days: as long, after one as long (whose last week it may end), begun on the same weekday."""
    return next(
        year
        for year in range(1972, 2372)
        if (isleap(year), isleap(year - 1), date(year, 1, 1).toordinal() % 7) == (is_leap, is_after_leap, weekday)
    )


@lru_cache(maxsize=4096)
def _days_of_shape(rule: Rule, year: int) -> tuple[int, ...]:
    """The days that the rule names in years of the shape of this one, the first of January being 0."""
    # Imported here: most processes never meet a rule, and a command line must start quickly.
    from dateutil.rrule import YEARLY, rrule, weekday  # type: ignore[import-untyped]

    parts, start = rule.parts, _moment(rule.start)
    weekdays, month_days, months = parts.weekdays, parts.month_days, parts.months
    if not (parts.week_numbers or parts.year_days or month_days or weekdays):
        # What the rule leaves open is as on the day it starts.
        if parts.freq is Freq.YEARLY:
            months, month_days = months or (start.month,), (start.day,)
        elif parts.freq is Freq.MONTHLY:
            month_days = (start.day,)
        else:
            weekdays = ((start.weekday(), 0),) if parts.freq is Freq.WEEKLY else tuple((day, 0) for day in range(7))
    if parts.freq is Freq.MONTHLY:
        # The last Friday of each month, not of the year.
        months = months or tuple(range(1, 13))
    # The library ANDs weekdays with a number and those without; by the RFC they are a union.
    kinds = [kind for has_number in (False, True) if (kind := [(day, nth) for day, nth in weekdays if bool(nth) is has_number])]
    found: set[int] = set()
    for kind in kinds or [[]]:
        named = rrule(
            # A day is named or not, whatever its month or week: the year is expanded in one go. The interval leads beyond the
            # year 9999, because the library looks for the end at the days it finds, and might find none.
            freq=YEARLY,
            interval=10_000,
            dtstart=datetime(year, 1, 1),  # noqa: DTZ001 (a reading of a wall clock, whichever)
            wkst=parts.week_start,
            bymonth=months or None,
            byweekno=parts.week_numbers or None,
            byyearday=parts.year_days or None,
            bymonthday=month_days or None,
            byweekday=[weekday(day, nth or None) for day, nth in kind] or None,
        )
        found.update(moment.timetuple().tm_yday - 1 for moment in named)
    return tuple(sorted(found))


def _period(parts: Parts, start: date) -> Callable[[int], int]:
    """How many periods of the rule lie between its start and a day, an ordinal."""
    match parts.freq:
        case Freq.YEARLY:
            return lambda day: date.fromordinal(day).year - start.year
        case Freq.MONTHLY:
            return lambda day: (at := date.fromordinal(day)).year * 12 + at.month - start.year * 12 - start.month
        case Freq.WEEKLY:
            week = start.toordinal() - (start.weekday() - parts.week_start) % 7
            return lambda day: (day - week) // 7
        case Freq.DAILY:
            return lambda day: day - start.toordinal()
        case _:
            assert_never(parts.freq)


def _counted(rule: Rule, count: int, first: LocalSecond) -> LocalSecond:
    """The reading at which a COUNT is used up, or the last one that is looked at."""
    year = _year_of(first)
    for nth in range(year, min(year + COUNTED_YEARS, _LAST_YEAR) + 1):
        starts, times = _expand(rule, nth)
        if nth == year:
            readings = [begin + time for begin in starts for time in times if begin + time >= first]
            if count <= len(readings):
                return readings[count - 1]
            count -= len(readings)
            continue
        here = len(starts) * len(times)
        if count <= here:
            return starts[(count - 1) // len(times)] + times[(count - 1) % len(times)]
        count -= here
    return _reading(date(min(year + COUNTED_YEARS, _LAST_YEAR), 12, 31).toordinal()) + DAY_SECONDS - 1


def _local(until: Until, zone: str) -> LocalSecond:
    second = int(until.moment.timestamp())
    return second + offset_at(zone, second) if until.is_utc else second


def _time_of(local: LocalSecond) -> tuple[int, int, int]:
    moment = _moment(local)
    return moment.hour, moment.minute, moment.second


def _moment(local: LocalSecond) -> datetime:
    return datetime.fromtimestamp(local, UTC).replace(tzinfo=None)


def _year_of(local: LocalSecond) -> int:
    return date.fromordinal(local // DAY_SECONDS + _EPOCH_DAY).year


def _reading(day: int) -> LocalSecond:
    """Midnight of a day, an ordinal."""
    return (day - _EPOCH_DAY) * DAY_SECONDS
