"""When a job fires: the kinds of schedule, the calendars around them, and the instants that follow.

Each may be bounded by `start_at` and `end_at`, and both of these instants still belong to it.
A schedule is a value; its fires depend on nothing but itself and the pinned tzdata, so any
node may compute them, from any point, and get the same ones (I22).

    next_fire(schedule, after)        strictly after
    search_fire(schedule, after)      the same, with pauses on the way
    previous_fire(schedule, before)   strictly before
    fires(schedule, after, until, limit)
    is_fire(schedule, at)
    explain_fire(schedule, at)        what the clocks and the calendars did to this fire
    excluded_by(schedule, at)         why the calendars leave out what would have fired then
"""

from __future__ import annotations

from functools import lru_cache

from duly.domain.calendar_fires import CalendarSchedule, calendar_note, calendar_previous, calendar_search, excluded_nominal
from duly.domain.calendars import Calendar, OnExcluded
from duly.domain.dst import DstGap, DstOverlap
from duly.domain.instants import Instant
from duly.domain.kinds import (
    CronSchedule,
    IntervalSchedule,
    OneTimeSchedule,
    PlainSchedule,
    RuleSchedule,
    plain_next,
    plain_note,
    plain_previous,
    zone_of,
)
from duly.domain.moved_fires import Search, ended

__all__ = [
    "Calendar",
    "CalendarSchedule",
    "CronSchedule",
    "DstGap",
    "DstOverlap",
    "IntervalSchedule",
    "OnExcluded",
    "OneTimeSchedule",
    "PlainSchedule",
    "RuleSchedule",
    "Schedule",
    "Search",
    "ended",
    "excluded",
    "excluded_by",
    "explain_fire",
    "fires",
    "is_fire",
    "next_fire",
    "plain_of",
    "previous_fire",
    "search_fire",
    "zone_of",
]

Schedule = PlainSchedule | CalendarSchedule


# For herds that share an instant: more than a moment's worth would only be kept.
@lru_cache(maxsize=4096)
def next_fire(schedule: Schedule, after: Instant) -> Instant | None:
    """The least fire strictly after `after`, or None when there is none. Nothing fires before 1970 or after 9999."""
    return _next(schedule, after)


def search_fire(schedule: Schedule, after: Instant) -> Search:
    """The same as `next_fire`, with pauses on the way."""
    return (yield from calendar_search(schedule, after)) if isinstance(schedule, CalendarSchedule) else plain_next(schedule, after)


def previous_fire(schedule: Schedule, before: Instant) -> Instant | None:
    """The greatest fire strictly before `before`, or None when the 41 years before it hold none."""
    if isinstance(schedule, CalendarSchedule):
        return calendar_previous(schedule, before)
    return plain_previous(schedule, before)


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


def is_fire(schedule: Schedule, at: Instant) -> bool:
    """Whether it fires at this instant."""
    return _next(schedule, at - 1) == at


def explain_fire(schedule: Schedule, at: Instant) -> str | None:
    """What a change of the clocks or a calendar did to the fire at this instant, as a fact for people; mostly None."""
    return calendar_note(schedule, at) if isinstance(schedule, CalendarSchedule) else plain_note(schedule, at)


def excluded_by(schedule: Schedule, at: Instant) -> str | None:
    """Why a calendar excludes this instant, in words that name the calendar; None when none does.

    It says why nothing fired at a time that the schedule itself names, or why that fire was moved.
    """
    return excluded_nominal(schedule, at) if isinstance(schedule, CalendarSchedule) else None


def excluded(schedule: Schedule, after: Instant, until: Instant, limit: int) -> list[tuple[Instant, str]]:
    """What the schedule itself names in (after, until] and a calendar excludes, with the reason; the first `limit`."""
    found: list[tuple[Instant, str]] = []
    if not isinstance(schedule, CalendarSchedule):
        return found
    while len(found) < limit:
        nominal = plain_next(schedule.base, after)
        if nominal is None or nominal > until:
            break
        reason = excluded_nominal(schedule, nominal)
        if reason is not None:
            found.append((nominal, reason))
        after = nominal
    return found


def plain_of(schedule: Schedule) -> PlainSchedule:
    """The schedule without its calendars."""
    return schedule.base if isinstance(schedule, CalendarSchedule) else schedule


def _next(schedule: Schedule, after: Instant) -> Instant | None:
    if not isinstance(schedule, CalendarSchedule):
        return plain_next(schedule, after)
    return ended(calendar_search(schedule, after))
