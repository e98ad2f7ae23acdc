"""Losses, cancels and retention on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from uuid import UUID

from duly.adapters.sql.audit import append
from duly.adapters.sql.engine import Action, Call, one
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.gates import clear_away
from duly.adapters.sql.postgres.after import cancel_waiting, pass_on
from duly.adapters.sql.rows import lost_of, readable_version_of
from duly.domain.audit import Deed
from duly.domain.execution import Lost, Verdict, WorkerId
from duly.domain.ids import ExecutionId, JobId, id_floor
from duly.domain.instants import DAY, SECOND, Instant, Micros, from_datetime
from duly.domain.job import JobVersion
from duly.domain.lifecycle import State, is_final
from duly.domain.shards import shard_of
from duly.ports.store import LossReport

# An execution that is being moved between two tables is found in the second or third look.
LOOKS = 20
# Whoever asked for a cancel carries it out at once; after this long somebody else does.
PATIENCE: Micros = 5 * SECOND
GATES_AT_ONCE = 1000
# Dead rows that a claim may have to walk past before the queue is moved to new pages. Where nothing hinders them, pages prune themselves
# down to less.
CROWDED = {"dead": 5_000}


class PostgresLosses:
    """What the sweeper does."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def bury_workers(self, now: Instant) -> list[WorkerId]:
        return [row["id"] for row in await self._engine.fetch("bury_workers", {"now": now})]

    async def lose(self, decide: Callable[[Lost, JobVersion | None], Verdict], now: Instant, limit: int) -> LossReport:
        freed: list[JobId] = []
        gates: list[UUID] = []

        def action() -> Action[LossReport]:
            freed.clear()
            gates.clear()
            leases = [row["lease_id"] for row in (yield Call("lost_leases", {"quota": limit}))]
            if not leases:
                return LossReport()
            found = [lost_of(row) for row in (yield Call("lost_executions", {"leases": leases}))]
            versions: dict[int, JobVersion | None] = {}
            for number in sorted({lost.job_version for lost in found}):
                versions[number] = readable_version_of((yield Call("versions", {"numbers": str(number), "following": 0}))[0])
            verdicts = [decide(lost, versions[lost.job_version]) for lost in found]
            lost_rows = yield Call(
                "lose",
                {
                    "leases": leases,
                    "ids": [lost.id for lost in found],
                    "attempts": [lost.attempt for lost in found],
                    "failures": [lost.failures for lost in found],
                    "of_leases": [lost.lease for lost in found],
                    "workers": [lost.worker for lost in found],
                    "granted": [lost.granted_at for lost in found],
                    "states": [verdict.state for verdict in verdicts],
                    "errors": [verdict.error for verdict in verdicts],
                    "retry_ats": [verdict.retry_at for verdict in verdicts],
                    "shards": [shard_of(lost.job_id) for lost in found],
                    "now": now,
                },
            )
            gates.extend(one(lost_rows)["gates"] or ())
            freed.extend(lost.job_id for lost, verdict in zip(found, verdicts, strict=True) if is_final(verdict.state) and lost.holds_place)
            return LossReport(len(leases), len(found), sum(is_final(verdict.state) for verdict in verdicts))

        report = await self._engine.run(action)
        await pass_on(self._engine, freed, gates, now)
        return report

    async def unstick(self, now: Instant, limit: int) -> int:
        stuck = [row["job_id"] for row in await self._engine.fetch("stuck_queues", {"quota": limit})]
        gates = [row["gate"] for row in await self._engine.fetch("stuck_gates", {"now": now, "quota": limit})]
        await pass_on(self._engine, stuck, gates, now)
        cancels = [row["id"] for row in await self._engine.fetch("waiting_cancels", {"before": now - PATIENCE, "quota": limit})]
        if cancels:
            await cancel_waiting(self._engine, cancels, now)
        if one(await self._engine.fetch("dead_in_queue", CROWDED))["crowded"]:
            await self._engine.fetch("renew_queue", {})
        return len(stuck) + len(gates) + len(cancels)

    async def reconcile(self, now: Instant) -> int:
        freed = [row["job_id"] for row in await self._engine.fetch("stale_places", {})]
        slots = [row["gate"] for row in await self._engine.fetch("stale_slots", {"now": now})]
        await self._engine.fetch("stale_cancels", {})
        await self._engine.fetch("stale_uniques", {"now": now})
        await pass_on(self._engine, freed, slots, now)
        await self._engine.run(lambda: clear_away(GATES_AT_ONCE))
        return len(freed) + len(slots)


class PostgresCancels:
    """Stopping what was asked for."""

    def __init__(self, engine: PostgresEngine) -> None:
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
        wish = {"ids": sorted(ids, key=lambda id: id.int), "tenant": tenant, "by": by, "now": now, "kill_at": kill_at}

        def ask() -> Action[None]:
            asked = {row["id"] for row in (yield Call("ask_cancels", wish))}
            yield from append([None if deed is None else deed.about([id for id in ids if id in asked])])

        await self._engine.run(ask)
        stands: dict[ExecutionId, State] = {}
        moving = list(ids)
        for _ in range(LOOKS):
            # Only what this tenant asked for: the wish was written for its own executions alone.
            await cancel_waiting(self._engine, moving, now)
            for row in await self._engine.fetch("standings", {"ids": moving, "tenant": tenant}):
                stands[row["id"]] = State(row["state"])
            moving = [id for id in moving if id in stands and not is_final(stands[id]) and stands[id] is not State.RUNNING]
            if not moving:
                break
        return stands


class PostgresRetention:
    """Partitions by day: created ahead, dropped behind."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def prepare(self, now: Instant, ahead: Micros) -> int:
        made = 0
        for day in range(now // DAY, (now + ahead) // DAY + 1):
            made += int(one(await self._engine.fetch("create_partitions", {"from_us": day * DAY, "to_us": (day + 1) * DAY}))["made"])
        return made

    async def prune(self, before: Instant, now: Instant, limit: int) -> int:
        # While the outcome still says that the wish is settled.
        await self._engine.fetch("stale_cancels", {})
        await self._engine.fetch("stale_uniques", {"now": now})
        await self._engine.fetch("drop_orphans", {"before": id_floor(before)})
        await self._engine.fetch("drop_orphan_traces", {"before": id_floor(before), "quota": 10 * limit})
        keys = len(await self._engine.fetch("drop_expired_keys", {"now": now, "quota": 10 * limit}))
        await self._engine.fetch("drop_workers", {"long_ago": before})
        await self._engine.fetch("drop_batches", {"before": before})
        params = {"before": id_floor(before), "finished_before": before, "quota": limit}
        lines = int(one(await self._engine.fetch("drop_old_logs", params | {"quota": 10 * limit}))["n"])
        checkpoints = int(one(await self._engine.fetch("drop_old_checkpoints", params))["n"])
        if max(lines, keys) >= 10 * limit or checkpoints >= limit:
            # There is more of it, and a day goes after what belongs to it. What comes in all the time must not keep the days for ever.
            return lines + keys + checkpoints
        oldest = one(await self._engine.fetch("oldest_partition", {}))["day"]
        if oldest is not None:
            start = from_datetime(datetime.strptime(oldest, "%Y%m%d").replace(tzinfo=UTC))
            if start + DAY <= before:
                kept = one(await self._engine.fetch("drop_partitions", {"from_us": start, "before_us": before}))["kept"]
                # Somebody reads the history at this moment: the day is dropped the next time.
                return lines + keys + checkpoints + (kept is not None)
        return lines + keys + checkpoints + int(one(await self._engine.fetch("drop_old_from_default", params))["n"])
