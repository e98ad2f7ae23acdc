"""When a job fires: the three kinds of schedule, and the instants of each.

Each may be bounded by `start_at` and `end_at`, and both of these instants still belong to it.
A schedule is a value; its fires depend on nothing but itself and the pinned tzdata, so any
node may compute them, from any point, and get the same ones (I22).

    next_fire(schedule, after)        strictly after
    previous_fire(schedule, before)   strictly before
    fires(schedule, after, until, limit)
    explain_fire(schedule, at)        what a change of the clocks did to this fire
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

from duly.domain.cron import SEARCH_YEARS, Cron
from duly.domain.dst import DstGap, DstOverlap, next_fire_second, previous_fire_second
from duly.domain.errors import Invalid
from duly.domain.fire_notes import note_on_fire
from duly.domain.instants import DAY, LATEST, SECOND, Instant, Micros
from duly.domain.zones import load_zone

__all__ = [
    "CronSchedule",
    "DstGap",
    "DstOverlap",
    "IntervalSchedule",
    "OneTimeSchedule",
    "Schedule",
    "excluded_by",
    "explain_fire",
    "fires",
    "next_fire",
    "previous_fire",
]

BAD_INTERVAL = "DULY-E104"
BAD_TIME = "DULY-E105"

_LOOK_BACK: Micros = SEARCH_YEARS * 366 * DAY


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """Fires at the local times of a zone that a cron expression names.

    `gap` and `overlap` say what a change of the clocks does to fixed times; a wild expression
    (Z1) follows the wall clock and is not touched by them.
    """

    cron: Cron
    zone: str = "UTC"
    gap: DstGap = DstGap.RUN_AFTER
    overlap: DstOverlap = DstOverlap.FIRST
    start_at: Instant | None = None
    end_at: Instant | None = None

    def __post_init__(self) -> None:
        load_zone(self.zone)
        _check_bounds(self.start_at, self.end_at)


@dataclass(frozen=True, slots=True)
class IntervalSchedule:
    """Fires at `anchor` and every `every` microseconds from then on, whatever the clocks on walls do (Z11)."""

    every: Micros
    anchor: Instant
    start_at: Instant | None = None
    end_at: Instant | None = None

    def __post_init__(self) -> None:
        if self.every <= 0:
            raise Invalid(BAD_INTERVAL, "an interval is longer than nothing.", field="intervalSec", hint='For example "intervalSec": 900.')
        _check_bounds(self.start_at, self.end_at)


@dataclass(frozen=True, slots=True)
class OneTimeSchedule:
    """Fires once, at `at`."""

    at: Instant
    start_at: Instant | None = None
    end_at: Instant | None = None

    def __post_init__(self) -> None:
        _check_bounds(self.start_at, self.end_at)


Schedule = CronSchedule | IntervalSchedule | OneTimeSchedule


@lru_cache(maxsize=65_536)
def next_fire(schedule: Schedule, after: Instant) -> Instant | None:
    """The least fire strictly after `after`, or None when there is none. Nothing fires before 1970 or after 9999."""
    return _next(schedule, after)


def previous_fire(schedule: Schedule, before: Instant) -> Instant | None:
    """The greatest fire strictly before `before`, or None when the 41 years before it hold none."""
    first, last = _bounds(schedule)
    last = min(last, before - 1)
    first = max(first, last - _LOOK_BACK)
    if first > last:
        return None
    match schedule:
        case CronSchedule(cron, zone, gap, overlap):
            second = previous_fire_second(cron, zone, gap, overlap, last // SECOND, -(-first // SECOND))
            return None if second is None else second * SECOND
        case IntervalSchedule(every, anchor):
            fire = anchor + (last - anchor) // every * every
            return fire if fire >= max(first, anchor) else None
        case OneTimeSchedule(at):
            return at if first <= at <= last else None
        case _:
            assert_never(schedule)


def fires(schedule: Schedule, after: Instant, until: Instant | None, limit: int) -> list[Instant]:
    """The first `limit` fires in (after, until], in order; `until` None is no end."""
    found: list[Instant] = []
    while len(found) < limit:
        fire = _next(schedule, after)
        if fire is None or (until is not None and fire > until):
            break
        found.append(fire)
        after = fire
    return found


def explain_fire(schedule: Schedule, at: Instant) -> str | None:
    """What a change of the clocks did to the fire at this instant, as a fact for people; mostly None."""
    match schedule:
        case CronSchedule(cron, zone, gap, overlap):
            return None if at % SECOND else note_on_fire(cron, zone, gap, overlap, at // SECOND)
        case IntervalSchedule() | OneTimeSchedule():
            return None
        case _:
            assert_never(schedule)


def excluded_by(schedule: Schedule, at: Instant) -> str | None:
    """Why a calendar excludes this instant, in words that name the calendar; None when none does. No schedule has one yet."""
    return None


def _next(schedule: Schedule, after: Instant) -> Instant | None:
    first, last = _bounds(schedule)
    first = max(first, after + 1)
    if first > last:
        return None
    match schedule:
        case CronSchedule(cron, zone, gap, overlap):
            second = next_fire_second(cron, zone, gap, overlap, -(-first // SECOND), last // SECOND)
            return None if second is None else second * SECOND
        case IntervalSchedule(every, anchor):
            fire = anchor if first <= anchor else anchor - (anchor - first) // every * every
            return fire if fire <= last else None
        case OneTimeSchedule(at):
            return at if first <= at <= last else None
        case _:
            assert_never(schedule)


def _bounds(schedule: Schedule) -> tuple[Instant, Instant]:
    """The first and the last instant at which the schedule may fire."""
    first = 0 if schedule.start_at is None else max(0, schedule.start_at)
    last = LATEST if schedule.end_at is None else min(LATEST, schedule.end_at)
    return first, last


def _check_bounds(start_at: Instant | None, end_at: Instant | None) -> None:
    if start_at is not None and end_at is not None and end_at < start_at:
        raise Invalid(BAD_TIME, "ends before it starts.", field="endAt", hint="Put endAt at or after startAt.")
