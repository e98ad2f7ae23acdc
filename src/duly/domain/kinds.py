"""The kinds of schedule and the instants of each, before any calendar has a say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from duly.domain.cron import SEARCH_YEARS, Cron
from duly.domain.dst import DstGap, DstOverlap, LocalTimes, next_fire_second, previous_fire_second
from duly.domain.errors import Invalid
from duly.domain.fire_notes import note_on_fire
from duly.domain.instants import DAY, LATEST, SECOND, Instant, Micros
from duly.domain.rule import Rule
from duly.domain.zones import load_zone

BAD_INTERVAL = "DULY-E104"
BAD_TIME = "DULY-E105"

LOOK_BACK: Micros = SEARCH_YEARS * 366 * DAY


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

    @property
    def times(self) -> LocalTimes:
        """The local times it names."""
        return self.cron


@dataclass(frozen=True, slots=True)
class RuleSchedule:
    """Fires at the local times of a zone that a recurrence rule names, with the policies of fixed times."""

    rule: Rule
    zone: str = "UTC"
    gap: DstGap = DstGap.RUN_AFTER
    overlap: DstOverlap = DstOverlap.FIRST
    start_at: Instant | None = None
    end_at: Instant | None = None

    def __post_init__(self) -> None:
        load_zone(self.zone)
        _check_bounds(self.start_at, self.end_at)

    @property
    def times(self) -> LocalTimes:
        """The local times it names."""
        return self.rule


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


PlainSchedule = CronSchedule | RuleSchedule | IntervalSchedule | OneTimeSchedule


def zone_of(schedule: PlainSchedule) -> str:
    """The zone whose days and times the schedule speaks of; UTC where it speaks of none."""
    return schedule.zone if isinstance(schedule, CronSchedule | RuleSchedule) else "UTC"


def plain_next(schedule: PlainSchedule, after: Instant) -> Instant | None:
    """The least fire strictly after `after`."""
    first, last = bounds(schedule)
    first = max(first, after + 1)
    if first > last:
        return None
    match schedule:
        case CronSchedule(times, zone, gap, overlap) | RuleSchedule(times, zone, gap, overlap):
            second = next_fire_second(times, zone, gap, overlap, -(-first // SECOND), last // SECOND)
            return None if second is None else second * SECOND
        case IntervalSchedule(every, anchor):
            fire = anchor if first <= anchor else anchor - (anchor - first) // every * every
            return fire if fire <= last else None
        case OneTimeSchedule(at):
            return at if first <= at <= last else None
        case _:
            assert_never(schedule)


def plain_previous(schedule: PlainSchedule, before: Instant) -> Instant | None:
    """The greatest fire strictly before `before`, or None when the 41 years before it hold none."""
    first, last = bounds(schedule)
    last = min(last, before - 1)
    first = max(first, last - LOOK_BACK)
    if first > last:
        return None
    match schedule:
        case CronSchedule(times, zone, gap, overlap) | RuleSchedule(times, zone, gap, overlap):
            second = previous_fire_second(times, zone, gap, overlap, last // SECOND, -(-first // SECOND))
            return None if second is None else second * SECOND
        case IntervalSchedule(every, anchor):
            fire = anchor + (last - anchor) // every * every
            return fire if fire >= max(first, anchor) else None
        case OneTimeSchedule(at):
            return at if first <= at <= last else None
        case _:
            assert_never(schedule)


def plain_note(schedule: PlainSchedule, at: Instant) -> str | None:
    """What a change of the clocks did to the fire at this instant."""
    match schedule:
        case CronSchedule(times, zone, gap, overlap) | RuleSchedule(times, zone, gap, overlap):
            return None if at % SECOND else note_on_fire(times, zone, gap, overlap, at // SECOND)
        case IntervalSchedule() | OneTimeSchedule():
            return None
        case _:
            assert_never(schedule)


def fires_a_day(schedule: PlainSchedule) -> int:
    """How often it fires on the busiest day that its pattern allows."""
    match schedule:
        case CronSchedule(cron):
            return len(cron.hour.values) * len(cron.minute.values) * len(cron.second.values)
        case RuleSchedule(rule):
            return len(rule.times)
        case IntervalSchedule(every):
            return -(-DAY // every)
        case OneTimeSchedule():
            return 1
        case _:
            assert_never(schedule)


def bounds(schedule: PlainSchedule) -> tuple[Instant, Instant]:
    """The first and the last instant at which the schedule may fire."""
    first = 0 if schedule.start_at is None else max(0, schedule.start_at)
    last = LATEST if schedule.end_at is None else min(LATEST, schedule.end_at)
    return first, last


def _check_bounds(start_at: Instant | None, end_at: Instant | None) -> None:
    if start_at is not None and end_at is not None and end_at < start_at:
        raise Invalid(BAD_TIME, "ends before it starts.", field="endAt", hint="Put endAt at or after startAt.")
