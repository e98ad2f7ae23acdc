"""What is read of the store for a rule: runs of the jobs that it may be about, pools, workers, fires that are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from duly.domain.expected import Expected
from duly.domain.fire_audit import Missed
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant
from duly.domain.lifecycle import SkipReason, State, Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """An execution as rules see it. `started_at` is when its first attempt began; `running_since` when the present one did."""

    id: ExecutionId
    job_id: JobId
    due_at: Instant
    state: State
    trigger: Trigger = Trigger.SCHEDULE
    started_at: Instant | None = None
    running_since: Instant | None = None
    finished_at: Instant | None = None
    skip: SkipReason | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A job that a rule may be about."""

    id: JobId
    name: str
    pool: str
    created_at: Instant
    # It does not fire now: paused or cancelled.
    is_stopped: bool = False
    # When its last pause ended.
    resumed_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """A pool: what waits, since when, and who serves it."""

    name: str
    waiting: int
    oldest_due_at: Instant | None
    slots: int = 0
    workers: int = 0


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """A worker: when it began, and when it fell silent. One that has retired had a place, and gave it up."""

    name: str
    pool: str
    started_at: Instant
    lost_at: Instant | None = None
    has_retired: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """All that was read for one rule.

    `runs` have no holes: of each job they are neighbours by when they were due, so what lies between two of them is known. `deaths` are all
    that died lately, whenever they were due. `successes` say when each job succeeded last, where that was asked (None: not since
    `successes_since`).
    """

    jobs: Sequence[Watched] = ()
    runs: Mapping[UUID, Sequence[Run]] = field(default_factory=dict)
    expected: Mapping[UUID, Expected] = field(default_factory=dict)
    missed: Sequence[Missed] = ()
    pools: Sequence[PoolFacts] = ()
    workers: Sequence[WorkerFacts] = ()
    # Dead letters of the window that nobody has dealt with.
    letters: int = 0
    # From when on the rule is as it is: deaths from before are no news.
    since: Instant = 0
    # The same of jobs about which something is open: what was told of them is as it was, whatever became of the rule.
    since_of: Mapping[UUID, Instant] = field(default_factory=dict)
    deaths: Mapping[UUID, Sequence[Run]] = field(default_factory=dict)
    successes: Mapping[UUID, Instant | None] | None = None
    successes_since: Instant = 0

    def begins(self, job_id: UUID) -> Instant:
        """From when on what happens to this job is news."""
        return self.since_of.get(job_id, self.since)
