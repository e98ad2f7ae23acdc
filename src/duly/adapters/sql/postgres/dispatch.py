"""Submit and dispatch on PostgreSQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from typing import Any
from uuid import UUID

from duly.adapters.sql.audit import COLUMNS, append, asking_for, values_of
from duly.adapters.sql.definitions import once
from duly.adapters.sql.engine import Action, Call, Lane, Rows, one
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.firing import Enqueued, Fired, advance, enqueue_each, fire_each
from duly.adapters.sql.gates import open_gates
from duly.adapters.sql.postgres.after import cancel_waiting, pass_on
from duly.adapters.sql.postgres.look_back import LookBack
from duly.adapters.sql.quotas import admit_each, enqueue_admitted
from duly.adapters.sql.rows import NEVER, due_of
from duly.domain.audit import Deed
from duly.domain.decide import Firing
from duly.domain.execution import Advance, DueSchedule, Fire, NewExecution
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant
from duly.domain.lifecycle import State
from duly.ports.hot_index import Coming
from duly.ports.store import Admission, EnqueueReport, FireReport, Idempotency, PromoteReport


class PostgresIntake:
    """Where executions come in."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def enqueue(self, executions: Sequence[NewExecution], now: Instant, deeds: Sequence[Deed] = ()) -> EnqueueReport:
        """Plain ones in one statement; whatever has limits, a unique key or a batch row by row. What one call asks for is of one kind."""
        plain = [execution for execution in executions if _is_plain(execution)]
        special = [execution for execution in executions if not _is_plain(execution)]
        asked = {execution.id for execution in special}
        new = 0
        if plain:
            alike = _alike(plain, now)
            columns = (alike or _columns(plain, now)) | _records(
                [deed for deed in deeds if deed.executions[0] not in asked] if asked else deeds
            )
            new = int((await self._engine.fetch_or_again("enqueue_alike" if alike else "enqueue", columns, Lane.FINISH))[0]["n"])
        if not special:
            return EnqueueReport(new)
        theirs = [deed for deed in deeds if deed.executions[0] in asked]
        done = await self._engine.run(lambda: _enqueue_each(special, now, theirs))
        await open_gates(self._engine, done.gates, now)
        return EnqueueReport(new + done.new, done.instead)

    async def enqueue_once(
        self, tenant: int, executions: Sequence[NewExecution], idempotency: Idempotency, now: Instant, deed: Deed | None = None
    ) -> list[ExecutionId]:
        ids = [execution.id for execution in executions]
        gates: set[UUID] = set()
        deeds = [] if deed is None else [deed]
        answer = await self._engine.run(lambda: once(tenant, idempotency, ids, now, _enqueue_asking(executions, now, gates, deeds)))
        await open_gates(self._engine, gates, now)
        return answer

    async def enqueue_within(self, calls: Sequence[Sequence[NewExecution]], now: Instant, deeds: Sequence[Deed] = ()) -> Admission:
        gates: set[UUID] = set()

        def write(admitted: Sequence[NewExecution]) -> Action[dict[ExecutionId, ExecutionId]]:
            return _enqueue(admitted, now, gates, asking_for(deeds, admitted))

        done = await self._engine.run(lambda: enqueue_admitted(calls, now, write))
        await open_gates(self._engine, gates, now)
        return done


def _is_plain(execution: NewExecution) -> bool:
    return not execution.gates and execution.unique is None and execution.batch is None and execution.scheduled_at is None


def _enqueue_asking(
    executions: Sequence[NewExecution], now: Instant, gates: set[UUID], deeds: Sequence[Deed]
) -> Action[dict[ExecutionId, ExecutionId]]:
    yield from admit_each(executions, now)
    return (yield from _enqueue(executions, now, gates, deeds))


def _enqueue(
    executions: Sequence[NewExecution], now: Instant, gates: set[UUID], deeds: Sequence[Deed]
) -> Action[dict[ExecutionId, ExecutionId]]:
    if all(map(_is_plain, executions)):
        # Tolerant of ids that are there already: their key may have run out since.
        yield Call("enqueue_again", _columns(executions, now) | _records(deeds))
        return {}
    done = yield from _enqueue_each(executions, now, deeds)
    gates |= done.gates
    return done.instead


def _enqueue_each(executions: Sequence[NewExecution], now: Instant, deeds: Sequence[Deed]) -> Action[Enqueued]:
    done = yield from enqueue_each(executions, now)
    yield from append(done.of(deeds))
    return done


def _alike(executions: Sequence[NewExecution], now: Instant) -> dict[str, Any] | None:
    """What `enqueue_alike` is sent with; None when these wait, or differ in more than their payloads: all have one, or nobody has."""
    first = executions[0]
    payloads = [execution.payload for execution in executions if execution.payload is not None]
    if first.due_at > now or len(payloads) not in (0, len(executions)):
        return None
    shared = _shared(first)
    if any(_shared(execution) != shared for execution in executions):
        return None
    return {
        "ids": [execution.id for execution in executions],
        "job_id": first.job_id,
        "job_version": first.job_version,
        "tenant": first.tenant,
        "route": first.route,
        "trigger": first.trigger,
        "due_at": first.due_at,
        "rank": first.rank,
        "payloads": f"[{','.join(payloads)}]" if payloads else None,
        "now": now,
    }


_shared = itemgetter(
    *(NewExecution._fields.index(name) for name in ("job_id", "job_version", "tenant", "route", "trigger", "due_at", "rank"))
)


def _columns(executions: Sequence[NewExecution], now: Instant) -> dict[str, Any]:
    later = [execution for execution in executions if execution.due_at > now]
    return {
        "ids": [execution.id for execution in executions],
        "job_ids": [execution.job_id for execution in executions],
        "job_versions": [execution.job_version for execution in executions],
        "tenants": [execution.tenant for execution in executions],
        "routes": [execution.route for execution in executions],
        "triggers": [execution.trigger for execution in executions],
        "due_ats": [execution.due_at for execution in executions],
        "ranks": [execution.rank for execution in executions],
        "payloads": [execution.payload for execution in executions],
        "later_ids": [execution.id for execution in later],
        "later_shards": [execution.shard for execution in later],
        "now": now,
    }


def _records(deeds: Sequence[Deed]) -> dict[str, Any]:
    """The deeds of an enqueue as columns: one row a call, written by the statement that writes its executions."""
    columns = zip(*map(values_of, deeds), strict=True) if deeds else [()] * len(_RECORDED)
    return {"firsts": [deed.executions[0] for deed in deeds], **dict(zip(_RECORDED, columns, strict=True))}


_RECORDED = tuple(f"d_{name}" for name in COLUMNS)


class PostgresSchedules:
    """What a dispatcher reads and writes."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine
        self._schedules = LookBack(engine, "schedules")
        self._timers = LookBack(engine, "timers")

    async def due_schedules(self, shards: Sequence[int], now: Instant, limit: int) -> list[DueSchedule]:
        async def look(since: Instant) -> Rows:
            return await self._engine.fetch(
                "due_schedules", {"shards": list(shards), "since": since, "now": now, "quota": limit}, Lane.CLAIM
            )

        return [due_of(row) for row in await self._schedules.look(look, len, now)]

    async def fire(self, firing: Firing, epochs: dict[int, int], now: Instant) -> FireReport:
        """Jobs that queue, stop their predecessor or have limits go one by one, because they lock what they decide by; all others
        in one statement."""
        special = {fire.job_id for fire in firing.fires if not fire.is_plain}
        report = FireReport()
        plain = [advance for advance in firing.advances if advance.job_id not in special]
        if plain:
            report = await self._fire_plain(plain, [fire for fire in firing.fires if fire.job_id not in special], epochs, now)
        if special:
            by_job: dict[JobId, list[Fire]] = defaultdict(list)
            for fire in firing.fires:
                by_job[fire.job_id].append(fire)
            for move in firing.advances:
                if move.job_id in special:
                    report += await self._fire_special(move, by_job[move.job_id], epochs, now)
        return report

    async def _fire_plain(self, advances: Sequence[Advance], fires: Sequence[Fire], epochs: dict[int, int], now: Instant) -> FireReport:
        shards = sorted({advance.shard for advance in advances})
        later = [fire for fire in fires if fire.at + fire.delay > now]
        params = {
            "shards": shards,
            "epochs": [epochs.get(shard, -1) for shard in shards],
            "job_ids": [advance.job_id for advance in advances],
            "versions": [advance.version for advance in advances],
            "read_ats": [advance.read_at for advance in advances],
            "next_ats": [NEVER if advance.next_at is None else advance.next_at for advance in advances],
            "skip_ats": [advance.skip_at for advance in advances],
            "never": NEVER,
            "ids": [fire.id for fire in fires],
            "fire_jobs": [fire.job_id for fire in fires],
            "fire_ats": [fire.at for fire in fires],
            "fire_versions": [fire.job_version for fire in fires],
            "tenants": [fire.tenant for fire in fires],
            "routes": [fire.route for fire in fires],
            "ranks": [fire.rank for fire in fires],
            "holds_places": [fire.overlap.takes_a_place for fire in fires],
            "skip_reasons": [fire.skip for fire in fires],
            "delays": [fire.delay for fire in fires],
            "later_ids": [fire.id for fire in later],
            "later_shards": [fire.shard for fire in later],
            "now": now,
        }
        row = (await self._engine.fetch_or_again("fire", params, Lane.CLAIM))[0]
        return FireReport(row["advanced"], row["fired"], row["skipped"])

    async def _fire_special(self, move: Advance, fires: Sequence[Fire], epochs: dict[int, int], now: Instant) -> FireReport:
        def action() -> Action[Fired | None]:
            epoch = epochs.get(move.shard, -1)
            owned = yield Call("owned_shard", {"shard": move.shard, "epoch": epoch})
            if not owned or not (yield from advance(move, epoch, now)):
                return None
            return (yield from fire_each(fires, now))

        fired = await self._engine.run(action)
        if fired is None:
            return FireReport()
        await pass_on(self._engine, fired.waiting, fired.gates, now)
        if fired.stopped:
            await cancel_waiting(self._engine, fired.stopped, now)
        states = fired.states
        return FireReport(1, len(states), states.count(State.SKIPPED), states.count(State.BLOCKED), len(fired.stopped))

    async def promote(self, epochs: dict[int, int], now: Instant, limit: int) -> PromoteReport:
        params = {"shards": list(epochs), "epochs": list(epochs.values()), "now": now, "quota": limit}

        async def look(since: Instant) -> Rows:
            return await self._engine.fetch("promote", params | {"since": since}, Lane.CLAIM)

        row = one(await self._timers.look(look, lambda rows: one(rows)["moved"], now))
        gates = {*(row["gates"] or ()), *(row["looked"] or ())}
        if row["freed"]:
            await pass_on(self._engine, row["freed"], None, now)
        routes = {*(row["routes"] or ()), *(await open_gates(self._engine, gates, now))}
        return PromoteReport(row["moved"] - row["cancelled"], row["cancelled"], tuple(sorted(routes)))

    async def upcoming(self, shards: Sequence[int], after: Instant, until: Instant, limit: int) -> list[Coming]:
        rows = await self._engine.fetch("upcoming", {"shards": list(shards), "after": after, "until": until, "quota": limit}, Lane.CLAIM)
        return [Coming(row["at"], row["shard"]) for row in rows]
