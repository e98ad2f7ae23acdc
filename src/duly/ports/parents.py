"""What the steps before a step came to, as whoever runs it reads it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from duly.domain.execution import LeaseId, WorkerId
from duly.domain.ids import ExecutionId


class Parent(NamedTuple):
    """A step that another comes after: its name, its execution, and what it came to, as JSON."""

    name: str
    id: ExecutionId
    result: str | None


class Parents(Protocol):
    """Read by whoever holds the step, and only of the step's own run."""

    async def results(self, worker: WorkerId, lease: LeaseId, id: ExecutionId) -> list[Parent]:
        """Those of a step's parents that succeeded. None for what is no step of a run that is under way.

        Results are whole here, also those that are passed on by reference; only what has more than LARGEST_READ stays one.
        """


class NoParents:
    """Of a store that knows no workflows."""

    async def results(self, worker: WorkerId, lease: LeaseId, id: ExecutionId) -> list[Parent]:
        return []
