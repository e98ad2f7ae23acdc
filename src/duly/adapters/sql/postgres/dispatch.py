"""Submit and dispatch on PostgreSQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from duly.adapters.sql.definitions import once
from duly.adapters.sql.engine import Action, Call, Lane
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.rows import NEVER
from duly.domain.decide import Firing
from duly.domain.execution import Advance, DueSchedule, Fire, NewExecution
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant
from duly.ports.store import FireReport, Idempotency, PromoteReport


class PostgresIntake:
    """Where executions come in."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def enqueue(self, executions: Sequence[NewExecution], now: Instant) -> int:
        rows = await self._engine.fetch_or_again("enqueue", _columns(executions, now), Lane.FINISH)
        return int(rows[0]["n"])

    async def enqueue_once(
        self, tenant: int, executions: Sequence[NewExecution], idempotency: Idempotency, now: Instant
    ) -> list[ExecutionId]:
        ids = [execution.id for execution in executions]
        return await self._engine.run(lambda: once(tenant, idempotency, ids, now, enqueued(executions, now)))


def enqueued(executions: Sequence[NewExecution], now: Instant) -> Action[None]:
    """Write headers, and what follows from those that are new, as a part of another transaction."""
    # Tolerant of ids that are there already: their key may have run out since.
    yield Call("enqueue_again", _columns(executions, now))


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
        "batches": [execution.batch for execution in executions],
        "later_ids": [execution.id for execution in later],
        "later_shards": [execution.shard for execution in later],
        "now": now,
    }


class PostgresSchedules:
    """What a dispatcher reads and writes."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def due_schedules(self, shards: Sequence[int], now: Instant, limit: int) -> list[DueSchedule]:
        rows = await self._engine.fetch("due_schedules", {"shards": list(shards), "now": now, "quota": limit}, Lane.CLAIM)
        return [DueSchedule(row["job_id"], row["shard"], row["next_fire_at"], row["version"]) for row in rows]

    async def fire(self, firing: Firing, epochs: dict[int, int], now: Instant) -> FireReport:
        """Jobs that queue go one by one, because a fire that waits locks what it waits for; all others in one statement."""
        queueing = {fire.job_id for fire in firing.fires if fire.queue_depth}
        report = FireReport()
        plain = [advance for advance in firing.advances if advance.job_id not in queueing]
        if plain:
            report = await self._fire_plain(plain, [fire for fire in firing.fires if fire.job_id not in queueing], epochs, now)
        if queueing:
            by_job: dict[JobId, list[Fire]] = defaultdict(list)
            for fire in firing.fires:
                by_job[fire.job_id].append(fire)
            for advance in firing.advances:
                if advance.job_id in queueing:
                    one = await self._fire_queued(advance, by_job[advance.job_id], epochs, now)
                    report = FireReport(
                        report.advanced + one.advanced, report.fired + one.fired, report.skipped + one.skipped, report.queued + one.queued
                    )
        return report

    async def _fire_plain(self, advances: Sequence[Advance], fires: Sequence[Fire], epochs: dict[int, int], now: Instant) -> FireReport:
        shards = sorted({advance.shard for advance in advances})
        params = {
            "shards": shards,
            "epochs": [epochs.get(shard, -1) for shard in shards],
            "job_ids": [advance.job_id for advance in advances],
            "versions": [advance.version for advance in advances],
            "read_ats": [advance.read_at for advance in advances],
            "next_ats": [NEVER if advance.next_at is None else advance.next_at for advance in advances],
            "never": NEVER,
            "ids": [fire.id for fire in fires],
            "fire_jobs": [fire.job_id for fire in fires],
            "fire_ats": [fire.at for fire in fires],
            "fire_versions": [fire.job_version for fire in fires],
            "tenants": [fire.tenant for fire in fires],
            "routes": [fire.route for fire in fires],
            "ranks": [fire.rank for fire in fires],
            "holds_places": [fire.takes_a_place for fire in fires],
            "skip_reasons": [fire.skip for fire in fires],
            "now": now,
        }
        row = (await self._engine.fetch_or_again("fire", params, Lane.CLAIM))[0]
        return FireReport(row["advanced"], row["fired"], row["skipped"])

    async def _fire_queued(self, advance: Advance, fires: Sequence[Fire], epochs: dict[int, int], now: Instant) -> FireReport:
        def action() -> Action[FireReport]:
            ends = advance.next_at is None
            params = {
                "shard": advance.shard,
                "epoch": epochs.get(advance.shard, -1),
                "job_id": advance.job_id,
                "version": advance.version,
                "read_at": advance.read_at,
                "next_at": NEVER if ends else advance.next_at,
            }
            if not (yield Call("advance_queued", params)):
                return FireReport()
            if ends:
                yield Call("complete_job", {"id": advance.job_id})
            fired = skipped = queued = 0
            for fire in fires:
                row = (
                    yield Call(
                        "fire_queued",
                        {
                            "id": fire.id,
                            "job_id": fire.job_id,
                            "job_version": fire.job_version,
                            "tenant": fire.tenant,
                            "route": fire.route,
                            "skip_reason": fire.skip,
                            "fire_at": fire.at,
                            "rank": fire.rank,
                            "depth": fire.queue_depth,
                            "now": now,
                        },
                    )
                )[0]
                fired, skipped, queued = fired + row["fired"], skipped + row["skipped"], queued + row["queued"]
            return FireReport(1, fired, skipped, queued)

        return await self._engine.run(action)

    async def promote(self, epochs: dict[int, int], now: Instant, limit: int) -> PromoteReport:
        params = {"shards": list(epochs), "epochs": list(epochs.values()), "now": now, "quota": limit}
        row = (await self._engine.fetch("promote", params, Lane.CLAIM))[0]
        if row["freed"]:
            await self._engine.fetch("pass_on_places", {"job_ids": row["freed"]})
        return PromoteReport(row["moved"] - row["cancelled"], row["cancelled"], tuple(row["routes"] or ()))

    async def upcoming(self, shards: Sequence[int], after: Instant, until: Instant, limit: int) -> list[Instant]:
        rows = await self._engine.fetch("upcoming", {"shards": list(shards), "after": after, "until": until, "quota": limit}, Lane.CLAIM)
        return [row["at"] for row in rows]
