"""Submit and dispatch on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from duly.adapters.sql.audit import append, asking_for
from duly.adapters.sql.definitions import once
from duly.adapters.sql.engine import Action, Call, Engine, Many
from duly.adapters.sql.firing import Enqueued, advance, enqueue_each, fire_each, queue_at_gates
from duly.adapters.sql.gates import open_all
from duly.adapters.sql.quotas import admit_each, enqueue_admitted
from duly.adapters.sql.rows import as_uuid, as_uuids, due_of
from duly.adapters.sql.sqlite.places import make_cancelled, pass_on, take_from_waiting
from duly.domain.audit import Deed
from duly.domain.decide import Firing
from duly.domain.execution import DueSchedule, NewExecution
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant
from duly.domain.lifecycle import State
from duly.ports.hot_index import Coming
from duly.ports.store import Admission, EnqueueReport, FireReport, Idempotency, PromoteReport


class SqliteIntake:
    """Where executions come in."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def enqueue(self, executions: Sequence[NewExecution], now: Instant, deeds: Sequence[Deed] = ()) -> EnqueueReport:
        done = await self._engine.run(lambda: _enqueue(executions, now, deeds))
        return EnqueueReport(done.new, done.instead)

    async def enqueue_once(
        self, tenant: int, executions: Sequence[NewExecution], idempotency: Idempotency, now: Instant, deed: Deed | None = None
    ) -> list[ExecutionId]:
        ids = [execution.id for execution in executions]
        deeds = [] if deed is None else [deed]
        return await self._engine.run(lambda: once(tenant, idempotency, ids, now, _enqueue_asking(executions, now, deeds)))

    async def enqueue_within(self, calls: Sequence[Sequence[NewExecution]], now: Instant, deeds: Sequence[Deed] = ()) -> Admission:
        def write(admitted: Sequence[NewExecution]) -> Action[dict[ExecutionId, ExecutionId]]:
            return _enqueue_instead(admitted, now, asking_for(deeds, admitted))

        return await self._engine.run(lambda: enqueue_admitted(calls, now, write))


def _enqueue(executions: Sequence[NewExecution], now: Instant, deeds: Sequence[Deed]) -> Action[Enqueued]:
    done = yield from enqueue_each(executions, now)
    yield from append(done.of(deeds))
    yield from open_all(done.gates, now)
    return done


def _enqueue_asking(executions: Sequence[NewExecution], now: Instant, deeds: Sequence[Deed]) -> Action[dict[ExecutionId, ExecutionId]]:
    yield from admit_each(executions, now)
    return (yield from _enqueue_instead(executions, now, deeds))


def _enqueue_instead(executions: Sequence[NewExecution], now: Instant, deeds: Sequence[Deed]) -> Action[dict[ExecutionId, ExecutionId]]:
    return (yield from _enqueue(executions, now, deeds)).instead


class SqliteSchedules:
    """What a dispatcher reads and writes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def due_schedules(self, shards: Sequence[int], now: Instant, limit: int) -> list[DueSchedule]:
        def action() -> Action[list[DueSchedule]]:
            found: list[DueSchedule] = []
            for shard in shards:
                for row in (yield Call("due_schedules", {"shard": shard, "now": now, "quota": limit})):
                    found.append(due_of(row))
            return found

        return await self._engine.read(action)

    async def fire(self, firing: Firing, epochs: dict[int, int], now: Instant) -> FireReport:
        def action() -> Action[FireReport]:
            advanced: set[object] = set()
            for move in firing.advances:
                if (yield from advance(move, epochs.get(move.shard, -1), now)):
                    advanced.add(move.job_id)
            made = [fire for fire in firing.fires if fire.job_id in advanced]
            fired = yield from fire_each(made, now)
            if fired.gates:
                yield from open_all(fired.gates, now)
            if fired.waiting:
                yield from pass_on(fired.waiting, now)
            for id in fired.stopped:
                yield from take_from_waiting(id, now)
            states = fired.states
            stopped = len(fired.stopped)
            return FireReport(len(advanced), len(states), states.count(State.SKIPPED), states.count(State.BLOCKED), stopped)

        return await self._engine.run(action)

    async def promote(self, epochs: dict[int, int], now: Instant, limit: int) -> PromoteReport:
        def action() -> Action[PromoteReport]:
            promoted = cancelled = 0
            routes: set[int] = set()
            gates: set[UUID] = set()
            for shard, epoch in epochs.items():
                rows = [dict(row) for row in (yield Call("due_timers", {"shard": shard, "epoch": epoch, "now": now, "quota": limit}))]
                if not rows:
                    continue
                due = [row for row in rows if not row["cancelled"] and not row["gated"]]
                gated = [row | {"gates": as_uuids(row["gates"])} for row in rows if row["gated"] and not row["cancelled"]]
                yield Many("make_ready", due)
                yield from queue_at_gates(gated)
                gates |= {row["gates"][0] for row in gated}
                routes |= {row["route"] for row in due}
                promoted += len(due) + len(gated)
                yield Many("drop_timer", [{"id": row["id"]} for row in rows])
                for row in rows:
                    if row["cancelled"]:
                        cancelled += 1
                        routes |= yield from make_cancelled(row["id"], row["attempt"], now)
            gates |= {as_uuid(row["gate"]) for row in (yield Call("gates_to_look_at", {"now": now, "quota": limit}))}
            routes |= yield from open_all(gates, now)
            return PromoteReport(promoted, cancelled, tuple(sorted(routes)))

        return await self._engine.run(action)

    async def upcoming(self, shards: Sequence[int], after: Instant, until: Instant, limit: int) -> list[Coming]:
        def action() -> Action[list[Coming]]:
            found: list[Coming] = []
            for shard in shards:
                rows = yield Call("upcoming", {"shard": shard, "after": after, "until": until, "quota": limit})
                found += [Coming(row["at"], shard) for row in rows]
            return sorted(found)[:limit]

        return await self._engine.read(action)
