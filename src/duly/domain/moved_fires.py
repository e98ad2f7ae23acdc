"""Fires that calendars move to another day.

Moving keeps the local time of day and looks for the nearest day that none of the calendars closes, so
the fires of a day are its own and those of the closed days beside it: a set, in which fires that meet
are one.

A calendar may have a zone of its own, whose days begin in the midst of the job's. What is closed of a
day is therefore a mask with a bit for each quarter of an hour: every zone's clock is off by whole
quarters. A run of closed days is then an AND of masks, and where it ends follows for all times of day
at once. Where quarters do not do (offsets of seconds, before 1972; clocks that change at a minute past
midnight), each fire asks for itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Mapping
from functools import lru_cache
from typing import TypeVar

from duly.domain.calendars import Calendar, is_closed_day, is_in_window, local_day, window_until
from duly.domain.instants import DAY, SECOND, Instant
from duly.domain.kinds import LOOK_BACK, PlainSchedule, bounds, plain_next, plain_previous, zone_of
from duly.domain.zones import DAY_SECONDS, LocalSecond, UtcSecond, stretch_at

# So many days in a row, each with fires of which windows leave none, and a schedule is taken to never fire again.
MOST_DAYS = 1000
# A fire is moved no further than this; beyond it, it is left out.
LONGEST_MOVE = 40

Found = TypeVar("Found")

_QUARTER = 900
_ALL = (1 << DAY_SECONDS // _QUARTER) - 1


# On the way to its result it pauses again and again, for those who must not be kept from other work.
Search = Generator[None, None, Instant | None]


class Mover:
    """A schedule whose fires move: to later days, or (`step` -1) to earlier ones. It is itself alone: caches know it by its identity."""

    def __init__(self, base: PlainSchedule, calendars: tuple[Calendar, ...], step: int) -> None:
        self.base = base
        self.calendars = calendars
        self.zone = zone_of(base)
        self.step = step
        self.zones = {self.zone} | {calendar.zone for calendar in calendars if calendar.zone is not None}

    def search(self, after: Instant) -> Search:
        """The least fire strictly after `after`."""
        # The day before too: where the clocks go back over midnight, it comes round once more.
        day = local_day(self.zone, max(after, 0)) - 1
        last_day: int | None = None
        found: Instant | None = None
        for _ in range(MOST_DAYS):
            yield
            fires = _fires_on(self, day)
            nth = bisect_right(fires, after)
            if nth < len(fires):
                found = fires[nth] if found is None else min(found, fires[nth])
            day += 1
            # The days to come begin with their midnight.
            if found is not None and found < _midnight(self.zone, day):
                return found
            coming = plain_next(self.base, _midnight(self.zone, _first_source(self, day)) - 1)
            if coming is None or (last_day is not None and day > last_day):
                return found
            source = local_day(self.zone, coming)
            day = max(day, source - 1 if self.step > 0 else _closed_since(self, source - 1) - 1)
            last_day = last_day or source + LOOK_BACK // DAY
        return None

    def previous(self, before: Instant) -> Instant | None:
        """The greatest fire strictly before `before`: the mirror of `search`."""
        first_day = local_day(self.zone, max(before - LOOK_BACK, bounds(self.base)[0])) - LONGEST_MOVE
        day = local_day(self.zone, before) + 1
        found: Instant | None = None
        for _ in range(MOST_DAYS):
            fires = _fires_on(self, day)
            nth = bisect_left(fires, before)
            latest = None if nth == 0 else fires[nth - 1]
            # A day that comes round once more ends after the next has begun: the day before is always asked too.
            if found is not None:
                return found if latest is None else max(found, latest)
            found = latest
            day -= 1
            past = plain_previous(self.base, _midnight(self.zone, _last_source(self, day) + 1))
            if past is None or day < first_day:
                return found
            if found is None:
                source = local_day(self.zone, past)
                day = min(day, _closed_until(self, source + 2) + 1 if self.step > 0 else source + 1)
        return found

    def sources(self, to: Instant) -> list[Instant]:
        """The fires of the schedule itself that take place at this instant."""
        return [fire for at, fire in _landed_on(self, local_day(self.zone, to)) if at == to]

    def moved(self, fire: Instant) -> Instant | None:
        """Where a fire of the schedule itself takes place; None when it is left out."""
        to: Instant | None = fire
        if is_closed_day(self.calendars, self.zone, fire):
            to = self._landing(fire + stretch_at(self.zone, fire // SECOND).offset * SECOND)
        first, last = bounds(self.base)
        return to if to is not None and first <= to <= last and not is_in_window(self.calendars, self.zone, to) else None

    def _landing(self, reading: int) -> Instant | None:
        """The first instant with the same time on the nearest day that is open then."""
        day, time = divmod(reading, DAY)
        landings = _landings(self, day)
        if landings is not None:
            quarter = time // SECOND // _QUARTER
            way = next((way for way, quarters in landings if quarters >> quarter & 1), None)
            return None if way is None else _instant_of(self.zone, reading + way * DAY)
        for way in range(1, LONGEST_MOVE + 1):
            to = _instant_of(self.zone, reading + way * self.step * DAY)
            if not is_closed_day(self.calendars, self.zone, to):
                return to
        return None


def ended(search: Generator[None, None, Found]) -> Found:
    """What a search finds, without its pauses."""
    while True:
        try:
            next(search)
        except StopIteration as end:
            found: Found = end.value
            return found


@lru_cache(maxsize=1024)
def mover_of(base: PlainSchedule, calendars: tuple[Calendar, ...], step: int) -> Mover:
    """The one mover of these: what it finds is remembered for it."""
    return Mover(base, calendars, step)


# ---------------------------------------------------------------- fires of a day


@lru_cache(maxsize=4096)
def _fires_on(mover: Mover, day: int) -> tuple[Instant, ...]:
    """Every fire on a local day, in order."""
    # Of a day on which the clocks go back, the mask says nothing about what comes twice.
    if _closed_at(mover, day) == _ALL and _midnight(mover.zone, day + 1) - _midnight(mover.zone, day) <= DAY:
        return ()
    if _is_window(mover, day):
        return ()
    return tuple(sorted({at for at, _ in _landed_on(mover, day)}))


def _is_window(mover: Mover, day: int) -> bool:
    """Whether windows take up the whole of a day."""
    at: Instant | None = _midnight(mover.zone, day)
    while at is not None and at < _midnight(mover.zone, day + 1):
        at = window_until(mover.calendars, mover.zone, at)
    return at is not None


def _landed_on(mover: Mover, day: int) -> list[tuple[Instant, Instant]]:
    """Each fire on a local day, with the fire of the schedule itself that it comes from, in the order of these."""
    nearby = range(_first_source(mover, day), _last_source(mover, day) + 1)
    return [pair for source in nearby for pair in _landed(mover, source).get(day, ())]


@lru_cache(maxsize=4096)
def _landed(mover: Mover, source: int) -> Mapping[int, list[tuple[Instant, Instant]]]:
    """Where the fires of a day of the schedule itself take place, by the local day, each with the fire that it was."""
    found: dict[int, list[tuple[Instant, Instant]]] = {}
    for fire in _base_on(mover, source):
        to = mover.moved(fire)
        if to is not None:
            found.setdefault(local_day(mover.zone, to), []).append((to, fire))
    return found


def _base_on(mover: Mover, day: int) -> list[Instant]:
    """The fires of the schedule itself from the midnight of a day to that of the next."""
    found: list[Instant] = []
    at, end = _midnight(mover.zone, day) - 1, _midnight(mover.zone, day + 1)
    while (fire := plain_next(mover.base, at)) is not None and fire < end:
        found.append(fire)
        at = fire
    return found


def _first_source(mover: Mover, day: int) -> int:
    """The first day whose fires may take place on a day, or on a later one; with a day to spare."""
    if mover.step < 0:
        return day - 1
    # A time that the clocks skip on their way over midnight lands on the day after its own.
    midnight = _midnight(mover.zone, day) // SECOND
    is_skipped = midnight + stretch_at(mover.zone, midnight).offset != day * DAY_SECONDS or midnight * SECOND == _midnight(
        mover.zone, day - 1
    )
    return _closed_since(mover, day - 1 if is_skipped else day) - 1


def _last_source(mover: Mover, day: int) -> int:
    """The last day whose fires may take place on a day, or on an earlier one; with a day to spare."""
    return day + 1 if mover.step > 0 else _closed_until(mover, day + 1) + 1


# ---------------------------------------------------------------- runs of closed days


@lru_cache(maxsize=16_384)
def _landings(mover: Mover, day: int) -> tuple[tuple[int, int], ...] | None:
    """How far the fires of a closed day move, in days, and in which quarters of it they do; None where quarters do not do."""
    found: list[tuple[int, int]] = []
    left = _ALL
    for way in range(mover.step, (LONGEST_MOVE + 1) * mover.step, mover.step):
        closed = _closed_at(mover, day + way)
        if closed is None:
            return None
        if left & ~closed:
            found.append((way, left & ~closed))
        left &= closed
        if not left:
            break
    return tuple(found)


@lru_cache(maxsize=16_384)
def _closed_since(mover: Mover, day: int) -> int:
    """The first of the days just before a day that are all closed at some time of day; the day itself when there are none."""
    return _end_of_run(mover, day, -1)


@lru_cache(maxsize=16_384)
def _closed_until(mover: Mover, day: int) -> int:
    """The first of the days from a day on with which they are no longer all closed at some time of day."""
    return _end_of_run(mover, day - 1, 1) + 1


def _end_of_run(mover: Mover, day: int, step: int) -> int:
    left, end = _ALL, day
    while abs(end - day) < LONGEST_MOVE:
        closed = _closed_at(mover, end + step)
        left &= _ALL if closed is None else closed
        if not left:
            break
        end += step
    return end


@lru_cache(maxsize=16_384)
def _closed_at(mover: Mover, day: int) -> int | None:
    """A bit for each quarter of an hour of a local day, set where the day is closed then; None where quarters do not do."""
    midnight = _midnight(mover.zone, day) // SECOND
    stretch = stretch_at(mover.zone, midnight)
    is_plain = (
        midnight + stretch.offset == day * DAY_SECONDS
        and midnight + DAY_SECONDS <= stretch.end
        and stretch.repeats_until <= day * DAY_SECONDS
    )
    if is_plain:
        mask = 0
        for calendar in mover.calendars:
            own = _closed_by(mover, calendar, midnight)
            if own is None:
                break
            mask |= own
        else:
            return mask
    if not all(_keeps_quarters(zone, midnight) for zone in mover.zones):
        return None
    return sum(1 << nth for nth in range(DAY_SECONDS // _QUARTER) if _is_closed(mover, day * DAY_SECONDS + nth * _QUARTER))


def _closed_by(mover: Mover, calendar: Calendar, midnight: UtcSecond) -> int | None:
    """The mask of one calendar for a day of 24 hours; None when the calendar's own clock changes in it."""
    own = calendar.zone or mover.zone
    stretch = stretch_at(own, midnight)
    if midnight + DAY_SECONDS > stretch.end:
        return None
    time = (midnight + stretch.offset) % DAY_SECONDS
    # The calendar's next day begins in the midst of this one.
    quarters, rest = divmod(DAY_SECONDS - time, _QUARTER)
    if rest:
        return None
    earlier = (1 << quarters) - 1
    today = is_closed_day((calendar,), mover.zone, midnight * SECOND)
    tomorrow = earlier != _ALL and is_closed_day((calendar,), mover.zone, (midnight + quarters * _QUARTER) * SECOND)
    return (earlier if today else 0) | (_ALL ^ earlier if tomorrow else 0)


def _keeps_quarters(zone: str, midnight: UtcSecond) -> bool:
    """Whether the zone's clock is off by whole quarters of an hour around a day, and changes at such."""
    at, until = midnight - 2 * DAY_SECONDS, midnight + 3 * DAY_SECONDS
    while at < until:
        stretch = stretch_at(zone, at)
        if stretch.offset % _QUARTER or (stretch.offset_after != stretch.offset and stretch.end % _QUARTER):
            return False
        at = stretch.end
    return True


def _is_closed(mover: Mover, reading: LocalSecond) -> bool:
    return is_closed_day(mover.calendars, mover.zone, _instant_of(mover.zone, reading * SECOND))


@lru_cache(maxsize=16_384)
def _midnight(zone: str, day: int) -> Instant:
    return _instant_of(zone, day * DAY)


def _instant_of(zone: str, reading: int) -> Instant:
    """The first instant at which the clock shows this reading, in microseconds; past a gap, the first after it."""
    second, rest = divmod(reading, SECOND)
    # No offset is further from UTC than a day.
    stretch = stretch_at(zone, second - DAY_SECONDS)
    while stretch.end + stretch.offset <= second:
        stretch = stretch_at(zone, stretch.end)
    at = second - stretch.offset
    return at * SECOND + rest if at >= stretch.start else stretch.start * SECOND
