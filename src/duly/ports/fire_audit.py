"""The auditor's view of the store: what is recorded of jobs, what is recorded of fires, and what was found missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from duly.domain.fire_audit import Flaw, Life, Missed
from duly.domain.ids import JobId
from duly.domain.instants import Instant, Micros


@dataclass(frozen=True, slots=True)
class Round:
    """How far a round over all jobs has come: it looks at the fires in (first, last], of jobs past `after`, of the next one past `at`.

    Nothing before `begun_at` is looked at. `audited_to`: up to where all fires were looked at; at `again_at` a round looks further back.
    """

    first: Instant = 0
    last: Instant = 0
    after: JobId | None = None
    at: Instant | None = None
    audited_to: Instant = 0
    looked_at: int = 0
    again_at: Instant = 0
    begun_at: Instant = 0

    @property
    def is_under_way(self) -> bool:
        """Whether it has come to some jobs, and not to all."""
        return self.after is not None or self.at is not None


@dataclass(frozen=True, slots=True)
class MissedFilter:
    """Which of a tenant's missed fires to list: newest first, before the cursor."""

    tenant: int
    job_id: JobId | None = None
    open_only: bool = False
    before: tuple[Instant, JobId] | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Found:
    """What an auditor has found: fires that are missing, and fires that were and are there now."""

    missed: Sequence[Missed] = field(default_factory=list)
    resolved: Sequence[tuple[JobId, Instant]] = field(default_factory=list)


class FireAudit(Protocol):
    """Jobs as they were, fires as they are."""

    async def take(self, auditor: str, now: Instant, ttl: Micros) -> Round | None:
        """Be the one who audits, until now + ttl; answers the round that is under way. None: somebody else does."""

    async def lives(self, after: JobId | None, first: Instant, limit: int) -> tuple[list[Life], JobId | None]:
        """The next jobs past `after` that have or had a schedule, as they were since `first`, and the last job that was looked at.

        None: there are no more. Tenants that are on their way elsewhere are left out.
        """

    async def flaws(self, fires: Sequence[tuple[JobId, Instant]]) -> dict[tuple[JobId, Instant], Flaw]:
        """Which of these fires are not on record, or are and stand nowhere."""

    async def found(self, auditor: str, round: Round, found: Found, now: Instant) -> bool:
        """Keep what was found and where the round stands, both or neither. False: somebody else audits by now, nothing is written."""

    async def open_ones(self, limit: int) -> list[Missed]:
        """Missed fires that have not come to light, oldest first."""

    async def forget(self, before: Instant) -> int:
        """Let go of missed fires from before this instant, and of pauses that ended before it."""

    async def missed(self, wanted: MissedFilter) -> list[Missed]:
        """Newest first."""

    async def standing(self, tenant: int) -> tuple[Round | None, int]:
        """Where the audit stands, and how many of the tenant's fires are missing."""
