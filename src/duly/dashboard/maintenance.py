"""When nobody is told: the calendars that alert rules name, as stretches of the time that a page shows."""

from __future__ import annotations

import msgspec

from duly.dashboard.drawing.overlay import Stretch, closed
from duly.dashboard.view import View
from duly.domain.instants import Instant
from duly.wire.calendars import CalendarShape
from duly.wire.specs import calendar_of

_TIMES = ("timezone", "businessDays", "holidays", "windows", "weekly")


async def maintenance(view: View, first: Instant, last: Instant) -> list[Stretch]:
    """The maintenance of rules that are switched on, between two instants, soonest first."""
    rules: dict[str, list[str]] = {}
    for rule in (await view.get("/v1/alert-rules"))["items"]:
        for name in rule["calendars"] if rule["enabled"] else []:
            rules.setdefault(name, []).append(rule["name"])
    if not rules:
        return []
    found: list[Stretch] = []
    for each in (await view.get("/v1/calendars"))["items"]:
        name = each["name"]
        if name in rules:
            calendar = calendar_of(msgspec.convert({key: each[key] for key in _TIMES}, CalendarShape), name)
            found += [Stretch(start, end, name, tuple(rules[name])) for start, end in closed(calendar, first, last)]
    return sorted(found, key=lambda stretch: (stretch.start, stretch.calendar))
