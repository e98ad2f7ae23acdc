"""The store's ports: the one truth. Each consumer sees only what it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from duly.domain.audit import Deed
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
from duly.domain.job import JobVersion
from duly.domain.lifecycle import JobState, State
from duly.domain.signature import Takes
from duly.ports.alerts import AlertStore
from duly.ports.audit import Audit
from duly.ports.awaited import AwaitedJobs
from duly.ports.calendars import Calendars
from duly.ports.checkpoints import Checkpoints as Checkpoints
from duly.ports.condition import Conditions
from duly.ports.definitions import Definitions as Definitions
from duly.ports.definitions import JobFilter as JobFilter
from duly.ports.definitions import JobStep as JobStep
from duly.ports.definitions import NewJob as NewJob
from duly.ports.definitions import Reschedule as Reschedule
from duly.ports.definitions import Waiting as Waiting
from duly.ports.desk import Desk
from duly.ports.dispatch import Admission as Admission
from duly.ports.dispatch import DispatcherAbout as DispatcherAbout
from duly.ports.dispatch import DispatcherRow as DispatcherRow
from duly.ports.dispatch import EnqueueReport as EnqueueReport
from duly.ports.dispatch import FireReport as FireReport
from duly.ports.dispatch import Idempotency as Idempotency
from duly.ports.dispatch import Intake as Intake
from duly.ports.dispatch import Leases as Leases
from duly.ports.dispatch import PromoteReport as PromoteReport
from duly.ports.dispatch import Schedules as Schedules
from duly.ports.dispatch import ShardLease as ShardLease
from duly.ports.events import Outbox
from duly.ports.figures import Figures
from duly.ports.fire_audit import FireAudit
from duly.ports.flows import Flows
from duly.ports.grid import Grids
from duly.ports.homes import Homes
from duly.ports.keys import Keys
from duly.ports.letters import Letters
from duly.ports.links import Links
from duly.ports.logs import Logs
from duly.ports.named import NamedQueue
from duly.ports.parents import NoParents, Parents
from duly.ports.readings import Readings
from duly.ports.records import Records
from duly.ports.scaling import PoolLoads
from duly.ports.search import Search
from duly.ports.sessions import SessionStore
from duly.ports.tenants import Tenants
from duly.ports.traces import Traces
from duly.ports.why import Facts


@dataclass(frozen=True, slots=True)
class ExecutionFilter:
    """Which executions to list: newest first, after the cursor."""

    tenant: int
    job_id: JobId | None = None
    state: State | None = None
    before: ExecutionId | None = None
    limit: int = 50


class ReadyQueue(Protocol):
    """Where workers take work."""

    async def routes(self) -> list[Route]:
        """All routes; few, and they only ever grow in number."""

    async def work(self, routes: Sequence[int], counted_to: int, *, roughly: bool = False) -> list[Work]:
        """Tenants that have ready work on these routes, with the head's rank and a depth counted up to `counted_to`.

        `roughly`: what has come in at the head of a queue within the last second may be left out, where that makes the look shorter.
        """

    async def claim(self, worker: WorkerId, asks: Sequence[Ask], now: Instant) -> Claimed | None:
        """Take ready executions for this worker under one new lease: best rank first within each ask's quota.

        What another worker took is left out: losing a race is normal and raises nothing. None when nothing was ready,
        or when the worker is lost. After Unavailable the lease may exist: ask `held_by`.
        """

    async def held_by(self, worker: WorkerId) -> list[Claimed]:
        """What the worker's leases hold that has not ended: for a claim whose answer was lost."""


class StoreQueue(ReadyQueue, NamedQueue, Protocol):
    """The queue as the store has it: what it holds can be seen ahead and taken by name as well."""


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

    async def renew(self, worker: WorkerId, now: Instant, ttl: Micros, skew: Micros | None = None) -> list[Stop] | None:
        """Live on until now + ttl; answers which of its running executions are asked to stop. None: the worker is lost for good.

        With `skew` it also says anew how far its machine's clock is ahead of the store's.
        """

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
    # How far its machine's clock is ahead of the store's, as it last said; None: it does not know.
    skew: Micros | None = None
    # What its handlers take, of those that say so.
    takes: dict[str, Takes] = field(default_factory=dict)


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

    async def lose(self, decide: Callable[[Lost, JobVersion | None], Verdict], now: Instant, limit: int) -> LossReport:
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

    async def offers(self, now: Instant, tenant: int) -> list[WorkerAbout]:
        """What the live workers that serve a tenant say of themselves."""

    async def standing_counts(self, tenant: int) -> dict[State, int]:
        """How many executions stand in each state, at one instant: what moves on meanwhile is counted once."""

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
    ready: StoreQueue
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
    outbox: Outbox
    records: Records
    logs: Logs
    homes: Homes
    loads: PoolLoads
    readings: Readings
    conditions: Conditions
    traces: Traces
    flows: Flows
    awaited: AwaitedJobs
    figures: Figures
    grids: Grids
    fire_audit: FireAudit
    alerts: AlertStore
    links: Links
    parents: Parents = field(default_factory=NoParents)
