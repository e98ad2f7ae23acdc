"""The desk on PostgreSQL: two ends of one attempt may come side by side, so the lease is locked before anything is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from duly.adapters.sql.desk import SqlDesk, ended_of, member_of
from duly.adapters.sql.engine import Action, Call, Lane, Rows
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.postgres.after import pass_on
from duly.adapters.sql.postgres.work import finish_params
from duly.domain.execution import Finished, WorkerId
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant
from duly.domain.lifecycle import Outcome
from duly.ports.desk import Ended, Held, Member


class PostgresDesk(SqlDesk):
    """See ports/desk.py."""

    _engine: PostgresEngine

    async def members(self, worker: WorkerId, held: Sequence[Held]) -> dict[Held, Member]:
        rows = await self._engine.fetch("members_reported", {"worker": worker, **_arrays(held)})
        return {(row["lease_id"], row["id"]): member_of(row) for row in rows}

    async def settle(self, worker: WorkerId, finished: Sequence[Finished], held: Sequence[Held], now: Instant) -> dict[Held, Ended]:
        leases = sorted({item.lease for item in finished})
        gates: set[UUID] = set()
        look = Call("ended_under", {"worker": worker, **_arrays(held)})

        def action() -> Action[dict[Held, Ended]]:
            gates.clear()
            if finished:
                yield Call("lock_leases", {"worker": worker, "leases": leases})
                before = _ended((yield look))
                fresh = [item for item in finished if (item.lease, item.id) not in before]
                good = [item for item in fresh if item.outcome is Outcome.SUCCEEDED]
                bad = [item for item in fresh if item.outcome is not Outcome.SUCCEEDED]
                for name, items in (("finish", good), ("finish_mixed", bad)):
                    if items:
                        gates.update((yield Call(name, finish_params(name, worker, items, leases)))[0]["gates"] or ())
            return _ended((yield look))

        ended = await self._engine.run(action, Lane.FINISH)
        freed = {item.job_id for item in finished if item.holds_place and (item.lease, item.id) in ended}
        if freed or gates:
            await pass_on(self._engine, freed, gates, now)
        return ended

    async def touched(self, worker: WorkerId, ids: Sequence[ExecutionId]) -> set[ExecutionId]:
        return {row["id"] for row in await self._engine.fetch("touched", {"worker": worker, "ids": list(ids)})}


def _arrays(held: Sequence[Held]) -> dict[str, list[object]]:
    return {"leases": [lease for lease, _ in held], "ids": [id for _, id in held]}


def _ended(rows: Rows) -> dict[Held, Ended]:
    return {(row["lease_id"], row["id"]): ended for row in rows if (ended := ended_of(row)) is not None}
