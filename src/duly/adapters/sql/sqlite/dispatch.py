"""Submit and dispatch on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duly.adapters.sql.definitions import once
from duly.adapters.sql.engine import Action, Call, Engine, Many
from duly.adapters.sql.rows import NEVER, as_uuid
from duly.adapters.sql.sqlite.places import cancelled_by, pass_on
from duly.domain.decide import Firing
from duly.domain.execution import Advance, DueSchedule, Fire, NewExecution
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant
from duly.domain.lifecycle import SkipReason, State, Trigger
from duly.ports.store import FireReport, Idempotency, PromoteReport


class SqliteIntake:
    """Where executions come in."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def enqueue(self, executions: Sequence[NewExecution], now: Instant) -> int:
        return await self._engine.run(lambda: enqueued(executions, now))

    async def enqueue_once(
        self, tenant: int, executions: Sequence[NewExecution], idempotency: Idempotency, now: Instant
    ) -> list[ExecutionId]:
        ids = [execution.id for execution in executions]
        return await self._engine.run(lambda: once(tenant, idempotency, ids, now, enqueued(executions, now)))


def enqueued(executions: Sequence[NewExecution], now: Instant) -> Action[int]:
    """Write headers, and what follows from those that are new; answers how many were."""
    by_id = {execution.id: execution for execution in executions}
    for row in (yield Call("known_executions", {"ids": b"".join([id.bytes for id in by_id])})):
        del by_id[as_uuid(row["id"])]
    rows = [_header(execution, now) for execution in by_id.values()]
    yield Many("add_executions", rows)
    yield Many("make_ready", [row for row in rows if row["due_at"] <= now])
    yield Many("make_timer", [row for row in rows if row["due_at"] > now])
    return len(rows)


def _header(execution: NewExecution, now: Instant) -> dict[str, Any]:
    return {
        "id": execution.id,
        "job_id": execution.job_id,
        "job_version": execution.job_version,
        "tenant": execution.tenant,
        "route": execution.route,
        "shard": execution.shard,
        "trigger": execution.trigger,
        "holds_place": False,
        "skip_reason": None,
        "due_at": execution.due_at,
        "rank": execution.rank,
        "now": now,
        "payload": execution.payload,
        "batch": execution.batch,
        "attempt": 1,
        "failures": 0,
    }


class SqliteSchedules:
    """What a dispatcher reads and writes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def due_schedules(self, shards: Sequence[int], now: Instant, limit: int) -> list[DueSchedule]:
        def action() -> Action[list[DueSchedule]]:
            found: list[DueSchedule] = []
            for shard in shards:
                for row in (yield Call("due_schedules", {"shard": shard, "now": now, "quota": limit})):
                    found.append(DueSchedule(as_uuid(row["job_id"]), row["shard"], row["next_fire_at"], row["version"]))
            return found

        return await self._engine.read(action)

    async def fire(self, firing: Firing, epochs: dict[int, int], now: Instant) -> FireReport:
        def action() -> Action[FireReport]:
            advanced: set[object] = set()
            ours: dict[int, bool] = {}
            for advance in firing.advances:
                if advance.shard not in ours:
                    ours[advance.shard] = bool(
                        (yield Call("owned_shard", {"shard": advance.shard, "epoch": epochs.get(advance.shard, -1)}))
                    )
                if ours[advance.shard] and (yield from _advance(advance)):
                    advanced.add(advance.job_id)
            made = [fire for fire in firing.fires if fire.job_id in advanced]
            fired = skipped = queued = 0
            for fire in made:
                state = yield from _fire(fire, now)
                fired += state is not None
                skipped += state is State.SKIPPED
                queued += state is State.BLOCKED
            return FireReport(len(advanced), fired, skipped, queued)

        return await self._engine.run(action)

    async def promote(self, epochs: dict[int, int], now: Instant, limit: int) -> PromoteReport:
        def action() -> Action[PromoteReport]:
            promoted = cancelled = 0
            routes: set[int] = set()
            for shard, epoch in epochs.items():
                rows = yield Call("due_timers", {"shard": shard, "epoch": epoch, "now": now, "quota": limit})
                due = [dict(row) for row in rows if not row["cancelled"]]
                yield Many("make_ready", due)
                routes |= {row["route"] for row in due}
                promoted += len(due)
                for row in rows:
                    if row["cancelled"]:
                        cancelled += 1
                        yield from _make_cancelled(row["id"], row["attempt"], now)
                yield Many("drop_timer", [{"id": row["id"]} for row in rows])
            return PromoteReport(promoted, cancelled, tuple(sorted(routes)))

        return await self._engine.run(action)

    async def upcoming(self, shards: Sequence[int], after: Instant, until: Instant, limit: int) -> list[Instant]:
        def action() -> Action[list[Instant]]:
            found: set[Instant] = set()
            for shard in shards:
                found |= {row["at"] for row in (yield Call("upcoming", {"shard": shard, "after": after, "until": until, "quota": limit}))}
            return sorted(found)[:limit]

        return await self._engine.read(action)


def _advance(advance: Advance) -> Action[bool]:
    ends = advance.next_at is None
    params = {
        "job_id": advance.job_id,
        "read_at": advance.read_at,
        "version": advance.version,
        "next_at": NEVER if ends else advance.next_at,
    }
    if not (yield Call("advance_schedule", params)):
        return False
    if ends:
        yield Call("complete_job", {"id": advance.job_id})
    return True


def _fire(fire: Fire, now: Instant) -> Action[State | None]:
    """Write one fire: ready, waiting, or skipped. None when it was written before."""
    row = {
        "id": fire.id,
        "job_id": fire.job_id,
        "job_version": fire.job_version,
        "tenant": fire.tenant,
        "route": fire.route,
        "trigger": Trigger.SCHEDULE,
        "holds_place": fire.takes_a_place,
        "skip_reason": fire.skip,
        "due_at": fire.at,
        "rank": fire.rank,
        "now": now,
        "payload": None,
        "attempt": 1,
        "failures": 0,
    }
    if not (yield Call("add_execution", row)):
        return None
    if fire.skip is not None:
        yield Call("skip", {"id": fire.id, "now": now, "error": _reason(fire.skip)})
        return State.SKIPPED
    if not fire.takes_a_place or (yield Call("take_place", row)):
        yield Call("make_ready", row)
        return State.PENDING
    waiting = (yield Call("count_waiting_for", {"job_id": fire.job_id}))[0]["n"] if fire.queue_depth else 0
    if waiting < fire.queue_depth:
        yield Call("add_blocked", row)
        yield Call("add_wait", {"waits_for": fire.job_id, "id": fire.id})
        return State.BLOCKED
    yield Call("skip", {"id": fire.id, "now": now, "error": _reason(SkipReason.OVERLAP)})
    return State.SKIPPED


def _reason(skip: SkipReason) -> str:
    return f'{{"reason":"{skip.name.lower()}"}}'


def _make_cancelled(id: bytes, attempt: int, now: Instant) -> Action[None]:
    """A waiting execution that was cancelled meanwhile becomes final, and its place is passed on."""
    outcome = {
        "id": id,
        "state": State.CANCELLED,
        "attempt": attempt - 1,
        "lease": None,
        "worker": None,
        "started_at": None,
        "finished_at": now,
    }
    yield Call("add_outcome", outcome | {"result": None, "error": (yield from cancelled_by(id))})
    place = (yield Call("place_of", {"id": id}))[0]
    if place["holds_place"] and (yield Call("free_place", {"job_id": place["job_id"], "id": id})):
        yield from pass_on([place["job_id"]])
