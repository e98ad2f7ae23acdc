"""What metrics read of the store when somebody asks: bounded looks over all tenants, never a count over the history."""

from __future__ import annotations

from typing import Protocol

from duly.domain.execution import WorkerId
from duly.domain.ids import JobId
from duly.domain.instants import Instant
from duly.domain.lifecycle import State


class Readings(Protocol):
    """Cheap, however much there is."""

    async def standing(self, most: int) -> dict[State, int]:
        """How many executions wait or run, by where they stand, each counted to `most`."""

    async def open_letters(self, most: int) -> int:
        """How many of the newest `most` dead letters nobody has dealt with."""

    async def oldest_leases(self) -> dict[WorkerId, Instant]:
        """Since when each worker has the oldest of its leases."""

    async def missing_fires(self, most: int) -> int:
        """How many fires should be on record and are not, as the auditor has found them, counted to `most`."""

    async def long_runs(self, before: Instant, most: int) -> list[tuple[int, JobId, Instant]]:
        """Tenant, job and beginning of what has run since before this instant; of more than `most`, those that have run longest."""

    async def tenant_names(self, tenants: list[int]) -> dict[int, str]:
        """What these tenants are called."""
