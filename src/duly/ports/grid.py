"""What a job's run grid is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from duly.domain.grid import Run, Tries
from duly.domain.ids import ExecutionId, JobId


class Grids(Protocol):
    """Narrow looks along the keys: a grid has tens of thousands of cells."""

    async def runs(self, tenant: int, job: JobId, limit: int, before: ExecutionId | None = None) -> list[Run]:
        """The newest runs of the tenant's job, or those before this one, newest first, wherever they stand."""

    async def steps(self, runs: Sequence[ExecutionId]) -> dict[ExecutionId, str]:
        """Where the steps of these runs stand: for each place the digit of its state, a space where none was made."""

    async def tries(self, runs: Sequence[ExecutionId]) -> dict[ExecutionId, Tries]:
        """The tries of these that did not succeed; nothing for those that have none."""
