"""Dependencies between jobs: a fire waits until another job has succeeded for the same day, hour, week or month.

The period is that of the fire's own time, on the clock of the job's zone. What counts is any execution of the other job whose scheduled
time lies in it and that succeeded, however it came about: a fire, a backfill, a replay, somebody's run by hand.

A fire that waits stands at a gate, as at a limit (domain/limits.py): one that is closed until the other job has succeeded, or the
deadline has passed. Backfills and runs by hand do not wait: whoever asks for them has looked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from json import dumps
from typing import NamedTuple

from duly.domain.choices import OnDeadline as OnDeadline
from duly.domain.choices import Per as Per
from duly.domain.errors import Invalid
from duly.domain.ids import JobId
from duly.domain.instants import DAY, SECOND, Instant, Micros, from_datetime, to_rfc3339
from duly.domain.limits import Awaited, Gate, digest
from duly.domain.naming import NAME
from duly.domain.zones import instant_to_local

MOST_DEPENDENCIES = 20
LONGEST_WAIT: Micros = 31 * DAY
# So many jobs are looked at for a circle; a longer chain is nobody's, and what waits in it ends at its deadline.
FARTHEST = 200
# What a gate lets through once it is open.
OPEN = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """The job, by its name, that must have succeeded; and how long a fire waits for it, from its scheduled time."""

    job: str
    per: Per = Per.DAY
    within: Micros = DAY
    on_deadline: OnDeadline = OnDeadline.SKIP


class Period(NamedTuple):
    """From its first instant to the one past its last, and how people call it."""

    first: Instant
    past: Instant
    label: str


def check_dependencies(job: str, dependencies: Sequence[Dependency], *, has_schedule: bool) -> None:
    """Refuse what cannot be waited for. Whether jobs wait for one another in a circle is asked where they are known."""
    if not dependencies:
        return
    if not has_schedule:
        hint = "Only fires wait: give it a schedule, or make both jobs steps of one workflow."
        raise Invalid("DULY-E106", "goes with a schedule.", field="after", hint=hint)
    if len(dependencies) > MOST_DEPENDENCIES:
        raise Invalid("DULY-E106", f"at most {MOST_DEPENDENCIES} jobs.", field="after")
    for one in dependencies:
        if not NAME.match(one.job):
            raise Invalid("DULY-E114", f"{one.job[:40]!r} is not a job name.", field="after")
    if len({one.job for one in dependencies}) < len(dependencies):
        raise Invalid("DULY-E106", "names each job once.", field="after")
    for one in dependencies:
        if one.job == job:
            raise circle([job, job])
        if not SECOND <= one.within <= LONGEST_WAIT:
            raise Invalid("DULY-E106", "must be at least 1 second and at most 31 days.", field="after.withinSec")


def refuse_circle(start: str, waits: Mapping[str, Sequence[str]]) -> None:
    """Raises Invalid (DULY-E157) when this job would wait for itself by way of others; `waits` has the names that each job waits for."""
    paths, seen = [[start]], {start}
    while paths:
        path = paths.pop()
        for name in waits.get(path[-1], ()):
            if name == start:
                raise circle([*path, start])
            if name not in seen:
                seen.add(name)
                paths.append([*path, name])


def circle(names: Sequence[str]) -> Invalid:
    """Jobs that would wait for one another for ever."""
    return Invalid("DULY-E157", f"{' waits for '.join(names)}.", field="after", hint="Take one of them away.")


def period_of(at: Instant, per: Per, zone: str) -> Period:
    """The period that an instant lies in, on the clock of a zone."""
    local = instant_to_local(zone, at)
    match per:
        case Per.HOUR:
            first = local.replace(minute=0, second=0, microsecond=0)
            return Period(from_datetime(first), from_datetime(first) + 3600 * SECOND, f"{first:%Y-%m-%dT%H}h")
        case Per.DAY:
            return _days(local, local, timedelta(days=1), f"{local:%Y-%m-%d}")
        case Per.WEEK:
            return _days(local, local - timedelta(days=local.weekday()), timedelta(days=7), f"{local:%G-W%V}")
        case Per.MONTH:
            first = local.replace(day=1)
            days = ((first + timedelta(days=32)).replace(day=1) - first).days
            return _days(local, first, timedelta(days=days), f"{local:%Y-%m}")


def gates_for(dependencies: Sequence[Dependency], tenant: int, job: JobId, at: Instant, zone: str) -> tuple[Gate, ...]:
    """The gates that a fire of the job at this time passes before all others."""
    gates: list[Gate] = []
    for one in dependencies:
        period = period_of(at, one.per, zone)
        deadline = at + one.within
        awaited = Awaited(one.job, period.first, period.past, deadline, one.on_deadline is OnDeadline.RUN)
        about = {"limit": "after", "job": one.job, "for": period.label, "until": to_rfc3339(deadline)}
        id = digest("after", job.hex, one.job, str(period.first), str(deadline))
        gates.append(Gate(id, 0, None, dumps(about), awaited=awaited))
    return tuple(gates)


def _days(local: datetime, first: datetime, length: timedelta, label: str) -> Period:
    # Midnight by the wall: the offset is that of the day itself, also when the clocks change in between.
    start = datetime(first.year, first.month, first.day, tzinfo=local.tzinfo)
    end = start + length
    return Period(from_datetime(start), from_datetime(end), label)
