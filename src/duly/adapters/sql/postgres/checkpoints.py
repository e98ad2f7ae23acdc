"""Checkpoints and progress on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.rows import saved_of
from duly.domain.execution import LeaseId, Saved, WorkerId
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant


class PostgresCheckpoints:
    """What an execution keeps over its attempts."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def save(self, worker: WorkerId, lease: LeaseId, id: ExecutionId, number: int, data: str, now: Instant) -> bool:
        params = {"worker": worker, "lease": lease, "id": id, "number": number, "data": data, "now": now}
        return bool(await self._engine.fetch("save_checkpoint", params))

    async def report(self, worker: WorkerId, reports: Sequence[tuple[LeaseId, ExecutionId, str]], now: Instant) -> int:
        params = {
            "held": sorted({lease for lease, _, _ in reports}),
            "worker": worker,
            "leases": [lease for lease, _, _ in reports],
            "ids": [id for _, id, _ in reports],
            "progresses": [progress for _, _, progress in reports],
            "now": now,
        }
        return len(await self._engine.fetch("report_progress", params))

    async def saved(self, ids: Sequence[ExecutionId]) -> dict[ExecutionId, Saved]:
        return {row["id"]: saved_of(row) for row in await self._engine.fetch("saved", {"ids": list(ids)})}
