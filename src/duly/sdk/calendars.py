"""Calendars declared in code: `app.calendar("de-holidays", holidays=[date(2026, 12, 25)], business_days="MON-FRI")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import msgspec

from duly.domain.calendars import Calendar, Weekday, check_calendar
from duly.domain.errors import Invalid
from duly.wire.calendars import CalendarShape
from duly.wire.specs import calendar_of

# A day, or a day with its name; as a date or as text such as "2026-12-25".
HolidayLike = date | str | tuple[date | str, str]
WindowLike = tuple[datetime, datetime] | tuple[datetime, datetime, str]


def declared_calendar(
    name: str,
    *,
    tz: str | None,
    business_days: str | Sequence[str] | None,
    holidays: Sequence[HolidayLike],
    windows: Sequence[WindowLike],
    weekly: Mapping[str, str | Sequence[str]],
) -> Calendar:
    """The calendar, checked. Raises Invalid that says what to change."""
    given: dict[str, Any] = {
        "timezone": tz,
        "businessDays": None if business_days is None else _days(business_days, "business_days"),
        "holidays": [_holiday(holiday) for holiday in holidays],
        "windows": [dict(zip(("start", "end", "name"), window, strict=False)) for window in windows],
        "weekly": [span for days, times in weekly.items() for span in _weekly(days, times)],
    }
    try:
        calendar = calendar_of(msgspec.convert(given, CalendarShape), name)
    except msgspec.ValidationError as error:
        raise Invalid("DULY-E135", f"calendar {name!r}: {error}.", field="calendar") from None
    check_calendar(calendar)
    return calendar


def _holiday(given: HolidayLike) -> dict[str, Any]:
    day, name = given if isinstance(given, tuple) else (given, None)
    return {"date": day, "name": name}


def _weekly(days: str, times: str | Sequence[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for span in [times] if isinstance(times, str) else times:
        start, sign, end = span.partition("-")
        if not sign:
            raise Invalid(
                "DULY-E135", f"{span!r} is no time of the week.", field="weekly", hint='For example weekly={"SUN": "02:00-04:00"}.'
            )
        found.append({"days": _days(days, "weekly"), "from": start.strip(), "to": end.strip()})
    return found


def _days(given: str | Sequence[str], field: str) -> list[str]:
    """`MON-FRI`, `MON,WED` or a list of either."""
    week = [day.value for day in Weekday]
    found: list[str] = []
    for part in given.split(",") if isinstance(given, str) else given:
        first, sign, last = (word.strip().upper() for word in part.partition("-"))
        if first not in week or (sign and last not in week):
            hint = f'Write "MON-FRI", or some of {", ".join(week)}.'
            raise Invalid("DULY-E135", f"{part!r} is not a day of the week.", field=field, hint=hint)
        start, length = week.index(first), (week.index(last) - week.index(first)) % 7 if sign else 0
        found += [week[(start + nth) % 7] for nth in range(length + 1)]
    return found
