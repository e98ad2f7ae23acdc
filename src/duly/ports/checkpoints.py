"""What an execution keeps over its attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from duly.domain.execution import LeaseId, Saved, WorkerId
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant


class Checkpoints(Protocol):
    """What an execution keeps over its attempts, written under the lease of the attempt that runs."""

    async def save(self, worker: WorkerId, lease: LeaseId, id: ExecutionId, number: int, data: str, now: Instant) -> bool:
        """Keep a checkpoint. True means committed: whatever attempt comes next starts with it.

        False when it is refused: the lease is gone or not this worker's, the attempt has ended, or the number does not exceed the
        stored one. Repeating a checkpoint under the lease that stored it is accepted, for its answer may have been lost; its number
        with other data is not.
        """

    async def report(self, worker: WorkerId, reports: Sequence[tuple[LeaseId, ExecutionId, str]], now: Instant) -> int:
        """Keep the latest progress of running attempts, each under its lease; returns how many were kept."""

    async def saved(self, ids: Sequence[ExecutionId]) -> dict[ExecutionId, Saved]:
        """What these executions have kept; those that kept nothing are left out."""
