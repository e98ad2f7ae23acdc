"""Checkpoints and progress on SQLite."""

from __future__ import annotations

from collections.abc import Sequence

from duly.adapters.sql.engine import Action, Call, Engine, one
from duly.adapters.sql.rows import as_uuid, saved_of
from duly.domain.execution import LeaseId, Saved, WorkerId
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant


class SqliteCheckpoints:
    """What an execution keeps over its attempts."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def save(self, worker: WorkerId, lease: LeaseId, id: ExecutionId, number: int, data: str, now: Instant) -> bool:
        def action() -> Action[bool]:
            member = one((yield Call("held_member", {"lease": lease, "worker": worker, "id": id})))
            if member is None:
                return False
            kept = {"id": id, "number": number, "attempt": member["attempt"], "data": data, "now": now}
            return bool((yield Call("save_checkpoint", kept)))

        return await self._engine.run(action)

    async def report(self, worker: WorkerId, reports: Sequence[tuple[LeaseId, ExecutionId, str]], now: Instant) -> int:
        def action() -> Action[int]:
            kept = 0
            for lease, id, progress in reports:
                member = one((yield Call("held_member", {"lease": lease, "worker": worker, "id": id})))
                if member is not None:
                    kept += 1
                    yield Call("report_progress", {"id": id, "attempt": member["attempt"], "progress": progress, "now": now})
            return kept

        return await self._engine.run(action)

    async def saved(self, ids: Sequence[ExecutionId]) -> dict[ExecutionId, Saved]:
        def action() -> Action[dict[ExecutionId, Saved]]:
            found: dict[ExecutionId, Saved] = {}
            for id in ids:
                for row in (yield Call("saved", {"id": id})):
                    found[as_uuid(row["id"])] = saved_of(row)
            return found

        return await self._engine.read(action)
