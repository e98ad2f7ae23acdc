"""A month of fires as a calendar: each day with how many it has, and with its busiest minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta, tzinfo

from duly.dashboard.drawing.heat import NOTHING, QUARTER, level, midnight
from duly.dashboard.drawing.overlay import Overlay
from duly.dashboard.words import local
from duly.domain.instants import Instant


@dataclass(slots=True)
class Day:
    """A day of the month. `peak` is its busiest minute; `is_known` is False where not all of its fires were computed.

    `paused` is what paused jobs would fire on it.
    """

    date: date
    fires: int = 0
    level: int = 0
    peak: tuple[Instant, int] | None = None
    note: str | None = None
    is_past: bool = False
    is_today: bool = False
    is_known: bool = True
    paused: int = 0
    is_maintained: bool = False


def first_of(day: date) -> date:
    """When its month begins."""
    return day.replace(day=1)


def following(day: date) -> date:
    """When the month after its own begins."""
    return first_of(first_of(day) + timedelta(days=31))


def before(day: date) -> date:
    """When the month before its own begins."""
    return first_of(first_of(day) - timedelta(days=1))


def weeks(
    counts: Mapping[Instant, int], month: date, zone: tzinfo, today: date, known_until: Instant, over: Overlay = NOTHING
) -> list[list[Day | None]]:
    """The weeks of a month from Monday to Sunday, with what lies over them; None where a day belongs to another month."""
    days: dict[date, Day] = {}
    day = first_of(month)
    while day < following(month):
        start, end = midnight(day, zone), midnight(day + timedelta(days=1), zone)
        known = end <= known_until
        days[day] = Day(day, note=_change(start, end, zone), is_past=day < today, is_today=day == today, is_known=known)
        if day >= today:
            days[day].paused, days[day].is_maintained = over.paused_in(start, end), over.is_maintained(start, end)
        day += timedelta(days=1)
    # The clocks of every zone are whole quarters of an hour from UTC: a quarter lies within one day.
    dates: dict[Instant, date] = {}
    for at, count in counts.items():
        quarter = at - at % QUARTER
        if quarter not in dates:
            dates[quarter] = local(quarter, zone).date()
        found = days.get(dates[quarter])
        if found is not None:
            found.fires += count
            if found.peak is None or count > found.peak[1]:
                found.peak = (at, count)
    most = max((found.fires for found in days.values()), default=0)
    for found in days.values():
        found.level = level(found.fires, most)
    padded: list[Day | None] = [None] * first_of(month).weekday() + list(days.values())
    padded += [None] * (-len(padded) % 7)
    return [padded[nth : nth + 7] for nth in range(0, len(padded), 7)]


def _change(start: Instant, end: Instant, zone: tzinfo) -> str | None:
    """What the clocks do in a day."""
    earlier, later = local(start, zone).utcoffset(), local(end, zone).utcoffset()
    if earlier is None or later is None or earlier == later:
        return None
    return "the clocks go forward" if later > earlier else "the clocks go back"
