"""Workflows on PostgreSQL: headers in one statement, and what a run held is passed on after the commit."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from duly.adapters.sql.engine import Action, Call, Lane, one
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.flows import Freed, columns_of, is_ready
from duly.adapters.sql.postgres.after import pass_on
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant
from duly.ports.flows import Added, NewStep


class PostgresOwnFlows:
    """See adapters/sql/flows.py."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def add_at_once(self, steps: Sequence[NewStep], now: Instant) -> Added | None:
        """Steps that are all ready, which is what most hand-overs make, are one statement and one round trip."""
        if not all(is_ready(step, now) for step in steps):
            return None
        if steps[0].nth is not None:
            return await self._add_items(steps, now)
        ready = [step.execution.id for step in steps]
        rows = await self._engine.fetch("add_steps", {**columns_of(steps), "ready": ready, "now": now}, Lane.FINISH)
        new = {row["id"] for row in rows}
        return Added(len(new), {step.execution.route for step in steps if step.execution.id in new})

    async def _add_items(self, items: Sequence[NewStep], now: Instant) -> Added:
        """Items of one mapped step, one after another."""
        first = items[0].execution
        params = {
            "ids": [item.execution.id for item in items],
            "payloads": f"[{','.join(item.execution.payload or 'null' for item in items)}]",
            "first": items[0].nth,
            "job_id": first.job_id,
            "job_version": first.job_version,
            "tenant": first.tenant,
            "route": first.route,
            "due_at": first.due_at,
            "rank": first.rank,
            "run": items[0].run,
            "step": items[0].place,
            "now": now,
        }
        new = one(await self._engine.fetch("add_items", params, Lane.FINISH))["count"]
        return Added(new, {first.route} if new else set())

    def headers(self, steps: Sequence[NewStep], ready: Collection[ExecutionId], now: Instant) -> Action[set[ExecutionId]]:
        rows = yield Call("add_steps", {**columns_of(steps), "ready": list(ready), "now": now})
        return {row["id"] for row in rows}

    def leave(self, id: ExecutionId, now: Instant, freed: Freed) -> Action[None]:
        row = one((yield Call("place_of_flow", {"id": id})))
        if row["holds_place"]:
            freed[0].update(place["job_id"] for place in (yield Call("free_place", {"job_id": row["job_id"], "id": id})))
        freed[1].update(slot["gate"] for slot in (yield Call("leave_gates", {"ids": [id]})))

    async def after(self, freed: Freed, now: Instant) -> None:
        if freed[0] or freed[1]:
            await pass_on(self._engine, freed[0], freed[1], now)
