"""What the coming changes of the clocks will do to a schedule, before they come.

A change touches a schedule that names a time which will not exist, or will be shown twice. What becomes of it, `dstGap` and `dstOverlap`
say. An expression that follows the wall clock (Z1) is not touched: it names no time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from duly.domain.dst import DstGap, DstOverlap, readings_in_gap
from duly.domain.fire_notes import clock
from duly.domain.instants import SECOND, Instant
from duly.domain.kinds import CronSchedule, RuleSchedule
from duly.domain.schedule import CalendarSchedule, Schedule, explain_fire, is_fire, plain_of
from duly.domain.zones import Stretch, changes, stretch_at

# One is enough to say what happens; more than this in one gap are not counted.
_MANY = 100


class Touch(NamedTuple):
    """The change, its zone, and what it does to the schedule."""

    at: Instant
    zone: str
    words: str


def next_touch(schedule: Schedule, after: Instant, until: Instant) -> Touch | None:
    """The first change of the clocks in (after, until] that touches it. Times that a calendar leaves out are not touched."""
    plain = plain_of(schedule)
    if not isinstance(plain, CronSchedule | RuleSchedule) or plain.times.is_wild:
        return None
    for change in changes(plain.zone, after, until):
        stretch = stretch_at(plain.zone, change.at // SECOND)
        words = _skipped(schedule, plain, stretch) if change.is_gap else _repeated(schedule, plain, stretch)
        if words is not None:
            return Touch(change.at, plain.zone, words)
    return None


def _skipped(schedule: Schedule, plain: CronSchedule | RuleSchedule, stretch: Stretch) -> str | None:
    readings = readings_in_gap(plain.times, stretch, _MANY)
    if not readings:
        return None
    if plain.gap is DstGap.SKIP:
        # Whether it would have run otherwise.
        if not is_fire(_with(schedule, replace(plain, gap=DstGap.RUN_AFTER)), stretch.start * SECOND):
            return None
        does = "does not exist on this day and is" if len(readings) == 1 else "and other times do not exist on this day and are"
        return f"{clock(readings[0])} {does} left out"
    seconds = [stretch.start] if plain.gap is DstGap.RUN_AFTER else [reading - stretch.offset_before for reading in readings]
    return next((note for second in seconds if (note := _told(schedule, second))), None)


def _repeated(schedule: Schedule, plain: CronSchedule | RuleSchedule, stretch: Stretch) -> str | None:
    reading = plain.times.at_or_after(stretch.start + stretch.offset)
    while reading is not None and reading < stretch.repeats_until:
        note = _told(schedule, reading - (stretch.offset if plain.overlap is DstOverlap.SECOND else stretch.offset_before))
        if note is not None:
            return f"{clock(reading)} happens twice on this day, and runs twice" if plain.overlap is DstOverlap.BOTH else note
        reading = plain.times.at_or_after(reading + 1)
    return None


def _told(schedule: Schedule, second: int) -> str | None:
    at = second * SECOND
    return explain_fire(schedule, at) if is_fire(schedule, at) else None


def _with(schedule: Schedule, plain: CronSchedule | RuleSchedule) -> Schedule:
    return replace(schedule, base=plain) if isinstance(schedule, CalendarSchedule) else plain
