"""The part of the store's queue that a transport with ids needs: looking ahead, and claiming by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from duly.domain.announcements import Named
from duly.domain.execution import Claimed, WorkerId
from duly.domain.fairness import Ask
from duly.domain.instants import Instant


class NamedQueue(Protocol):
    """A queue whose heads can be seen, and whose rows can be asked for one by one."""

    async def peek(self, asks: Sequence[Ask]) -> list[Named]:
        """What a claim with these asks would take now, best rank first within each; nothing is taken."""

    async def claim_named(self, worker: WorkerId, named: Sequence[Named], now: Instant) -> Claimed | None:
        """Take these executions for this worker under one new lease: the same promise as `ReadyQueue.claim`, by name.

        A name of what is not ready under exactly this route, tenant and rank takes nothing, and one that comes twice takes once.
        None when nothing of it was there, or when the worker is lost. After Unavailable the lease may exist: ask `held_by`.
        """
