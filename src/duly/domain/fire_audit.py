"""What should have fired: from what is recorded of a job (its versions, its pauses), never from where its schedule stands.

The auditor asks nothing that the dispatcher wrote: neither the next fire that a schedule waits for nor the advances that led there. Nor
does it compute as the dispatcher does: that one searches forwards, from fire to next fire, and whatever it jumps over it never sees.
The auditor searches backwards (`previous_fire`: other code, for zones and calendars too, which the tests hold to an oracle of their
own). What both share is how an expression is read. So it finds a fire that was passed over, one whose record is gone, and a schedule
that has vanished.

    owed(life, first, last)     the instants in (first, last] that must be on record by now

A target is owed when the version of its time names it and nobody had stopped the job. A change settles what was due before it under
the old version, and fires by the new one after it. Two cases stay open and are not owed: what a changed calendar no longer names,
shortly before the change (it may not have been dispatched yet, and nobody wants it any more), and a one-time job that was moved or
paused over its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from uuid import UUID

from duly.domain.ids import JobId
from duly.domain.instants import HOUR, LATEST, SECOND, Instant, Micros
from duly.domain.job import JobVersion
from duly.domain.schedule import OneTimeSchedule, Schedule, next_fire, plain_of, previous_fire

# So long before a change of its calendars a fire may have been unwanted already.
DOUBT: Micros = HOUR
# So many seconds at least are searched at once.
LEAST = 600


class Flaw(IntEnum):
    """What is wrong with a fire."""

    MISSING = 0
    NOWHERE = 1


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing fires after `since` and before `until`; None: still."""

    since: Instant
    until: Instant | None

    def covers(self, at: Instant) -> bool:
        """Whether a fire at this instant was not to be."""
        return self.since < at and (self.until is None or at < self.until)


@dataclass(frozen=True, slots=True)
class Life:
    """A job as it is recorded. `versions` are in order; of those before the window the last one suffices."""

    job_id: JobId
    tenant: int
    created_at: Instant
    versions: Sequence[JobVersion]
    pauses: Sequence[Pause] = ()


@dataclass(frozen=True, slots=True)
class Missed:
    """A fire that should be on record. `resolved_at`: it has come to light since."""

    job_id: UUID
    at: Instant
    tenant: int
    flaw: Flaw
    found_at: Instant
    resolved_at: Instant | None = None
    job_name: str = ""


def owed(life: Life, first: Instant, last: Instant, most: int) -> tuple[list[Instant], Instant]:
    """The instants in (first, last] that must be on record, and up to where they are all: about `most` at a time."""
    found: list[Instant] = []
    for nth, version in enumerate(life.versions):
        following = life.versions[nth + 1] if nth + 1 < len(life.versions) else None
        schedule = version.schedule
        until = LATEST if following is None else following.created_at
        if schedule is None or until <= first:
            continue
        if isinstance(plain_of(schedule), OneTimeSchedule):
            found += _once(life, version, following, first, last)
            continue
        begin, end = max(first, version.created_at), min(last, until)
        while begin < end:
            # Some at a time: a job that fires every second has many in a day.
            reached = min(end, begin + max(most, LEAST) * SECOND)
            found += [at for at in _named(schedule, begin, reached) if _is_owed(life, at, version, following)]
            if len(found) >= most:
                return found, reached
            begin = reached
    return found, last


def _named(schedule: Schedule, first: Instant, last: Instant) -> list[Instant]:
    """What the schedule names in (first, last], from the last to the first, told in order."""
    found: list[Instant] = []
    at = previous_fire(schedule, last + 1)
    while at is not None and at > first:
        found.append(at)
        at = previous_fire(schedule, at)
    return found[::-1]


def _is_named(schedule: Schedule | None, at: Instant) -> bool:
    return schedule is not None and previous_fire(schedule, at + 1) == at


def _is_owed(life: Life, at: Instant, version: JobVersion, following: JobVersion | None) -> bool:
    if any(pause.covers(at) for pause in life.pauses):
        return False
    if following is None or at <= following.created_at - DOUBT or not _differ_in_calendars(version, following):
        return True
    return _is_named(following.schedule, at)


def _differ_in_calendars(version: JobVersion, following: JobVersion) -> bool:
    """Whether the next version is the same job with its calendars written out anew."""
    old, new = version.spec.timing, following.spec.timing
    return old != new and replace(old, calendars=()) == replace(new, calendars=())


def _once(life: Life, version: JobVersion, following: JobVersion | None, first: Instant, last: Instant) -> list[Instant]:
    """The only fire of a one-time job: at its time, or when it was made, if that was later."""
    schedule = version.schedule
    assert schedule is not None
    at = next_fire(schedule, -1)
    if at is None or any(pause.since <= at and (pause.until is None or at < pause.until) for pause in life.pauses):
        return []
    if following is not None and following.created_at <= max(at, version.created_at) + DOUBT and _is_moved(at, following):
        return []
    return [at] if first < max(at, version.created_at) <= last else []


def _is_moved(at: Instant, following: JobVersion) -> bool:
    return not _is_named(following.schedule, at)
