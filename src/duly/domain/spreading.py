"""Where schedules pile up, and how they would stand apart: the fewest moves that bring a busy minute down, each inside its own hour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from duly.domain.instants import DAY, MINUTE, Instant
from duly.domain.job import JobType, Timing, schedule_of
from duly.domain.schedule import fires

# What fires more often than this in a day is no guest of a single minute.
MOST_FIRES = 24
# From so many fires in one minute on, a herd is worth a word.
HERD = 10


class Move(NamedTuple):
    """One job that would fire at a quiet minute of its own: H in place of the minute that it names."""

    job: UUID
    before: str
    after: str


class Load(NamedTuple):
    """The busiest minute of a day, and how many fires it has."""

    at: Instant
    fires: int


def loads(timings: Mapping[UUID, Timing], start: Instant) -> Counter[int]:
    """How many fires each minute of a day has, by its number since 1970."""
    counted: Counter[int] = Counter()
    for job, timing in timings.items():
        schedule = schedule_of(timing, job)
        if schedule is not None:
            counted.update(at // MINUTE for at in fires(schedule, start, start + DAY, 86_400))
    return counted


def busiest(timings: Mapping[UUID, Timing], start: Instant) -> Load | None:
    """The minute with the most fires, the first of them; None when nothing fires."""
    counted = loads(timings, start)
    if not counted:
        return None
    most = max(counted.values())
    return Load(min(minute for minute, number in counted.items() if number == most) * MINUTE, most)


def minutes_of(timing: Timing, job: UUID, start: Instant) -> list[int]:
    """The minutes of a day in which a job fires, by their numbers since 1970; of one that fires more than `MOST_FIRES` times, the first."""
    schedule = schedule_of(timing, job)
    return [] if schedule is None else [at // MINUTE for at in fires(schedule, start, start + DAY, MOST_FIRES + 1)]


def is_guest(minutes: Sequence[int]) -> bool:
    """Whether a job fires seldom enough to belong to its minutes."""
    return len(minutes) <= MOST_FIRES


def moves_of(found: Mapping[UUID, tuple[Timing, list[int]]], most: int) -> list[Move]:
    """Moves after which no minute is named by more than `most` jobs that could be moved, in the order of their ids. Each job comes with the
    minutes of a day in which it fires.

    Only a minute that is one plain number is moved, to H: the hour, the days and everything else stay. The first jobs of a minute
    stay in it. Where the others come to stand follows from their ids, so now and then some of them share a minute again.
    """
    moves: list[Move] = []
    seats: Counter[int] = Counter()
    for job in sorted(found):
        timing, minutes = found[job]
        moved = _moved(timing) if is_guest(minutes) and any(seats[minute] >= most for minute in minutes) else None
        if moved is not None and timing.cron is not None:
            moves.append(Move(job, timing.cron, moved))
        else:
            seats.update(minutes)
    return moves


def _moved(timing: Timing) -> str | None:
    if timing.type is not JobType.CRON or timing.cron is None or timing.seconds:
        return None
    parts = timing.cron.split()
    if len(parts) != 5:
        macro = {"@daily": "H 0 * * *", "@midnight": "H 0 * * *", "@hourly": "H * * * *", "@weekly": "H 0 * * 0", "@monthly": "H 0 1 * *"}
        return macro.get(timing.cron.strip().lower())
    return " ".join(["H", *parts[1:]]) if parts[0].isdigit() else None
