"""Definitions: jobs, their versions and the calendars they name, as the store keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from duly.domain.access import DEFAULT_TENANT
from duly.domain.audit import Deed
from duly.domain.calendars import Calendar
from duly.domain.ids import JobId
from duly.domain.instants import Instant
from duly.domain.job import Job, JobSpec, JobType
from duly.domain.lifecycle import JobState
from duly.ports.calendars import SkipAnswer
from duly.ports.dispatch import Idempotency
from duly.ports.versions import Versions


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be created."""

    id: JobId
    tenant: int
    spec: JobSpec
    shard: int
    next_fire_at: Instant | None
    tenant_name: str = DEFAULT_TENANT
    deed: Deed | None = None
    # The tenant has a quota of jobs: there must be room for it.
    within_quota: bool = False


class Waiting(NamedTuple):
    """An active job that waits for its next fire: the number of its version, and the fire that is to be skipped. What it is stays the
    same for as long as its version does, so nobody has to read that again."""

    id: JobId
    version: int
    next_fire_at: Instant
    skip_at: Instant | None


@dataclass(frozen=True, slots=True)
class Reschedule:
    """A schedule waits for another fire from now on; None: it has none any more."""

    next_fire_at: Instant | None


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list: newest first, after the cursor."""

    tenant: int
    name: str | None = None
    state: JobState | None = None
    search: str | None = None
    handler: str | None = None
    pool: str | None = None
    type: JobType | None = None
    # An active job's next fire: the first instant belongs to what is meant, the second does not.
    next_fire_after: Instant | None = None
    next_fire_before: Instant | None = None
    before: JobId | None = None
    limit: int = 50
    # When it is asked: a pause with an end is over by itself.
    now: Instant = 0


@dataclass(frozen=True, slots=True)
class JobStep:
    """What one look at the jobs has found, newest first, and the id that it has come to; None: there is nothing older."""

    found: list[Job]
    reached: JobId | None


class Definitions(Versions, Protocol):
    """Jobs and their versions. A deed is recorded in the transaction of the change, and only if there is one."""

    async def create_jobs(self, creations: Sequence[tuple[Sequence[NewJob], Idempotency | None]], now: Instant) -> list[list[Job]]:
        """Create all or none, in one transaction. With an idempotency key that was used before for the same body: the jobs of then.

        Raises Conflict for a name that a live job of the tenant has (DULY-E208), for a key used with another body (DULY-E207),
        and when a calendar is not any more as the job has it written out (DULY-E209). Raises TooMany past the tenant's quota of
        jobs (DULY-E401), if the jobs say that it has one.
        """

    async def made_with(self, tenant: int, idempotency: Idempotency, now: Instant) -> list[UUID] | None:
        """The ids that the first use of a key made, of jobs or executions; None when it was not used for this body, or not lately."""

    async def job(self, tenant: int, id: JobId) -> Job | None:
        """The job with its current version, whoever's state it is in; None when the tenant has no such job."""

    async def job_named(self, tenant: int, name: str) -> Job | None:
        """The live job of that name (not CANCELLED)."""

    async def jobs(self, wanted: JobFilter) -> list[Job]:
        """Newest first."""

    async def job_step(self, wanted: JobFilter, looked_at: int) -> JobStep:
        """Look at the next `looked_at` jobs that may be meant, and answer those that are, up to the filter's limit.

        Its cost is bounded whatever is asked for, and however many jobs there are. Of names alone many more are looked at.
        """

    async def jobs_of_source(self, tenant: int, source: str, before: JobId | None, limit: int) -> list[Job]:
        """Those that an application's code has brought and that may still fire, newest first."""

    async def waiting(self, tenant: int, before: Instant, limit: int) -> tuple[list[Waiting], Instant]:
        """Active jobs that wait for a fire before this instant, soonest first, and until when these are all that there are."""

    async def changed_jobs(self, tenant: int, since: Instant, limit: int) -> list[Job]:
        """Jobs that were made or have changed since this instant, newest first; when it was, is not told."""

    async def new_version(
        self,
        tenant: int,
        id: JobId,
        spec: JobSpec,
        reschedule: Reschedule | None,
        expected: int | None,
        now: Instant,
        *,
        deed: Deed | None = None,
    ) -> bool:
        """Give the job a new current version; its schedule keeps its next fire unless it is rescheduled. A paused job stays paused.

        A pause with an end is kept: the next fire is not before that end. So is a skip, if the new version fires then at all.
        False when `expected` is not the current version number (somebody was faster). Raises as `create_jobs` for a taken name.
        """

    async def set_state(
        self,
        tenant: int,
        id: JobId,
        state: JobState,
        next_fire_at: Instant | None,
        reason: str | None,
        now: Instant,
        expected: int | None = None,
        *,
        by: str | None = None,
        until: Instant | None = None,
        deed: Deed | None = None,
    ) -> bool:
        """Pause, resume (with the next fire to wait for) or cancel. After it, a paused or cancelled job makes no fire later than now.

        A pause with an end (`until`) needs nobody to end it: the job waits, active, for the given fire past that end.
        False when the job is not there, is cancelled already, or has another version number than `expected`: read it again.
        """

    async def skip(self, tenant: int, id: JobId, at: Instant | None, by: str, expected: int, *, deed: Deed | None = None) -> SkipAnswer:
        """Ask to skip the fire at `at`, or with None to skip none. Nothing is written unless the answer is DONE, nor when it is so."""

    async def calendars_named(self, tenant: int, names: Sequence[str]) -> dict[str, Calendar]:
        """Those of these calendars that there are, by name."""
