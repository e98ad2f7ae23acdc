"""Where a schedule waits: at its start, past a pause, past a fire that is to be skipped."""

from __future__ import annotations

from duly.domain.errors import Invalid
from duly.domain.instants import Instant
from duly.domain.schedule import OneTimeSchedule, Schedule, is_fire, next_fire, plain_of


def first_fire(schedule: Schedule | None, now: Instant) -> Instant | None:
    """Where a schedule starts to wait. A one-time job keeps its time even when that has passed: it is late, not forgotten."""
    if schedule is None:
        return None
    return next_fire(schedule, -1) if isinstance(plain_of(schedule), OneTimeSchedule) else next_fire(schedule, now)


def demand_fire(schedule: Schedule | None, now: Instant) -> Instant | None:
    """The same, for a job that is made: raises Invalid (DULY-E102) for a schedule that has no fire in the future."""
    first = first_fire(schedule, now)
    if schedule is not None and first is None:
        raise Invalid("DULY-E102", "The schedule has no fire in the future.", field="schedule", hint="Look at endAt and at the calendars.")
    return first


def past_pause(schedule: Schedule | None, fire: Instant | None, paused_until: Instant | None, now: Instant) -> Instant | None:
    """The fire to wait for when a pause lasts to `paused_until`: not before that end. None, or a time that is over, is no pause.

    A one-time job whose time lies in the pause runs when the pause ends.
    """
    if schedule is None or fire is None or paused_until is None or paused_until <= now or fire >= paused_until:
        return fire
    return paused_until if isinstance(plain_of(schedule), OneTimeSchedule) else next_fire(schedule, paused_until - 1)


def keeps_skip(schedule: Schedule | None, skip_at: Instant) -> bool:
    """Whether a fire that is to be skipped is still one."""
    return schedule is not None and is_fire(schedule, skip_at)
