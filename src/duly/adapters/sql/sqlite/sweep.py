"""Losses, cancels and retention on SQLite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from duly.adapters.sql.audit import append
from duly.adapters.sql.engine import Action, Call, Engine, Many, one
from duly.adapters.sql.gates import clear_away, open_all
from duly.adapters.sql.rows import as_uuid, lost_of, readable_version_of
from duly.adapters.sql.sqlite.places import leave, pass_on, take_from_waiting
from duly.domain.audit import Deed
from duly.domain.execution import Lost, Verdict, WorkerId
from duly.domain.ids import ExecutionId, id_floor
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.job import JobVersion
from duly.domain.lifecycle import Outcome, State, is_final
from duly.domain.shards import shard_of
from duly.ports.store import LossReport

# Whoever asked for a cancel carries it out at once; after this long somebody else does.
PATIENCE: Micros = 5 * SECOND
GATES_AT_ONCE = 1000


class SqliteLosses:
    """What the sweeper does."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def bury_workers(self, now: Instant) -> list[WorkerId]:
        return [row["id"] for row in await self._engine.fetch("bury_workers", {"now": now})]

    async def lose(self, decide: Callable[[Lost, JobVersion | None], Verdict], now: Instant, limit: int) -> LossReport:
        def action() -> Action[LossReport]:
            leases = [row["lease_id"] for row in (yield Call("lost_leases", {"quota": limit}))]
            lost = dead = 0
            for lease in leases:
                for row in (yield Call("lost_executions", {"lease": lease})):
                    version = readable_version_of((yield Call("versions", {"numbers": str(row["job_version"]), "following": 0}))[0])
                    verdict = decide(lost_of(row), version)
                    lost += 1
                    dead += verdict.state is not State.SCHEDULED
                    yield from _lose(row, verdict, now)
                yield Call("drop_members", {"lease": lease})
                yield Call("drop_lease", {"lease": lease})
            return LossReport(len(leases), lost, dead)

        return await self._engine.run(action)

    async def unstick(self, now: Instant, limit: int) -> int:
        def action() -> Action[int]:
            stuck = [row["job_id"] for row in (yield Call("stuck_queues", {"quota": limit}))]
            yield from pass_on(stuck, now)
            gates = [as_uuid(row["gate"]) for row in (yield Call("stuck_gates", {"now": now, "quota": limit}))]
            yield from open_all(gates, now)
            cancels = [row["id"] for row in (yield Call("waiting_cancels", {"before": now - PATIENCE, "quota": limit}))]
            for id in cancels:
                yield from take_from_waiting(id, now)
            return len(stuck) + len(gates) + len(cancels)

        return await self._engine.run(action)

    async def reconcile(self, now: Instant) -> int:
        def action() -> Action[int]:
            freed = [row["job_id"] for row in (yield Call("stale_places", {}))]
            slots = {as_uuid(row["gate"]) for row in (yield Call("stale_slots", {"now": now}))}
            yield Call("stale_cancels", {})
            yield Call("stale_uniques", {"now": now})
            yield from pass_on(dict.fromkeys(freed), now)
            yield from open_all(slots, now)
            yield from clear_away(GATES_AT_ONCE)
            return len(freed) + len(slots)

        return await self._engine.run(action)


def _lose(row: Any, verdict: Verdict, now: Instant) -> Action[None]:
    attempt = {
        "id": row["id"],
        "attempt": row["attempt"],
        "lease": row["lease_id"],
        "worker": row["worker"],
        "started_at": row["granted_at"],
        "finished_at": now,
        "retry_at": verdict.retry_at,
        "error": verdict.error,
    }
    yield Call("end_attempt", attempt | {"outcome": Outcome.WORKER_LOST})
    if verdict.state is State.SCHEDULED:
        assert verdict.retry_at is not None
        key = (yield Call("queue_key", {"id": row["id"]}))[0]
        timer = {
            "id": row["id"],
            "shard": shard_of(as_uuid(row["job_id"])),
            "due_at": verdict.retry_at,
            "route": key["route"],
            "tenant": key["tenant"],
            "gated": key["gated"],
        }
        yield Call(
            "make_timer", timer | {"rank": verdict.retry_at + key["head"], "attempt": row["attempt"] + 1, "failures": row["failures"]}
        )
    else:
        yield Call("add_outcome", attempt | {"state": verdict.state, "started_at": None, "result": None})
    if row["holds_place"]:
        final = verdict.state is not State.SCHEDULED
        yield from leave(row["id"], row["job_id"], now, attempt=row["attempt"], started_at=row["granted_at"], final=final)


class SqliteCancels:
    """Stopping what was asked for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def cancel(
        self,
        tenant: int,
        ids: Sequence[ExecutionId],
        by: str,
        now: Instant,
        kill_after: Micros | None = None,
        *,
        deed: Deed | None = None,
    ) -> dict[ExecutionId, State]:
        kill_at = None if kill_after is None else now + kill_after

        def action() -> Action[dict[ExecutionId, State]]:
            stands: dict[ExecutionId, State] = {}
            asked: list[ExecutionId] = []
            for id in ids:
                if (yield Call("ask_cancel", {"id": id, "tenant": tenant, "by": by, "now": now, "kill_at": kill_at})):
                    asked.append(id)
                row = one((yield Call("standing", {"id": id, "tenant": tenant})))
                if row is None:
                    continue
                if not is_final(State(row["state"])):
                    yield from take_from_waiting(id, now)
                    row = one((yield Call("standing", {"id": id, "tenant": tenant})))
                stands[id] = State(row["state"])
            yield from append([None if deed is None else deed.about(asked)])
            return stands

        return await self._engine.run(action)


class SqliteRetention:
    """What the pruner does."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def prepare(self, now: Instant, ahead: Micros) -> int:
        return 0

    async def prune(self, before: Instant, now: Instant, limit: int) -> int:
        def action() -> Action[int]:
            old = [
                {"id": row["id"]}
                for row in (yield Call("old_finished", {"before": id_floor(before), "finished_before": before, "quota": limit}))
            ]
            # While the outcome still says that the wish is settled.
            yield Call("stale_cancels", {})
            yield Call("stale_uniques", {"now": now})
            for name in ("drop_logs", "drop_attempts", "drop_checkpoint", "drop_settled", "drop_execution", "drop_outcome"):
                yield Many(name, old)
            keys = yield Call("drop_expired_keys", {"now": now, "quota": 10 * limit})
            yield Call("drop_orphan_traces", {"before": id_floor(before), "quota": 10 * limit})
            yield Call("drop_workers", {"long_ago": before})
            yield Call("drop_batches", {"before": before})
            return len(old) + len(keys)

        return await self._engine.run(action)
