"""How fires were moved at first: by asking every quarter of an hour of every day around. Slow and plain; the product is held to it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import lru_cache

from duly.domain.calendars import OnExcluded, is_closed_day, is_in_window, local_day
from duly.domain.instants import DAY, SECOND, Instant
from duly.domain.kinds import LOOK_BACK, bounds, plain_next, plain_previous
from duly.domain.schedule import CalendarSchedule
from duly.domain.zones import DAY_SECONDS, stretch_at

MOST_DAYS = 1000
LONGEST_MOVE = 40


def next_moved(schedule: CalendarSchedule, after: Instant) -> Instant | None:
    """The least fire strictly after `after`."""
    zone = schedule.zone
    behind, ahead = (LONGEST_MOVE, 0) if schedule.on_excluded is OnExcluded.NEXT_BUSINESS_DAY else (0, LONGEST_MOVE)
    # The day before too: where the clocks go back over midnight, it comes round once more.
    day = local_day(zone, max(after, 0)) - 1
    last_day: int | None = None
    found: Instant | None = None
    for step in range(MOST_DAYS):
        fires = _fires_on(schedule, day)
        nth = bisect_right(fires, after)
        if nth < len(fires):
            found = fires[nth] if found is None else min(found, fires[nth])
        if step > 0 and found is not None:
            return found
        day += 1
        # The first fire of the schedule itself that can reach this day or a later one; the days it cannot reach are leapt over.
        coming = plain_next(schedule.base, _midnight(zone, day - behind) - DAY)
        if coming is None or (last_day is not None and day > last_day):
            return found
        if step > 0:
            day = max(day, local_day(zone, coming) - ahead)
        last_day = last_day or local_day(zone, coming) + LOOK_BACK // DAY
    return None


def previous_moved(schedule: CalendarSchedule, before: Instant) -> Instant | None:
    """The greatest fire strictly before `before`."""
    zone = schedule.zone
    behind, ahead = (LONGEST_MOVE, 0) if schedule.on_excluded is OnExcluded.NEXT_BUSINESS_DAY else (0, LONGEST_MOVE)
    first_day = local_day(zone, max(before - LOOK_BACK, bounds(schedule.base)[0])) - LONGEST_MOVE
    day = local_day(zone, before) + 1
    found: Instant | None = None
    for step in range(MOST_DAYS):
        fires = _fires_on(schedule, day)
        nth = bisect_left(fires, before)
        if nth > 0:
            found = fires[nth - 1] if found is None else max(found, fires[nth - 1])
        if step > 0 and found is not None:
            return found
        day -= 1
        past = plain_previous(schedule.base, _midnight(zone, day + 1 + ahead) + DAY)
        if past is None or day < first_day:
            return found
        if step > 0:
            day = min(day, local_day(zone, past) + behind)
    return None


@lru_cache(maxsize=4096)
def _fires_on(schedule: CalendarSchedule, day: int) -> tuple[Instant, ...]:
    """Every fire on a local day, in order."""
    if not _open_times(schedule, day):
        return ()
    found = {moved for fire in _sources(schedule, day) if (moved := _moved(schedule, fire)) is not None}
    return tuple(sorted(fire for fire in found if local_day(schedule.zone, fire) == day))


def _sources(schedule: CalendarSchedule, day: int) -> Iterator[Instant]:
    """The fires of the schedule itself that may move to the day, with a day to spare on both sides."""
    is_later = schedule.on_excluded is OnExcluded.NEXT_BUSINESS_DAY
    far = _end_of_run(schedule, day, -1 if is_later else 1)
    first, last = (far, day) if is_later else (day, far)
    at = _midnight(schedule.zone, first) - DAY - 1
    end = _midnight(schedule.zone, last + 1) + DAY
    while (fire := plain_next(schedule.base, at)) is not None and fire < end:
        yield fire
        at = fire


def _moved(schedule: CalendarSchedule, fire: Instant) -> Instant | None:
    """Where a fire of the schedule itself takes place; None when it is left out."""
    calendars, zone = schedule.calendars, schedule.zone
    to = fire
    if is_closed_day(calendars, zone, fire):
        second = fire // SECOND
        reading = fire + stretch_at(zone, second).offset * SECOND
        step = DAY if schedule.on_excluded is OnExcluded.NEXT_BUSINESS_DAY else -DAY
        for _ in range(LONGEST_MOVE):
            reading += step
            to = _instant_of(zone, reading)
            if not is_closed_day(calendars, zone, to):
                break
        else:
            return None
    first, last = bounds(schedule.base)
    return to if first <= to <= last and not is_in_window(calendars, zone, to) else None


@lru_cache(maxsize=4096)
def _end_of_run(schedule: CalendarSchedule, day: int, step: int) -> int:
    """How far from this day, in steps of one, days are closed at a time of day at which this one is open: fires come from there."""
    times, end = _open_times(schedule, day), day
    while abs(end - day) < LONGEST_MOVE and (times := tuple(time for time in times if _is_closed(schedule, end + step, time))):
        end += step
    return end


@lru_cache(maxsize=4096)
def _open_times(schedule: CalendarSchedule, day: int) -> tuple[int, ...]:
    """Those of the times of day at which the day is open."""
    return tuple(time for time in _times_of_day(schedule) if not _is_closed(schedule, day, time))


def _times_of_day(schedule: CalendarSchedule) -> tuple[int, ...]:
    """The seconds of a day at which to ask whether it is closed: one, unless a calendar's own day begins in the midst of it."""
    is_plain = all(calendar.zone in (None, schedule.zone) for calendar in schedule.calendars)
    # Offsets are whole quarters of an hour.
    return (0,) if is_plain else tuple(range(0, DAY_SECONDS, 900))


def _is_closed(schedule: CalendarSchedule, day: int, time: int) -> bool:
    at = _instant_of(schedule.zone, (day * DAY_SECONDS + time) * SECOND)
    return is_closed_day(schedule.calendars, schedule.zone, at)


def _midnight(zone: str, day: int) -> Instant:
    return _instant_of(zone, day * DAY_SECONDS * SECOND)


def _instant_of(zone: str, reading: int) -> Instant:
    """The first instant at which the clock shows this reading, in microseconds; past a gap, the first after it."""
    second, rest = divmod(reading, SECOND)
    # No offset is further from UTC than a day.
    stretch = stretch_at(zone, second - DAY_SECONDS)
    while stretch.end + stretch.offset <= second:
        stretch = stretch_at(zone, stretch.end)
    at = second - stretch.offset
    return at * SECOND + rest if at >= stretch.start else stretch.start * SECOND
