"""Gates that are closed until another job has succeeded. The same text on both engines."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from duly.adapters.sql.engine import Engine
from duly.adapters.sql.gates import open_gates
from duly.adapters.sql.rows import as_uuid
from duly.domain.ids import JobId
from duly.domain.instants import Instant


class SqlAwaited:
    """See ports/awaited.py."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def jobs(self) -> frozenset[JobId]:
        return frozenset(as_uuid(row["id"]) for row in await self._engine.fetch("awaited_jobs", {}))

    async def succeeded(self, jobs: Collection[JobId], now: Instant) -> set[int]:
        gates: set[UUID] = set()
        for job in sorted(jobs, key=lambda id: id.int):
            gates |= {as_uuid(row["gate"]) for row in await self._engine.fetch("gates_awaiting", {"id": job})}
        return await open_gates(self._engine, gates, now)
