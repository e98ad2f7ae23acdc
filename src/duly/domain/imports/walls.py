"""When another system fires: wall clock readings, taken through the changes of a zone's clocks by that system's rules.

The zone is asked for its offset hour by hour, and nothing is shared with the schedule core: this is the second opinion
that an import is compared with. Times are whole seconds since 1970, of UTC or of a wall.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import Enum

from duly.domain.zones import load_zone

DAY = 86_400
_HOUR = 3600
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()


class Gap(Enum):
    """What a system does with readings that the clocks jump over."""

    NOTHING = 1  # they do not happen
    EACH_AT_ONCE = 2  # each runs as soon as the clocks have jumped: cron
    FIRST_LATER = 3  # the first is as much later as the clocks jumped, and the walk goes on from there


class Again(Enum):
    """What a system does with readings that the clocks show twice."""

    FIRST = 1
    BOTH = 2


@dataclass(frozen=True, slots=True)
class Readings:
    """The times of day and the days that a schedule names."""

    hours: frozenset[int]
    minutes: frozenset[int]
    is_day: Callable[[date], bool]
    seconds: frozenset[int] = frozenset({0})

    def between(self, low: int, high: int) -> Iterator[int]:
        """The named readings in [low, high), ascending."""
        times = [hour * _HOUR + minute * 60 + second for hour in self.hours for minute in self.minutes for second in self.seconds]
        times.sort()
        for day in range(low // DAY, -(-high // DAY)):
            if not self.is_day(date.fromordinal(day + _EPOCH_DAY)):
                continue
            start = day * DAY
            for time in times:
                if low <= start + time < high:
                    yield start + time


def fires(readings: Readings, zone: str, gap: Gap, again: Again, after: int, until: int) -> list[int]:
    """Every fire in (after, until], in order."""
    found: list[int] = []
    offset_before: int | None = None
    for start, end, offset in _stretches(zone, after + 1, until + 1):
        low = start + offset
        if offset_before is not None and offset_before < offset:
            skipped = list(readings.between(start + offset_before, start + offset))
            if skipped and gap is Gap.EACH_AT_ONCE:
                found += [start] * len(skipped)
            elif skipped and gap is Gap.FIRST_LATER:
                late = skipped[0] - offset_before
                insort(found, late)
                low = late + offset + 1
        if offset_before is not None and again is Again.FIRST:
            low = max(low, start + offset_before)
        found += [reading - offset for reading in readings.between(low, end + offset)]
        offset_before = offset
    return [at for at in found if after < at <= until]


def every(seconds: float, anchor: int, after: int, until: int) -> list[int]:
    """A constant distance from an anchor, in (after, until]; a fraction of a second is cut off."""
    nth = max(0, int((after - anchor) // seconds))
    found: list[int] = []
    while (at := int(anchor + nth * seconds)) <= until:
        if at > after:
            found.append(at)
        nth += 1
    return found


def instants_of(reading: int, zone: str) -> list[int]:
    """The instants at which the zone's clock shows this reading: none in a gap, two in an overlap."""
    return [
        reading - offset for start, end, offset in _stretches(zone, reading - 2 * DAY, reading + 2 * DAY) if start <= reading - offset < end
    ]


def _stretches(zone: str, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(from, to, offset) of each time of constant offset that touches [start, end); the first reaches two days back."""
    known = load_zone(zone)

    def offset_at(second: int) -> int:
        delta = (_EPOCH + timedelta(seconds=second)).astimezone(known).utcoffset()
        return 0 if delta is None else int(delta.total_seconds())

    begin = start - 2 * DAY
    shown = offset_at(begin)
    for early in range(begin, end, 12 * _HOUR):
        late = early + 12 * _HOUR
        if offset_at(late) == shown:
            continue
        low, high = early, late
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset_at(middle) == shown else (low, middle)
        yield begin, high, shown
        begin, shown = high, offset_at(high)
    if begin < end:
        yield begin, end, shown
