"""Jobs that others wait for."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from duly.domain.ids import JobId
from duly.domain.instants import Instant


class AwaitedJobs(Protocol):
    """Whoever ends an execution may tell those who wait for it. Should nobody tell them, they look themselves every few seconds."""

    async def jobs(self) -> frozenset[JobId]:
        """Jobs that somebody waits for at this moment."""

    async def succeeded(self, jobs: Collection[JobId], now: Instant) -> set[int]:
        """Something of these jobs has succeeded, and it is committed: whoever has what it waits for goes on. Answers routes."""
