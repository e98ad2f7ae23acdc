"""What `why` asks of the store: facts of one moment, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant
from duly.domain.why.facts import ExecutionFacts, FireFacts, JobFacts


class Facts(Protocol):
    """Snapshots for people who ask why. None where the tenant has no such thing."""

    async def of_execution(self, tenant: int, id: ExecutionId, now: Instant) -> ExecutionFacts | None:
        """Everything that explains where the execution stands, read in one snapshot."""

    async def of_job(self, tenant: int, id: JobId) -> JobFacts | None:
        """The job as it stands."""

    async def of_fire(self, tenant: int, id: JobId, at: Instant, now: Instant, kept_since: Instant) -> FireFacts | None:
        """The job as it stands, with the version that was current at `at`."""

    async def names(self, keys: Sequence[str]) -> Mapping[str, str]:
        """The names of these keys, as far as they have one."""
