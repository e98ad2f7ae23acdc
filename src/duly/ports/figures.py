"""How long jobs take, as the store keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from duly.domain.expected import Ended, Expected, Sketch
from duly.domain.ids import JobId
from duly.domain.instants import Instant


class Figures(Protocol):
    """Sketches of durations, and how far those who count have come along the ids of executions."""

    async def counted_to(self, nth: int) -> UUID | None:
        """The last id that this pass has looked at; None: it has not begun."""

    async def ends(self, after: UUID, until: UUID, ended_after: Instant, limit: int) -> tuple[list[Ended], UUID | None]:
        """Of the next `limit` executions past `after` and before `until`: those that succeeded, later than `ended_after`. And the
        last one that was looked at; None: there were fewer, so these were all."""

    async def count(self, nth: int, seen: UUID | None, reached: UUID, counted: Mapping[JobId, tuple[int, Sketch]], now: Instant) -> bool:
        """Merge these sketches and move the pass on, both or neither. False: somebody else has moved it, nothing is written."""

    async def expected(self, tenant: int, jobs: Sequence[JobId]) -> dict[JobId, Expected]:
        """What is expected of these jobs of the tenant, of those of which enough is known."""
