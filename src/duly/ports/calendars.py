"""The store's port for calendars, and what it answers about fires that are to be skipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from duly.domain.audit import Deed
from duly.domain.calendars import Calendar
from duly.domain.instants import Instant
from duly.domain.job import Job, JobSpec


@dataclass(frozen=True, slots=True)
class CalendarRow:
    """A calendar as the store has it."""

    calendar: Calendar
    updated_at: Instant


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A job's new version when one of its calendars has changed, and the fire it waits for; None: it has none any more."""

    spec: JobSpec
    next_fire_at: Instant | None


class SkipAnswer(Enum):
    """What came of asking to skip a fire."""

    DONE = "done"
    CHANGED = "changed"  # the job has another version by now: read it again
    PAST = "past"  # the schedule has moved past that time
    ANOTHER = "another"  # another fire is to be skipped already


class Calendars(Protocol):
    """Named calendars of a tenant. Jobs carry them written out, so a change of one is a change of each job that names it."""

    async def calendars(self, tenant: int) -> list[CalendarRow]:
        """All of them, by name."""

    async def calendar(self, tenant: int, name: str) -> CalendarRow | None:
        """One of them."""

    async def put_calendar(
        self,
        tenant: int,
        calendar: Calendar,
        expected: int | None,
        rewrite: Callable[[Job, Calendar], Rewritten],
        now: Instant,
        *,
        deed: Callable[[Calendar | None, Sequence[Job]], Deed] | None = None,
    ) -> list[Job] | None:
        """Make it so, and give every job that names it and may still fire a new version: all in one transaction, or nothing.

        Answers the jobs as they were. What is as it was already changes nothing. None when `expected` is not its version
        (0: there is none yet). Whatever `rewrite` raises is raised. `deed` is told what it was before, and which jobs change with it.
        """

    async def delete_calendar(self, tenant: int, name: str, expected: int, *, deed: Deed | None = None) -> list[str] | None:
        """Forget it. Answers the names of the jobs that still use it: then nothing was done. None when there is none of
        that version."""
