"""What follows a commit on PostgreSQL: places are passed on and gates opened, each by a younger snapshot.

Should the process die before it, the sweeper finds what waits for something that is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from duly.adapters.sql.engine import Action, Call, one
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.gates import open_gates
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant
from duly.domain.shards import shard_of


async def pass_on(engine: PostgresEngine, jobs: Iterable[JobId] | None, gates: Iterable[UUID] | None, now: Instant) -> None:
    """Places of these jobs and slots of these gates are free: whoever waits for them comes in."""
    waiting = set(gates or ())
    freed = sorted(set(jobs or ()), key=lambda id: id.int)
    if freed:
        params = {"job_ids": freed, "shards": [shard_of(job_id) for job_id in freed], "now": now}
        waiting |= {row["gate"] for row in await engine.fetch("pass_on_places", params)}
    if waiting:
        await open_gates(engine, sorted(waiting, key=lambda id: id.int), now)


async def cancel_waiting(engine: PostgresEngine, ids: Sequence[ExecutionId], now: Instant) -> None:
    """What was asked to stop and waits becomes final, and what it held is passed on."""

    def action() -> Action[tuple[list[JobId], list[UUID]]]:
        row = one((yield Call("cancel_waiting", {"ids": list(ids), "now": now})))
        gates = (yield Call("leave_gates", {"ids": row["stopped"]})) if row["stopped"] else ()
        return row["freed"] or [], [found["gate"] for found in gates]

    jobs, gates = await engine.run(action)
    await pass_on(engine, jobs, gates, now)
