"""What metrics read, on both engines: see ports/readings.py."""

from __future__ import annotations

from duly.adapters.sql.engine import Engine, one
from duly.adapters.sql.rows import as_uuid
from duly.domain.execution import WorkerId
from duly.domain.ids import JobId
from duly.domain.instants import Instant
from duly.domain.lifecycle import State

_STANDING = (State.SCHEDULED, State.BLOCKED, State.PENDING, State.RUNNING)


class SqlReadings:
    """The same text on both engines wherever it can be."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def standing(self, most: int) -> dict[State, int]:
        row = one(await self._engine.fetch("standing_of_all", {"most": most}))
        return {state: int(row[state.name.lower()]) for state in _STANDING}

    async def open_letters(self, most: int) -> int:
        return int(one(await self._engine.fetch("open_letters_of_all", {"most": most}))["n"])

    async def oldest_leases(self) -> dict[WorkerId, Instant]:
        return {row["worker"]: row["granted_at"] for row in await self._engine.fetch("oldest_leases", {})}

    async def missing_fires(self, most: int) -> int:
        return int(one(await self._engine.fetch("missing_of_all", {"most": most}))["n"])

    async def long_runs(self, before: Instant, most: int) -> list[tuple[int, JobId, Instant]]:
        rows = await self._engine.fetch("long_runs_of_all", {"before": before, "most": most})
        return [(row["tenant"], as_uuid(row["job_id"]), row["granted_at"]) for row in rows]

    async def tenant_names(self, tenants: list[int]) -> dict[int, str]:
        return {number: row["name"] for number in tenants for row in await self._engine.fetch("tenant_name", {"tenant": number})}
