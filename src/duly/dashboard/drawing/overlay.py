"""What lies over the time to come: maintenance windows, and what paused jobs would fire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Any

from duly.domain.calendars import Calendar, closed_until
from duly.domain.instants import DAY, HOUR, MINUTE, Instant, from_datetime, to_datetime
from duly.domain.zones import load_zone


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which rules tell nobody, because it lies in a calendar that they name."""

    start: Instant
    end: Instant
    calendar: str
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overlay:
    """Stretches of maintenance, fires of paused jobs by the minute, and the first of these fires of each job."""

    stretches: Sequence[Stretch] = ()
    paused: Mapping[Instant, int] = field(default_factory=dict)
    held: Sequence[dict[str, Any]] = ()

    def paused_in(self, start: Instant, end: Instant) -> int:
        """How many fires of paused jobs would be in a time."""
        return sum(self.paused.get(at, 0) for at in range(start, end, MINUTE)) if self.paused else 0

    def is_maintained(self, start: Instant, end: Instant) -> bool:
        """Whether a part of a time is maintenance."""
        return any(stretch.start < end and start < stretch.end for stretch in self.stretches)


def closed(calendar: Calendar, first: Instant, last: Instant) -> list[tuple[Instant, Instant]]:
    """The times between two instants that a calendar excludes, in order, and none of them touching the next."""
    zone = calendar.zone or "UTC"
    found: list[tuple[Instant, Instant]] = []
    for edge in sorted(_edges(calendar, first, last)):
        if found and edge < found[-1][1]:
            continue
        end = closed_until((calendar,), zone, edge)
        if end is None:
            continue
        while end < last and (further := closed_until((calendar,), zone, end)) is not None:
            end = further
        found.append((edge, min(end, last)))
    return found


def _edges(calendar: Calendar, first: Instant, last: Instant) -> set[Instant]:
    """Where something may begin: every hour, because of days and of clocks that change, and whatever the calendar names."""
    zone = load_zone(calendar.zone or "UTC")
    edges = {first, *range(first - first % HOUR + HOUR, last, HOUR), *(window.start for window in calendar.windows)}
    day = to_datetime(first - DAY).astimezone(zone).date()
    while (midnight := from_datetime(datetime.combine(day, time(), zone))) < last:
        edges.add(midnight)
        for weekly in calendar.weekly:
            edges.add(from_datetime(datetime.combine(day, time(weekly.start // 60, weekly.start % 60), zone)))
        day += timedelta(days=1)
    return {edge for edge in edges if first <= edge < last}
