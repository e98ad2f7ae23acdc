"""The fires of a schedule that calendars have a say in.

`skip` leaves excluded fires out, and leaps over a whole excluded stretch at once; `moved_fires` moves
them to other days. Both walk a bounded way: what finds nothing in it never fires.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from duly.domain.calendars import Calendar, OnExcluded, closed_since, closed_until, exclusion
from duly.domain.errors import Invalid
from duly.domain.instants import SECOND, Instant
from duly.domain.kinds import LOOK_BACK, PlainSchedule, fires_a_day, plain_next, plain_note, plain_previous, zone_of
from duly.domain.moved_fires import Mover, Search, mover_of
from duly.domain.zones import stretch_at

MOST_CALENDARS = 8
# So many excluded fires in a row, each in a stretch of its own, and a schedule is taken to never fire again.
MOST_LEAPS = 5000
# A fire that is moved has a day of its own; what fires all day long is skipped instead.
MOST_MOVED_A_DAY = 96


@dataclass(frozen=True, slots=True)
class CalendarSchedule:
    """A schedule and the calendars that it keeps to."""

    base: PlainSchedule
    calendars: tuple[Calendar, ...]
    on_excluded: OnExcluded = OnExcluded.SKIP

    def __post_init__(self) -> None:
        if len(self.calendars) > MOST_CALENDARS:
            raise Invalid("DULY-E106", f"at most {MOST_CALENDARS} calendars.", field="calendars")
        if self.on_excluded is not OnExcluded.SKIP and fires_a_day(self.base) > MOST_MOVED_A_DAY:
            raise Invalid(
                "DULY-E106",
                f"moves the fires of a day, at most {MOST_MOVED_A_DAY} of them; this schedule fires more often.",
                field="onExcluded",
                hint='Use "onExcluded": "skip".',
            )

    @property
    def zone(self) -> str:
        """The zone of the job: its days, where a calendar has no zone of its own."""
        return zone_of(self.base)

    @property
    def start_at(self) -> Instant | None:
        """The first instant that may be a fire."""
        return self.base.start_at

    @property
    def end_at(self) -> Instant | None:
        """The last instant that may be a fire."""
        return self.base.end_at


def calendar_search(schedule: CalendarSchedule, after: Instant) -> Search:
    """The least fire strictly after `after`; None also when, from the first that is excluded, 41 years or 5,000 leaps lead to none."""
    if schedule.on_excluded is not OnExcluded.SKIP:
        return (yield from _mover(schedule).search(after))
    give_up: Instant | None = None
    for _ in range(MOST_LEAPS):
        yield
        fire = plain_next(schedule.base, after)
        if fire is None or (give_up is not None and fire > give_up):
            return None
        give_up = give_up or fire + LOOK_BACK
        until = closed_until(schedule.calendars, schedule.zone, fire)
        if until is None:
            return fire
        after = until - 1
    return None


def calendar_previous(schedule: CalendarSchedule, before: Instant) -> Instant | None:
    """The greatest fire strictly before `before`: the mirror of `calendar_search`."""
    if schedule.on_excluded is not OnExcluded.SKIP:
        return _mover(schedule).previous(before)
    give_up = before - LOOK_BACK
    for _ in range(MOST_LEAPS):
        fire = plain_previous(schedule.base, before)
        if fire is None or fire < give_up:
            return None
        since = closed_since(schedule.calendars, schedule.zone, fire)
        if since is None:
            return fire
        before = since
    return None


def calendar_note(schedule: CalendarSchedule, at: Instant) -> str | None:
    """What the calendars and the clocks did to the fire at this instant."""
    notes = [plain_note(schedule.base, at)]
    if schedule.on_excluded is not OnExcluded.SKIP:
        sources = [fire for fire in _mover(schedule).sources(at) if fire != at]
        notes += [f"moved from {_shown(schedule.zone, fire)}: {excluded_nominal(schedule, fire)}" for fire in sources[:1]]
        if len(sources) > 1:
            notes.append(f"one run with {len(sources) - 1} more")
    return "; ".join(note for note in notes if note is not None) or None


def excluded_nominal(schedule: CalendarSchedule, at: Instant) -> str | None:
    """Why the calendars do not let it fire at this instant, in words; None when they do."""
    return exclusion(schedule.calendars, schedule.zone, at)


def _mover(schedule: CalendarSchedule) -> Mover:
    return mover_of(schedule.base, schedule.calendars, 1 if schedule.on_excluded is OnExcluded.NEXT_BUSINESS_DAY else -1)


def _shown(zone: str, at: Instant) -> str:
    second = at // SECOND
    return f"{datetime.fromtimestamp(second + stretch_at(zone, second).offset, UTC):%a %d %b}"
