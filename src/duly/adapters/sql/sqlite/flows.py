"""Workflows on SQLite. One writer: what is not there now is not there when it is written, and what comes free is passed on at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from duly.adapters.sql.engine import Action, Call, Engine, Many, one
from duly.adapters.sql.flows import Freed, header_of, standing_of
from duly.adapters.sql.gates import open_all
from duly.adapters.sql.rows import as_uuid
from duly.adapters.sql.sqlite.places import leave
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant
from duly.ports.flows import Added, NewStep


class SqliteOwnFlows:
    """See adapters/sql/flows.py."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def add_at_once(self, steps: Sequence[NewStep], now: Instant) -> Added | None:
        return None

    def headers(self, steps: Sequence[NewStep], ready: Collection[ExecutionId], now: Instant) -> Action[set[ExecutionId]]:
        by_id = {step.execution.id: step for step in steps}
        for row in (yield Call("known_executions", {"ids": list(by_id)})):
            del by_id[as_uuid(row["id"])]
        yield Many("add_step", [header_of(step, now) for step in by_id.values()])
        yield Many("make_ready", [standing_of(step) for step in by_id.values() if step.execution.id in ready])
        return set(by_id)

    def leave(self, id: ExecutionId, now: Instant, freed: Freed) -> Action[None]:
        row = one((yield Call("place_of_flow", {"id": id})))
        yield from leave(id, row["job_id"], now, attempt=1, started_at=now, final=True)

    async def after(self, freed: Freed, now: Instant) -> None:
        if freed[1]:
            await self._engine.run(lambda: open_all(freed[1], now))
