"""The desk: what the server needs of the store to speak for workers that come over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from duly.domain.audit import Deed
from duly.domain.execution import Finished, LeaseId, Stop, WorkerId
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant, Micros
from duly.domain.lifecycle import Outcome, State
from duly.ports.dispatch import Idempotency

if TYPE_CHECKING:
    from duly.ports.store import WorkerAbout, WorkerRow

Held = tuple[LeaseId, ExecutionId]


class Member(NamedTuple):
    """An execution that runs under a lease, as far as its end must be decided."""

    attempt: int
    failures: int
    job_version: int
    due_at: Instant
    granted_at: Instant
    holds_place: bool


class Ended(NamedTuple):
    """How an attempt ended, and where its execution stands by that: final, or SCHEDULED until `retry_at`."""

    outcome: Outcome
    state: State
    retry_at: Instant | None


class Desk(Protocol):
    """Whoever comes over HTTP may say anything, twice and in any order: every answer is read from the ledger."""

    async def register_once(
        self, name: str, about: WorkerAbout, now: Instant, ttl: Micros, tenant: int, family: str | None, idempotency: Idempotency
    ) -> WorkerId:
        """A new worker, as `Liveness.register` makes it, or the one that the idempotency key has made before.

        Raises Conflict (DULY-E207) for another body.
        """

    async def worker(self, worker: WorkerId) -> WorkerRow | None:
        """A worker by its number, lost or alive; None when there is none (or it is long gone)."""

    async def leases(self, worker: WorkerId) -> list[LeaseId]:
        """The leases of the worker, oldest first; one in which everything has ended may still be among them."""

    async def members(self, worker: WorkerId, held: Sequence[Held]) -> dict[Held, Member]:
        """Those of `held` that run under a lease of this worker at this moment."""

    async def stops(self, worker: WorkerId) -> list[Stop]:
        """What of the worker's was asked to stop, as `Liveness.renew` answers it, without renewing anything."""

    async def settle(self, worker: WorkerId, finished: Sequence[Finished], held: Sequence[Held], now: Instant) -> dict[Held, Ended]:
        """Record ends of attempts as `Outcomes.finish` does, and answer how each of `held` has ended under its lease.

        An attempt ends once: of two ends that are reported side by side one is written, and both callers are told which.
        One that was taken away has ended as WORKER_LOST. What is left out was never under that lease of this worker.
        """

    async def drain(self, worker: WorkerId, deed: Deed) -> None:
        """Somebody else than the worker says that it takes no more work, and answers for it."""

    async def touched(self, worker: WorkerId, ids: Sequence[ExecutionId]) -> set[ExecutionId]:
        """Which of these the worker has, or ever had."""
