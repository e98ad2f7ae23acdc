"""Trace contexts on both engines: see ports/traces.py."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from duly.adapters.sql.engine import Action, Engine, Many
from duly.adapters.sql.rows import as_uuid
from duly.domain.ids import ExecutionId
from duly.ports.traces import Noted

# Of so many it is cheaper to read what lies between the first and the last: few executions are given a context.
MANY = 64
BETWEEN_AT_MOST = 4


class SqlTraces:
    """The same on both engines but for how a list is taken apart."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def note(self, noted: Sequence[Noted]) -> None:
        def action() -> Action[None]:
            yield Many("note_trace", [one._asdict() for one in noted])

        await self._engine.run(action)

    async def of(self, ids: Sequence[ExecutionId]) -> dict[ExecutionId, str]:
        if len(ids) > MANY:
            quota, numbers = BETWEEN_AT_MOST * len(ids), [id.int for id in ids]
            bounds = {"first": UUID(int=min(numbers)), "last": UUID(int=max(numbers))}
            rows = await self._engine.fetch("traces_between", {**bounds, "quota": quota})
            if len(rows) < quota:
                wanted = set(ids)
                return {id: row["context"] for row in rows if (id := as_uuid(row["id"])) in wanted}
        return {as_uuid(row["id"]): row["context"] for row in await self._engine.fetch("traces_of", {"ids": list(ids)})}
