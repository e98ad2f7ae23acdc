"""What a change of the clocks does to named local times: the rules Z1 to Z4.

The zone is a row of stretches of constant offset. Inside a stretch an expression's local times
are instants by one subtraction, so the fires of a whole zone are the fires of its stretches,
each cut at the edges by the rules:

    wild            all readings the stretch shows (Z1)
    FIRST           without those that the stretch before has shown already
    SECOND          without those that the stretch after will show again
    RUN_AFTER       and its first instant, when a named reading fell into the gap before it
    SHIFT           and each reading of that gap, moved forward by the length of the gap

Equal instants are one fire (Z3), for a minimum of two equal numbers is one number.
"""

from __future__ import annotations

from typing import Protocol

from duly.domain.choices import DstGap as DstGap
from duly.domain.choices import DstOverlap as DstOverlap
from duly.domain.cron import SEARCH_YEARS
from duly.domain.zones import DAY_SECONDS, LocalSecond, Stretch, UtcSecond, stretch_at

# No reading is further from its instant than this, gaps of a whole day included.
_NEARBY = 3 * DAY_SECONDS
_FAR: LocalSecond = 1 << 62
_PATIENCE = SEARCH_YEARS * 366 * DAY_SECONDS


class LocalTimes(Protocol):
    """What names readings of a wall clock: a cron expression or a recurrence rule."""

    @property
    def is_wild(self) -> bool:
        """Whether it follows the wall clock instead of naming fixed times (Z1)."""

    def matches(self, local: LocalSecond, /) -> bool:
        """Whether it names this reading."""

    def at_or_after(self, local: LocalSecond, /) -> LocalSecond | None:
        """The least named reading that is not before `local`."""

    def at_or_before(self, local: LocalSecond, /) -> LocalSecond | None:
        """The greatest named reading that is not after `local`."""


def next_fire_second(times: LocalTimes, zone: str, gap: DstGap, overlap: DstOverlap, low: UtcSecond, last: UtcSecond) -> UtcSecond | None:
    """The least fire in [low, last]. None also when 41 years of named times are all skipped."""
    if times.is_wild:
        gap, overlap = DstGap.SKIP, DstOverlap.BOTH
    give_up = None
    while low <= last:
        stretch = stretch_at(zone, low)
        _, end, offset, before, after = stretch
        found = _FAR
        if before < offset and gap is not DstGap.SKIP:
            found = _first_from_gap(times, stretch, gap, low)
        reading = low + offset
        if before > offset and overlap is DstOverlap.FIRST:
            reading = max(reading, stretch.repeats_until)
        nominal = _at_or_after(times, reading)
        limit = stretch.repeated_from if after < offset and overlap is DstOverlap.SECOND else end + offset
        if nominal < limit:
            found = min(found, nominal - offset)
        if found < _FAR:
            return found if found <= last else None
        if give_up is None:
            give_up = nominal + _PATIENCE
        elif low > give_up:
            return None
        # Leap to the stretch of the next reading, unless the clocks are about to go back:
        # then readings before it come round once more.
        low = end if after < offset else max(end, nominal - _NEARBY)
    return None


def previous_fire_second(
    times: LocalTimes, zone: str, gap: DstGap, overlap: DstOverlap, high: UtcSecond, first: UtcSecond
) -> UtcSecond | None:
    """The greatest fire in [first, high]: the mirror of `next_fire_second`."""
    if times.is_wild:
        gap, overlap = DstGap.SKIP, DstOverlap.BOTH
    while high >= first:
        stretch = stretch_at(zone, high)
        start, _, offset, before, after = stretch
        reading = high + offset
        if after < offset and overlap is DstOverlap.SECOND:
            reading = min(reading, stretch.repeated_from - 1)
        nominal = _at_or_before(times, reading)
        limit = stretch.repeats_until if before > offset and overlap is DstOverlap.FIRST else start + offset
        found = nominal - offset if nominal >= limit else -_FAR
        if before < offset and gap is not DstGap.SKIP:
            found = max(found, _last_from_gap(times, stretch, gap, high))
        if found > -_FAR:
            return found if found >= first else None
        high = start - 1 if before > offset else min(start - 1, nominal + _NEARBY)
    return None


def readings_in_gap(times: LocalTimes, stretch: Stretch, limit: int) -> list[LocalSecond]:
    """Up to `limit` named readings that the clocks jumped over on entering the stretch."""
    low, high = stretch.gap
    readings: list[LocalSecond] = []
    while len(readings) < limit and low < high and (low := _at_or_after(times, low)) < high:
        readings.append(low)
        low += 1
    return readings


def _first_from_gap(times: LocalTimes, stretch: Stretch, gap: DstGap, low: UtcSecond) -> UtcSecond:
    """The least instant, not before `low`, that a reading in the gap before the stretch is given."""
    if gap is DstGap.SHIFT:
        nominal = _at_or_after(times, low + stretch.offset_before)
        return nominal - stretch.offset_before if nominal < stretch.start + stretch.offset else _FAR
    if low > stretch.start:
        return _FAR
    skipped, shown = stretch.gap
    return stretch.start if _at_or_after(times, skipped) < shown else _FAR


def _last_from_gap(times: LocalTimes, stretch: Stretch, gap: DstGap, high: UtcSecond) -> UtcSecond:
    skipped, shown = stretch.gap
    if gap is DstGap.SHIFT:
        nominal = _at_or_before(times, min(high + stretch.offset_before, shown - 1))
        return nominal - stretch.offset_before if nominal >= skipped else -_FAR
    return stretch.start if _at_or_before(times, shown - 1) >= skipped else -_FAR


def _at_or_after(times: LocalTimes, reading: LocalSecond) -> LocalSecond:
    nominal = times.at_or_after(reading)
    return _FAR if nominal is None else nominal


def _at_or_before(times: LocalTimes, reading: LocalSecond) -> LocalSecond:
    nominal = times.at_or_before(reading)
    return -_FAR if nominal is None else nominal
