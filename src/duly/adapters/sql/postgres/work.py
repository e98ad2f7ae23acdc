"""Claim, finish and logs on PostgreSQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from duly.adapters.sql.engine import Lane, one
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.postgres.after import pass_on
from duly.adapters.sql.rows import encode
from duly.domain.execution import Claimed, Finished, LeaseId, LogLine, WorkerId
from duly.domain.fairness import Ask, Work
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant
from duly.domain.lifecycle import Outcome
from duly.domain.secrets import is_marked
from duly.ports.store import Route

_decode = msgspec.json.decode


class PostgresReady:
    """Where workers take work."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def routes(self) -> list[Route]:
        return [Route(row["route"], row["pool"], row["labels"], row["handler"]) for row in await self._engine.fetch("routes", {})]

    async def work(self, routes: Sequence[int], counted_to: int) -> list[Work]:
        rows = await self._engine.fetch("work", {"routes": list(routes), "counted_to": counted_to}, Lane.CLAIM)
        return [Work(row["route"], row["tenant"], row["weight"], row["head"], row["depth"]) for row in rows]

    async def claim(self, worker: WorkerId, asks: Sequence[Ask], now: Instant) -> Claimed | None:
        params = {
            "routes": [ask.route for ask in asks],
            "tenants": [ask.tenant for ask in asks],
            "quotas": [ask.quota for ask in asks],
            "worker": worker,
            "now": now,
        }
        row = (await self._engine.fetch("claim", params, Lane.CLAIM))[0]
        if row["lease_id"] is None:
            return None
        return Claimed(
            row["lease_id"],
            row["ids"],
            row["attempts"],
            row["failures"],
            row["job_versions"],
            row["due_ats"],
            row["holds_place"],
            _decode(row["payloads"]),
            row["scheduled_ats"],
            is_marked(row["payloads"]),
        )

    async def held_by(self, worker: WorkerId) -> list[Claimed]:
        by_lease: dict[LeaseId, list[Any]] = defaultdict(list)
        for row in await self._engine.fetch("held_by", {"worker": worker}):
            by_lease[row["lease_id"]].append(row)
        return [
            Claimed(
                lease=lease,
                ids=[row["id"] for row in rows],
                attempts=[row["attempt"] for row in rows],
                failures=[row["failures"] for row in rows],
                job_versions=[row["job_version"] for row in rows],
                due_ats=[row["due_at"] for row in rows],
                holds_place=[row["holds_place"] for row in rows],
                payloads=[None if row["payload"] is None else _decode(row["payload"]) for row in rows],
                scheduled_ats=[row["scheduled_at"] for row in rows],
            )
            for lease, rows in by_lease.items()
        ]


class PostgresOutcomes:
    """Where workers report."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def finish(self, worker: WorkerId, finished: Sequence[Finished], closing: Sequence[LeaseId], now: Instant) -> set[ExecutionId]:
        good = [item for item in finished if item.outcome is Outcome.SUCCEEDED]
        bad = [item for item in finished if item.outcome is not Outcome.SUCCEEDED] if len(good) < len(finished) else []
        refused: set[ExecutionId] = set()
        gates: set[UUID] = set()
        if good:
            refused |= await self._send("finish", worker, good, [] if bad else closing, gates)
        if bad:
            refused |= await self._send("finish_mixed", worker, bad, closing, gates)
        if not finished and closing:
            await self._engine.fetch("close_leases", {"worker": worker, "closing": list(closing)})
        freed = {item.job_id for item in finished if item.holds_place and item.id not in refused}
        if freed or gates:
            await pass_on(self._engine, freed, gates, now)
        return refused

    async def _send(
        self, name: str, worker: WorkerId, items: Sequence[Finished], closing: Sequence[LeaseId], gates: set[UUID]
    ) -> set[ExecutionId]:
        """Send one statement; adds to `gates` what it freed slots of."""
        params = finish_params(name, worker, items, closing)
        if name == "finish":
            row = (await self._engine.fetch_or_again(name, params, Lane.FINISH))[0]
        else:
            row = (await self._engine.fetch(name, params, Lane.FINISH))[0]
        gates.update(row["gates"] or ())
        if row["accepted"] == len(items):
            return set()
        return await self._refused(items, set(row["accepted_ids"] or ()))

    async def _refused(self, items: Sequence[Finished], accepted: set[ExecutionId]) -> set[ExecutionId]:
        """What was not accepted now may have been accepted before, by a call whose answer was lost."""
        rest = [item for item in items if item.id not in accepted]
        rows = await self._engine.fetch("finished_under", {"ids": [item.id for item in rest], "leases": [item.lease for item in rest]})
        return {item.id for item in rest} - {row["id"] for row in rows}

    async def losses(self, id: ExecutionId) -> int:
        return int(one(await self._engine.fetch("losses", {"id": id}))["n"])

    async def append_logs(self, worker: WorkerId, lines: Sequence[tuple[LeaseId, ExecutionId, int, LogLine]]) -> int:
        params = {
            "held": sorted({lease for lease, _, _, _ in lines}),
            "worker": worker,
            "leases": [lease for lease, _, _, _ in lines],
            "ids": [id for _, id, _, _ in lines],
            "attempts": [attempt for _, _, attempt, _ in lines],
            "ats": [line.at for _, _, _, line in lines],
            "levels": [line.level for _, _, _, line in lines],
            "messages": [line.message for _, _, _, line in lines],
            "fields": [encode(line.fields) if line.fields else None for _, _, _, line in lines],
        }
        return len(await self._engine.fetch("append_logs", params))


def finish_params(name: str, worker: WorkerId, items: Sequence[Finished], closing: Sequence[LeaseId]) -> dict[str, Any]:
    """What `finish` (successes) and `finish_mixed` (all else) are sent with."""
    placed = [item for item in items if item.holds_place]
    params: dict[str, Any] = {
        "held": sorted({item.lease for item in items} | set(closing)),
        "worker": worker,
        "ids": [item.id for item in items],
        "leases": [item.lease for item in items],
        "started": [item.started_at for item in items],
        "finished": [item.finished_at for item in items],
        "place_jobs": [item.job_id for item in placed],
        "place_ids": [item.id for item in placed],
        "closing": list(closing),
    }
    if name == "finish":
        params["results"] = [item.result for item in items]
    else:
        params["outcomes"] = [item.outcome for item in items]
        params["states"] = [item.state for item in items]
        params["errors"] = [item.error for item in items]
        params["retry_ats"] = [item.retry_at for item in items]
        params["shards"] = [item.shard for item in items]
    return params
