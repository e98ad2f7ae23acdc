"""The heat map of what will fire: a day in minutes, a week in hours, as the clocks of a zone show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo

from duly.dashboard.drawing.overlay import Overlay
from duly.domain.instants import HOUR, MINUTE, Instant, from_datetime, to_datetime

LEVELS = 5
QUARTER = 15 * MINUTE
NOTHING = Overlay()


@dataclass(frozen=True, slots=True)
class Cell:
    """One minute or hour: when it begins, how many fires it has, and how strong that is from 0 to 5; what lies over it."""

    at: Instant
    fires: int
    level: int
    label: str
    is_past: bool
    is_now: bool
    paused: int = 0
    is_maintained: bool = False

    @property
    def kind(self) -> str:
        """How it is drawn, in one word: a map has very many cells."""
        if self.paused:
            return f"p{self.level}"
        return f"h{self.level}" if self.level else "past" if self.is_past else ""

    @property
    def number(self) -> int:
        """Its minute, counted from the beginning of 1970: a short name for an address."""
        return self.at // MINUTE


@dataclass(frozen=True, slots=True)
class Line:
    """An hour of minutes, or a day of hours. `note` says what the clocks do in it, `day` that another day begins with it."""

    label: str
    cells: list[Cell]
    note: str | None = None
    day: str | None = None

    @property
    def is_maintained(self) -> bool:
        """Whether all of it is maintenance."""
        return all(cell.is_maintained for cell in self.cells)


def midnight(day: date, zone: tzinfo) -> Instant:
    """When a day begins in a zone; where the clocks skip midnight, the first instant after."""
    return from_datetime(datetime.combine(day, time(), zone))


def level(count: int, most: int) -> int:
    """How strong a count is beside the greatest: evenly by its share, and never nothing for something."""
    return 0 if count == 0 else min(LEVELS, max(1, -(-count * LEVELS // max(most, LEVELS))))


def day_lines(counts: Mapping[Instant, int], day: date, zone: tzinfo, now: Instant, whole: int | None = None) -> list[Line]:
    """The hours that the day has, 23 to 25 of them, each with its minutes. `whole` is what counts as most; the greatest otherwise."""
    return hour_lines(counts, midnight(day, zone), midnight(day + timedelta(days=1), zone), zone, now, whole)


def this_hour(now: Instant, zone: tzinfo) -> Instant:
    """When the hour has begun that the clocks of a zone show."""
    return from_datetime(to_datetime(now).astimezone(zone).replace(minute=0, second=0, microsecond=0))


def hour_lines(
    counts: Mapping[Instant, int],
    first: Instant,
    last: Instant,
    zone: tzinfo,
    now: Instant,
    whole: int | None = None,
    over: Overlay = NOTHING,
) -> list[Line]:
    """The hours from one instant to another, each with its minutes, and with what lies over them."""
    most = max(counts.values(), default=0) if whole is None else whole
    lines: list[Line] = []
    before: datetime | None = None
    for start in range(first, last, HOUR):
        shown = to_datetime(start).astimezone(zone)
        cells = []
        for at in range(start, min(start + HOUR, last), MINUTE):
            then = to_datetime(at).astimezone(zone)
            count = counts.get(at, 0)
            cells.append(_cell(at, at + MINUTE, count, level(count, most), f"{then:%H:%M}", now, over))
        begins = before is not None and before.date() != shown.date()
        lines.append(Line(f"{shown:%H}h", cells, _change(before, shown), f"{shown:%A} {shown.day} {shown:%B}" if begins else None))
        before = shown
    return lines


def _change(before: datetime | None, shown: datetime) -> str | None:
    """What the clocks did between two hours."""
    if before is None or before.utcoffset() == shown.utcoffset():
        return None
    earlier, later = before.utcoffset() or timedelta(), shown.utcoffset() or timedelta()
    return "the clocks go forward: an hour is left out" if later > earlier else "the clocks go back: this hour comes twice"


def _cell(at: Instant, end: Instant, count: int, strong: int, label: str, now: Instant, over: Overlay) -> Cell:
    return Cell(at, count, strong, label, end <= now, at <= now < end, over.paused_in(at, end), over.is_maintained(at, end))


def week_lines(
    counts: Mapping[Instant, int], day: date, zone: tzinfo, now: Instant, whole: int | None = None, over: Overlay = NOTHING
) -> list[Line]:
    """Seven days, each with the hours that it has. With a `whole` the hours have the mean of their minutes, otherwise the sum."""
    # The clocks of every zone are whole quarters of an hour from UTC: 672 of them are looked up, not ten thousand minutes.
    quarters: dict[Instant, int] = {}
    for at, count in counts.items():
        quarter = at - at % QUARTER
        quarters[quarter] = quarters.get(quarter, 0) + count
    sums: dict[tuple[date, int], int] = {}
    for at, count in quarters.items():
        then = to_datetime(at).astimezone(zone)
        key = (then.date(), then.hour)
        sums[key] = sums.get(key, 0) + count
    if whole is not None:
        sums = {key: -(-spent // 60) for key, spent in sums.items()}
    most = max(sums.values(), default=0) if whole is None else whole
    lines: list[Line] = []
    for nth in range(7):
        of = day + timedelta(days=nth)
        cells = []
        for hour in range(24):
            at = from_datetime(datetime.combine(of, time(hour), zone))
            count = sums.get((of, hour), 0)
            cells.append(_cell(at, at + HOUR, count, level(count, most), f"{of:%a} {hour:02}h", now, over))
        lines.append(Line(f"{of:%a} {of.day} {of:%b}", cells))
    return lines


@dataclass(frozen=True, slots=True)
class Pair:
    """An hour as it is and as it would be."""

    label: str
    before: Line
    after: Line


def changed_hours(before: Mapping[Instant, int], after: Mapping[Instant, int], zone: tzinfo, now: Instant, limit: int) -> list[Pair]:
    """The hours in which something changes, at most so many, the busiest of them, in their order; both sides on one scale."""
    most = max(before.values(), default=0)
    peaks: dict[Instant, int] = {}
    for at in before.keys() | after.keys():
        if before.get(at, 0) != after.get(at, 0):
            hour = at - at % HOUR
            peaks[hour] = max(peaks.get(hour, 0), before.get(at, 0))
    chosen = sorted(sorted(peaks, key=lambda hour: (-peaks[hour], hour))[:limit])

    def line(counts: Mapping[Instant, int], hour: Instant, label: str) -> Line:
        minutes = [(at, counts.get(at, 0)) for at in range(hour, hour + HOUR, MINUTE)]
        return Line(label, [Cell(at, count, level(count, most), "", at + MINUTE <= now, at <= now < at + MINUTE) for at, count in minutes])

    return [
        Pair(f"{to_datetime(hour).astimezone(zone):%a %H:%M}", line(before, hour, "now"), line(after, hour, "after")) for hour in chosen
    ]
