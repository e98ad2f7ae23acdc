"""Calendars: the days and hours at which jobs that name them do not run.

A calendar is a value. A job version carries the calendars it names written out, so that its fires
follow from the version alone. What is excluded is asked in three ways:

    is_closed_day(calendars, zone, at)   is its local day a holiday, or no business day?
    is_in_window(calendars, zone, at)    does it lie in a window?
    closed_until, closed_since           the whole excluded stretch around an instant, to leap over

A day is that of the calendar's own zone, or of the job's where it has none.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import NamedTuple

from duly.domain.choices import OnExcluded as OnExcluded
from duly.domain.choices import Weekday as Weekday
from duly.domain.errors import Invalid
from duly.domain.instants import LATEST, SECOND, Instant, to_rfc3339
from duly.domain.zones import DAY_SECONDS, load_zone, stretch_at

BAD_CALENDAR = "DULY-E135"
CALENDAR_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
MOST_HOLIDAYS = 2000
MOST_WINDOWS = 1000
MOST_WEEKLY = 100
LONGEST_LABEL = 200
MINUTES_A_DAY = 1440
# So many days in a row are leapt over at once; more take a second leap.
LONGEST_RUN = 400

_EPOCH_DAY = date(1970, 1, 1).toordinal()


WEEK = tuple(Weekday)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holiday:
    """A day on which nothing runs."""

    day: date
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A time in which nothing runs: from `start` to just before `end`."""

    start: Instant
    end: Instant
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeeklyWindow:
    """The same, every week: minutes of the local day. One that ends before it starts ends on the day after."""

    days: tuple[Weekday, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """A named calendar of a tenant. `version` 0 is one that is only named, and excludes nothing."""

    name: str
    version: int = 0
    zone: str | None = None
    business_days: tuple[Weekday, ...] | None = None
    holidays: tuple[Holiday, ...] = ()
    windows: tuple[Window, ...] = ()
    weekly: tuple[WeeklyWindow, ...] = ()

    def __hash__(self) -> int:
        # Schedules are keys of caches on the hot path; two calendars of the same name and version are mostly one.
        return hash((self.name, self.version, len(self.holidays), len(self.windows)))


def parse_calendar_name(text: str, field: str = "name") -> str:
    """The name of a calendar; raises Invalid for anything else."""
    if not CALENDAR_NAME.match(text):
        hint = "1 to 64 letters, digits and . _ -, starting with a letter or digit."
        raise Invalid("DULY-E114", f"{text[:40]!r} is not the name of a calendar.", field=field, hint=hint)
    return text


def check_calendar(calendar: Calendar) -> None:
    """Refuse what cannot be a calendar. Raises Invalid that names the field."""
    parse_calendar_name(calendar.name)
    if calendar.zone is not None:
        load_zone(calendar.zone)
    if calendar.business_days is not None and not calendar.business_days:
        raise _refuse("businessDays", "a week without a business day excludes everything.", "Leave it out where every day is one.")
    for field, entries, most in (
        ("holidays", calendar.holidays, MOST_HOLIDAYS),
        ("windows", calendar.windows, MOST_WINDOWS),
        ("weekly", calendar.weekly, MOST_WEEKLY),
    ):
        if len(entries) > most:
            raise _refuse(field, f"has {len(entries):,} entries; {most:,} are the limit.", "Leave out what is long over.")
    for nth, holiday in enumerate(calendar.holidays):
        if not 1970 <= holiday.day.year <= 9998:
            raise _refuse(f"holidays[{nth}].date", "is out of range.", "Dates lie between 1970 and 9998.")
    for nth, window in enumerate(calendar.windows):
        if not 0 <= window.start < window.end <= LATEST:
            raise _refuse(f"windows[{nth}].end", "is not after its start.", "A window ends after it starts.")
    for nth, weekly in enumerate(calendar.weekly):
        fault = _fault_of(weekly)
        if fault is not None:
            raise _refuse(f"weekly[{nth}]", *fault)


def _fault_of(weekly: WeeklyWindow) -> tuple[str, str] | None:
    """What is wrong with a weekly window, and the way out."""
    example = 'For example {"days": ["SUN"], "from": "02:00", "to": "04:00"}.'
    if not weekly.days:
        return "has no days.", example
    if weekly.end == 0:
        return "ends at 00:00, with which its day begins.", 'The end of a day is written 24:00: "to": "24:00".'
    if weekly.start == MINUTES_A_DAY:
        return "begins at 24:00, with which its day ends.", 'The beginning of a day is written 00:00: "from": "00:00".'
    if not 0 <= weekly.start < MINUTES_A_DAY or not 0 < weekly.end <= MINUTES_A_DAY or weekly.start == weekly.end:
        return "is no time of the week.", example
    return None


def _refuse(field: str, message: str, hint: str) -> Invalid:
    return Invalid(BAD_CALENDAR, message, field=field, hint=hint)


# ---------------------------------------------------------------- asking


def local_day(zone: str, at: Instant) -> int:
    """The number of the local day, 1970-01-01 being 0."""
    second = at // SECOND
    return (second + stretch_at(zone, second).offset) // DAY_SECONDS


def is_closed_day(calendars: tuple[Calendar, ...], zone: str, at: Instant) -> bool:
    """Whether the local day of this instant is a holiday or no business day of one of them."""
    return any((judge := _judge(calendar, zone)).closes_day(local_day(judge.zone, at)) for calendar in calendars)


def is_in_window(calendars: tuple[Calendar, ...], zone: str, at: Instant) -> bool:
    """Whether a window of one of them holds this instant."""
    return any((judge := _judge(calendar, zone)).window_at(at) is not None or judge.weekly_at(at) is not None for calendar in calendars)


def window_until(calendars: tuple[Calendar, ...], zone: str, at: Instant) -> Instant | None:
    """None when no window holds this instant; else a later one, and windows hold all before that."""
    judges = [_judge(calendar, zone) for calendar in calendars]
    return max((span.end for judge in judges for span in (judge.window_at(at), judge.weekly_at(at)) if span is not None), default=None)


def closed_until(calendars: tuple[Calendar, ...], zone: str, at: Instant) -> Instant | None:
    """None when nothing excludes this instant; else a later one, and all before that are excluded too."""
    ends = [end for calendar in calendars if (end := _judge(calendar, zone).closed_around(at)[1]) is not None]
    return max(ends, default=None)


def closed_since(calendars: tuple[Calendar, ...], zone: str, at: Instant) -> Instant | None:
    """The same backwards: all from that instant to this one are excluded."""
    starts = [start for calendar in calendars if (start := _judge(calendar, zone).closed_around(at)[0]) is not None]
    return min(starts, default=None)


def exclusion(calendars: tuple[Calendar, ...], zone: str, at: Instant) -> str | None:
    """Why this instant is excluded, in words that name the calendar; None when it is not."""
    for calendar in calendars:
        reason = _judge(calendar, zone).reason(at)
        if reason is not None:
            return f"{reason} (calendar {calendar.name})"
    return None


class _Span(NamedTuple):
    """From `start` to just before `end`, in seconds of a day or in instants."""

    start: int
    end: int


class _Judge:
    """One calendar in one zone, prepared for questions."""

    def __init__(self, calendar: Calendar, zone: str) -> None:
        self.zone = calendar.zone or zone
        self._calendar = calendar
        open_days = WEEK if calendar.business_days is None else calendar.business_days
        self._open = tuple(day in open_days for day in WEEK)
        self._holidays = {holiday.day.toordinal() - _EPOCH_DAY: holiday for holiday in calendar.holidays}
        self._windows = _merged([_Span(window.start, window.end) for window in calendar.windows])
        self._starts = [window.start for window in self._windows]
        self._weekly: tuple[list[_Span], ...] = tuple([] for _ in WEEK)
        for weekly in calendar.weekly:
            for day in weekly.days:
                nth = WEEK.index(day)
                if weekly.start < weekly.end:
                    self._weekly[nth].append(_Span(weekly.start * 60, weekly.end * 60))
                else:
                    self._weekly[nth].append(_Span(weekly.start * 60, DAY_SECONDS))
                    self._weekly[(nth + 1) % 7].append(_Span(0, weekly.end * 60))

    def closes_day(self, day: int) -> bool:
        """Whether the local day of this number is excluded."""
        return not self._open[_weekday(day)] or day in self._holidays

    def window_at(self, at: Instant) -> _Span | None:
        """The windows around this instant, as one span of instants."""
        nth = bisect_right(self._starts, at) - 1
        return self._windows[nth] if nth >= 0 and at < self._windows[nth].end else None

    def weekly_at(self, at: Instant) -> _Span | None:
        """The weekly window around this instant, as a span of instants, cut where the clocks change."""
        if not any(self._weekly):
            return None
        second = at // SECOND
        stretch = stretch_at(self.zone, second)
        day, time = divmod(second + stretch.offset, DAY_SECONDS)
        midnight = day * DAY_SECONDS - stretch.offset
        for start, end in self._weekly[_weekday(day)]:
            if start <= time < end:
                return _Span(max(midnight + start, stretch.start) * SECOND, min(midnight + end, stretch.end) * SECOND)
        return None

    def closed_around(self, at: Instant) -> tuple[Instant | None, Instant | None]:
        """Since when and until when this instant is excluded; both None when it is not."""
        spans = [span for span in (self._days_at(at), self.weekly_at(at), self.window_at(at)) if span is not None]
        return min((span.start for span in spans), default=None), max((span.end for span in spans), default=None)

    def _days_at(self, at: Instant) -> _Span | None:
        """The run of closed days around this instant, cut where the clocks change: there a day may come round once more."""
        second = at // SECOND
        stretch = stretch_at(self.zone, second)
        day = (second + stretch.offset) // DAY_SECONDS
        if not self.closes_day(day):
            return None
        first, last = day, day
        while last - day < LONGEST_RUN and self.closes_day(last + 1):
            last += 1
        while day - first < LONGEST_RUN and self.closes_day(first - 1):
            first -= 1
        start = max(first * DAY_SECONDS - stretch.offset, stretch.start)
        end = min((last + 1) * DAY_SECONDS - stretch.offset, stretch.end)
        return _Span(start * SECOND, end * SECOND)

    def reason(self, at: Instant) -> str | None:
        """Why this instant is excluded, in words."""
        day = local_day(self.zone, at)
        shown = _date_in_words(day)
        holiday = self._holidays.get(day)
        if holiday is not None:
            return f"{shown} is a holiday{f', {holiday.name}' if holiday.name else ''}"
        if not self._open[_weekday(day)]:
            return f"{shown} is no business day"
        if self.window_at(at) is not None:
            window = next(window for window in self._calendar.windows if window.start <= at < window.end)
            return f"it lies in the window{f' {window.name}' if window.name else ''} until {to_rfc3339(window.end)}"
        if self.weekly_at(at) is not None:
            return f"it lies in a weekly window on {_date_in_words(day).split()[0]}"
        return None


@lru_cache(maxsize=4096)
def _judge(calendar: Calendar, zone: str) -> _Judge:
    return _Judge(calendar, zone)


def _merged(spans: list[_Span]) -> list[_Span]:
    """Spans that meet or overlap as one, in order."""
    found: list[_Span] = []
    for span in sorted(spans):
        if found and span.start <= found[-1].end:
            found[-1] = _Span(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def _weekday(day: int) -> int:
    """Monday is 0; the day 0 was a Thursday."""
    return (day + 3) % 7


def _date_in_words(day: int) -> str:
    return f"{datetime.fromtimestamp(day * DAY_SECONDS, UTC):%a %d %b %Y}"
