"""Calendars on the wire, and their translation to and from the domain."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from duly.domain.choices import Weekday
from duly.domain.instants import Instant, to_datetime, to_rfc3339
from duly.wire.shapes import NO_NUL, CalendarName, Moment, Shape, View, ZoneName, pattern

if TYPE_CHECKING:
    from duly.domain.calendars import Calendar

Label = Annotated[str, Meta(max_length=200, extra_json_schema=NO_NUL)]
Day = Annotated[date, Meta(description="A date from 1970 on.", extra_json_schema=pattern("^(19[7-9][0-9]|[2-9][0-9]{3})-"))]
TimeOfDay = Annotated[
    str,
    Meta(
        description="A local time, such as 02:00; 24:00 ends a day.",
        examples=["02:00"],
        extra_json_schema=pattern("^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"),
    ),
]


class HolidayShape(Shape, kw_only=True):
    """A day on which nothing runs."""

    date: Day
    name: Label | None = None


class WindowShape(Shape, kw_only=True):
    """A time in which nothing runs, such as maintenance: from `start` to just before `end`."""

    start: Moment
    end: Moment
    name: Label | None = None


class WeeklyShape(Shape, kw_only=True):
    """The same, every week, in local time. One that ends before it starts ends on the day after."""

    days: Annotated[list[Weekday], Meta(min_length=1, max_length=7)]
    start: TimeOfDay = msgspec.field(name="from")
    end: TimeOfDay = msgspec.field(name="to")


class CalendarShape(Shape, kw_only=True):
    """A calendar as it is sent. Its days are those of its zone; without one, of each job that names it."""

    name: CalendarName | None = None
    timezone: ZoneName | None = None
    business_days: Annotated[list[Weekday], Meta(min_length=1, max_length=7)] | None = None
    holidays: Annotated[list[HolidayShape], Meta(max_length=2000)] = []
    windows: Annotated[list[WindowShape], Meta(max_length=1000)] = []
    weekly: Annotated[list[WeeklyShape], Meta(max_length=100)] = []


class ImportShape(Shape, kw_only=True):
    """An iCalendar file. Its entries are added; with `dryRun` nothing is stored."""

    ics: Annotated[str, Meta(min_length=1, max_length=1_000_000, extra_json_schema=NO_NUL)]
    dry_run: bool = False


class CalendarView(View, kw_only=True):
    """A calendar as it is read."""

    name: str
    version: int
    updated_at: str
    timezone: str | None
    business_days: list[Weekday] | None
    holidays: list[HolidayShape]
    windows: list[WindowShape]
    weekly: list[WeeklyShape]


class ImportView(View, kw_only=True):
    """What an import brought, and what it could not read."""

    calendar: CalendarView
    holidays: int
    windows: int
    remarks: list[str]


def calendar_view(calendar: Calendar, updated_at: Instant) -> CalendarView:
    """A calendar as the API answers it."""
    return CalendarView(
        name=calendar.name,
        version=calendar.version,
        updated_at=to_rfc3339(updated_at),
        timezone=calendar.zone,
        business_days=None if calendar.business_days is None else list(calendar.business_days),
        holidays=[HolidayShape(date=holiday.day, name=holiday.name) for holiday in calendar.holidays],
        windows=[
            WindowShape(start=to_datetime(window.start), end=to_datetime(window.end), name=window.name) for window in calendar.windows
        ],
        weekly=[WeeklyShape(days=list(weekly.days), start=_clock(weekly.start), end=_clock(weekly.end)) for weekly in calendar.weekly],
    )


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
