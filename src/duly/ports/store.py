"""The store's ports: the one truth. Each consumer sees only what it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from duly.domain.access import DEFAULT_TENANT
from duly.domain.audit import Deed
from duly.domain.calendars import Calendar
from duly.domain.execution import (
    Attempt,
    Claimed,
    Execution,
    Finished,
    LeaseId,
    LogLine,
    Lost,
    Stop,
    Verdict,
    WorkerId,
)
from duly.domain.fairness import Ask, Work
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant, Micros
from duly.domain.job import Job, JobSpec, JobType, JobVersion
from duly.domain.lifecycle import JobState, State
from duly.ports.audit import Audit
from duly.ports.calendars import Calendars, SkipAnswer
from duly.ports.checkpoints import Checkpoints as Checkpoints
from duly.ports.desk import Desk
from duly.ports.dispatch import Admission as Admission
from duly.ports.dispatch import EnqueueReport as EnqueueReport
from duly.ports.dispatch import FireReport as FireReport
from duly.ports.dispatch import Idempotency as Idempotency
from duly.ports.dispatch import Intake as Intake
from duly.ports.dispatch import Leases as Leases
from duly.ports.dispatch import PromoteReport as PromoteReport
from duly.ports.dispatch import Schedules as Schedules
from duly.ports.dispatch import ShardLease as ShardLease
from duly.ports.keys import Keys
from duly.ports.letters import Letters
from duly.ports.search import Search
from duly.ports.sessions import SessionStore
from duly.ports.tenants import Tenants
from duly.ports.versions import Versions
from duly.ports.why import Facts


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
class ExecutionFilter:
    """Which executions to list: newest first, after the cursor."""

    tenant: int
    job_id: JobId | None = None
    state: State | None = None
    before: ExecutionId | None = None
    limit: int = 50


class Definitions(Versions, Protocol):
    """Jobs and their versions. A deed is recorded in the transaction of the change, and only if there is one."""

    async def create_jobs(self, creations: Sequence[tuple[Sequence[NewJob], Idempotency | None]], now: Instant) -> list[list[Job]]:
        """Create all or none, in one transaction. With an idempotency key that was used before for the same body: the jobs of then.

        Raises Conflict for a name that a live job of the tenant has (DULY-E208), for a key used with another body (DULY-E207),
        and when a calendar is not any more as the job has it written out (DULY-E209). Raises TooMany past the tenant's quota of
        jobs (DULY-E401), if the jobs say that it has one.
        """

    async def job(self, tenant: int, id: JobId) -> Job | None:
        """The job with its current version, whoever's state it is in; None when the tenant has no such job."""

    async def job_named(self, tenant: int, name: str) -> Job | None:
        """The live job of that name (not CANCELLED)."""

    async def jobs(self, wanted: JobFilter) -> list[Job]:
        """Newest first."""

    async def waiting_jobs(self, tenant: int, before: Instant, limit: int) -> list[Job]:
        """Active jobs that wait for a fire before this instant, soonest first."""

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


class ReadyQueue(Protocol):
    """Where workers take work."""

    async def routes(self) -> list[Route]:
        """All routes; few, and they only ever grow in number."""

    async def work(self, routes: Sequence[int], counted_to: int) -> list[Work]:
        """Tenants that have ready work on these routes, with the head's rank and a depth counted up to `counted_to`."""

    async def claim(self, worker: WorkerId, asks: Sequence[Ask], now: Instant) -> Claimed | None:
        """Take ready executions for this worker under one new lease: best rank first within each ask's quota.

        What another worker took is left out: losing a race is normal and raises nothing. None when nothing was ready,
        or when the worker is lost. After Unavailable the lease may exist: ask `held_by`.
        """

    async def held_by(self, worker: WorkerId) -> list[Claimed]:
        """What the worker's leases hold that has not ended: for a claim whose answer was lost."""


@dataclass(frozen=True, slots=True)
class Route:
    """A queue: a pool, the labels it requires, and the handler that a worker must offer."""

    number: int
    pool: str
    labels: str
    handler: str


class Outcomes(Protocol):
    """Where workers report."""

    async def finish(self, worker: WorkerId, finished: Sequence[Finished], closing: Sequence[LeaseId], now: Instant) -> set[ExecutionId]:
        """Record ends of attempts under leases that this worker still holds, and close those of `closing` that are complete.

        Returns the ids that were refused: their lease is gone, another worker may have them, nothing was written for them.
        Repeating a call is harmless: what is recorded already under the same lease counts as accepted. A worker decides once
        how an attempt ended: reporting a success after it reported a failure of the same attempt is not looked for (5 us a row).
        """

    async def append_logs(self, worker: WorkerId, lines: Sequence[tuple[LeaseId, ExecutionId, int, LogLine]]) -> int:
        """Keep log lines of attempts whose lease this worker holds; returns how many were kept."""

    async def losses(self, id: ExecutionId) -> int:
        """How many attempts of this execution have ended with their process gone."""


class Liveness(Protocol):
    """A worker's life, renewed by its heartbeat."""

    async def register(
        self, name: str, about: WorkerAbout, now: Instant, ttl: Micros, tenant: int | None = None, family: str | None = None
    ) -> WorkerId:
        """A new worker, alive until now + ttl. Every process start is a new worker; one with a tenant takes that tenant's work only.

        `family` are the keys that may act as it over HTTP.
        """

    async def renew(self, worker: WorkerId, now: Instant, ttl: Micros) -> list[Stop] | None:
        """Live on until now + ttl; answers which of its running executions are asked to stop. None: the worker is lost for good."""

    async def drain(self, worker: WorkerId) -> None:
        """The worker says that it takes no more; for people who ask why nothing starts. Its leases are as good as before."""

    async def retire(self, worker: WorkerId, now: Instant) -> None:
        """The worker ends and holds nothing any more; what it still held is left to the sweeper at once."""


@dataclass(frozen=True, slots=True)
class WorkerAbout:
    """What a worker says of itself."""

    pool: str
    labels: dict[str, str] = field(default_factory=dict)
    handlers: list[str] = field(default_factory=list)
    slots: int = 0
    host: str = ""
    pid: int = 0
    version: str = ""
    ttl: Micros = 0
    draining: bool = False


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker as it is read."""

    id: WorkerId
    name: str
    about: WorkerAbout
    started_at: Instant
    expires_at: Instant
    lost_at: Instant | None
    running: int
    tenant: int | None = None
    # The keys that may act as it over HTTP; None: any worker key of its tenant.
    family: str | None = None


class Losses(Protocol):
    """What the sweeper does."""

    async def bury_workers(self, now: Instant) -> list[WorkerId]:
        """Workers past their time are lost for good, so that they cannot renew while their leases are taken away."""

    async def lose(self, decide: Callable[[Lost, JobVersion], Verdict], now: Instant, limit: int) -> LossReport:
        """Take leases of lost workers away, at most `limit`: what has not ended in them gets a WORKER_LOST attempt and the verdict.

        A lease that a finish holds at this moment is left for the next round; of sweeper and finish exactly one wins.
        """

    async def unstick(self, now: Instant, limit: int) -> int:
        """See to it that nothing waits for what is free: queues nobody passes on, gates with room, wishes nobody carried out."""

    async def reconcile(self, now: Instant) -> int:
        """Free what a crash between two statements left behind: places and slots of final executions."""


@dataclass(frozen=True, slots=True)
class LossReport:
    """Leases taken away, attempts lost, and of those executions that are final now."""

    leases: int = 0
    lost: int = 0
    dead: int = 0


class Cancels(Protocol):
    """Stopping what was asked for."""

    async def cancel(
        self,
        tenant: int,
        ids: Sequence[ExecutionId],
        by: str,
        now: Instant,
        kill_after: Micros | None = None,
        *,
        deed: Deed | None = None,
    ) -> dict[ExecutionId, State]:
        """Commit the wish, then take each execution from where it waits. Answers where each stands: CANCELLED,
        another final state (it was faster), or RUNNING (its worker is told by its heartbeat). Unknown ids are left out.

        What runs is asked to stop, and ended `kill_after` from now if it has not; None: it is only asked. A second wish
        changes nothing, but that one which kills follows one which only asked. The deed goes with the wish."""


class Insights(Protocol):
    """Reading for people."""

    async def execution(self, tenant: int, id: ExecutionId) -> Execution | None:
        """Where one execution stands: one snapshot, so exactly one answer."""

    async def executions(self, wanted: ExecutionFilter) -> list[Execution]:
        """Newest first."""

    async def attempts(self, id: ExecutionId) -> list[Attempt]:
        """Every attempt, first to last, the running one included."""

    async def logs(self, id: ExecutionId, attempt: int | None, after: int, limit: int) -> list[tuple[int, int, LogLine]]:
        """(sequence, attempt, line) past the sequence number `after`, in order."""

    async def workers(self, now: Instant, tenant: int | None = None) -> list[WorkerRow]:
        """Live ones, and lost ones of the last hour; with a tenant what each of them runs of that tenant's."""

    async def standing_counts(self, tenant: int) -> dict[State, int]:
        """How many executions stand in each state."""

    async def job_counts(self, tenant: int, now: Instant) -> dict[JobState, int]:
        """How many jobs are in each state; a pause with an end is over by itself."""

    async def ready_by_pool(self, tenant: int) -> list[tuple[str, int, int | None]]:
        """(pool, ready executions, smallest rank) of pools that have ready work of the tenant's."""


class Retention(Protocol):
    """What the pruner does."""

    async def prepare(self, now: Instant, ahead: Micros) -> int:
        """Create the partitions of the coming time; returns how many were made (0 where there are none)."""

    async def prune(self, before: Instant, now: Instant, limit: int) -> int:
        """Remove finished executions older than `before`, with attempts and logs, and expired idempotency keys.

        Whatever is not final stays, however old. Returns how many rows or partitions went; 0 when done.
        """


class Health(Protocol):
    """Whether the store answers."""

    async def store_now(self) -> Instant:
        """The store's own clock."""

    async def ping(self) -> None:
        """Raises Unavailable when the store is away or its schema is not ours."""

    async def close(self) -> None:
        """Let connections go; committed work stays."""


@dataclass(frozen=True, slots=True)
class Store:
    """All of the store's ports, for those who compose."""

    definitions: Definitions
    intake: Intake
    schedules: Schedules
    ready: ReadyQueue
    outcomes: Outcomes
    checkpoints: Checkpoints
    liveness: Liveness
    losses: Losses
    cancels: Cancels
    leases: Leases
    insights: Insights
    retention: Retention
    keys: Keys
    sessions: SessionStore
    facts: Facts
    letters: Letters
    health: Health
    desk: Desk
    calendars: Calendars
    audit: Audit
    tenants: Tenants
    search: Search
