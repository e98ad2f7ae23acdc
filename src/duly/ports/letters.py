"""Dead letters, bulk actions and batches, as the store offers them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol
from uuid import UUID

from duly.domain.audit import Deed
from duly.domain.bulk import Candidate, Match
from duly.domain.execution import NewExecution
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant
from duly.domain.lifecycle import State
from duly.ports.dispatch import Idempotency


class Settling(IntEnum):
    """What was done about a final execution."""

    REPLAYED = 1
    DISCARDED = 2


@dataclass(frozen=True, slots=True)
class Letter:
    """An open dead letter."""

    id: ExecutionId
    job_id: JobId
    job_name: str
    died_at: Instant
    attempts: int
    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Batch:
    """A bulk action: who asked for what, and how many it was about."""

    id: UUID
    tenant: int
    kind: str
    asked_at: Instant
    asked_by: str
    total: int
    about: dict[str, Any]
    job_id: JobId | None = None


class Letters(Protocol):
    """What people do about executions that have died, one by one or many at once.

    A deed is recorded in the transaction of the change, about those executions that it really changed; if there are none, it is not.
    """

    async def open_letters(
        self, tenant: int, job_id: JobId | None, before: ExecutionId | None, limit: int
    ) -> tuple[list[Letter], ExecutionId | None]:
        """Of the next `limit` dead letters of all: the tenant's that nobody has settled, newest first, and the id that it has come to;
        None: there is nothing older."""

    async def candidates(
        self, tenant: int, match: Match, states: frozenset[State], before: ExecutionId | None, limit: int
    ) -> tuple[list[Candidate], ExecutionId | None]:
        """Executions that may be meant, newest first, and where to go on; None at the end. The caller looks closer.

        Read along the table that the states are, the job or the batch: whichever is smallest.
        """

    async def replay(
        self, replays: Sequence[tuple[ExecutionId, NewExecution]], by: str, now: Instant, *, deed: Deed | None = None
    ) -> set[ExecutionId]:
        """Settle each that is not settled yet and enqueue its replay, all in one transaction; answers which were ours to replay."""

    async def settle(
        self,
        ids: Sequence[ExecutionId],
        how: Settling,
        by: str,
        now: Instant,
        replay: ExecutionId | None = None,
        *,
        deed: Deed | None = None,
    ) -> int:
        """Say what was done about them. What is settled already stays as it is; returns how many were not."""

    async def hasten(self, tenant: int, ids: Sequence[ExecutionId], now: Instant, *, deed: Deed | None = None) -> set[ExecutionId]:
        """Make waiting retries due now; answers which were. What has moved on meanwhile is left out."""

    async def add_batch(self, batch: Batch, *, deed: Deed | None = None, idempotency: Idempotency | None = None) -> UUID | None:
        """Record a bulk action, before anything of it is done.

        With an idempotency key that was used before for the same body nothing is recorded, and the answer is the batch of then; None
        otherwise. Raises Conflict (DULY-E207) for another body.
        """

    async def keep_answer(self, id: UUID, key: str, answer: dict[str, Any]) -> None:
        """Keep what was answered to a request about it, in `answers` of what is known about it."""

    async def abort_batch(self, id: UUID, now: Instant, *, deed: Deed | None = None) -> bool:
        """Nothing more may come of it: `abortedAt` in what is known about it, for good. False when it was so before."""

    async def end_canaries(self, id: UUID, *, deed: Deed | None = None) -> bool:
        """It goes on after its canaries, once; False when it was aborted."""

    async def drop_batch(self, id: UUID, *, deed: Deed | None = None, idempotency: Idempotency | None = None) -> None:
        """Forget a bulk action of which nothing was done, and that its key was used."""

    async def batch(self, tenant: int, id: UUID) -> Batch | None:
        """A bulk action; None when the tenant has no such one."""

    async def batch_counts(self, id: UUID) -> dict[State, int]:
        """Where the executions that it made stand."""

    async def backfilled(self, tenant: int, job_id: JobId, first: Instant, last: Instant) -> list[tuple[UUID, Instant, State]]:
        """What backfills of this job have made for times in [first, last]: batch, time, and where it stands."""

    async def last_due(self, id: UUID) -> Instant | None:
        """When the last of the executions that it made is due."""
