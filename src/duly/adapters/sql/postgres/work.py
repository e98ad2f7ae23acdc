"""Claim, finish and logs on PostgreSQL."""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import Any
from uuid import UUID

import msgspec

from duly.adapters.sql.engine import Lane, one
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.postgres.after import pass_on
from duly.adapters.sql.rows import UNDECODABLE, encode, payload_of
from duly.domain.announcements import Named
from duly.domain.execution import Claimed, Finished, LeaseId, LogLine, WorkerId
from duly.domain.fairness import Ask, Work
from duly.domain.heads import Heads
from duly.domain.ids import ExecutionId
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.lifecycle import Outcome
from duly.domain.portion import Portion
from duly.domain.secrets import is_marked
from duly.domain.trail import Trail
from duly.ports.store import Route

_decode = msgspec.json.decode
_INT = attrgetter("int")
MOST_TRAILS = 1000
# Before every place in a queue.
_HEAD = (-(1 << 63), UUID(int=0))
# A lease of so many is worth asking whether it is whole.
WORTH_IT = 32
# How an array of uuids begins on the wire: dimensions, no nulls, the type's number, length, first index; and each of them.
_ON_THE_WIRE = struct.Struct("!iiiii")
_UUID = 2950
_SIXTEEN = struct.pack("!i", 16)


class PostgresReady:
    """Where workers take work."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine
        self._trails: dict[tuple[int, int], Trail] = {}
        self._heads = Heads()
        self._portion = Portion()

    async def routes(self) -> list[Route]:
        return [Route(row["route"], row["pool"], row["labels"], row["handler"]) for row in await self._engine.fetch("routes", {})]

    async def work(self, routes: Sequence[int], counted_to: int, *, roughly: bool = False) -> list[Work]:
        now = _monotonic()
        known = self._heads.known(routes, now) if roughly else {}
        params = {
            "routes": list(routes),
            "counted_to": counted_to,
            "known_routes": [route for route, _ in known],
            "known_tenants": [tenant for _, tenant in known],
            "known_ranks": [rank for rank, _ in known.values()],
            "known_ids": [id for _, id in known.values()],
        }
        rows = await self._engine.fetch("work", params, Lane.CLAIM)
        first = {(row["route"], row["tenant"]): (row["head"], row["first"]) for row in rows}
        if known:
            self._heads.looked_on(known, first)
        elif roughly:
            self._heads.looked_at_all(routes, first, now, max((row["took"] for row in rows), default=0))
        return [Work(row["route"], row["tenant"], row["weight"], row["head"], row["depth"]) for row in rows]

    async def claim(self, worker: WorkerId, asks: Sequence[Ask], now: Instant) -> Claimed | None:
        if not asks:
            return None
        asks = self._portion.of(asks)
        began = _monotonic()
        if len(self._trails) > MOST_TRAILS:
            self._trails.clear()
        queues = [(ask.route, ask.tenant) for ask in asks]
        # A trail follows one queue; where there are several, claims are small, and begin where a look has found the first of each.
        trail = self._trails.setdefault(queues[0], Trail()) if len(asks) == 1 else Trail()
        start = trail.start(began)
        places = [start] if start is not None else [self._heads.place(queue, began) for queue in queues]
        params = {
            "routes": [ask.route for ask in asks],
            "tenants": [ask.tenant for ask in asks],
            "quotas": [ask.quota for ask in asks],
            "ranks": [(place or _HEAD)[0] for place in places],
            "ids": [(place or _HEAD)[1] for place in places],
            "worker": worker,
            "now": now,
        }
        try:
            row = (await self._engine.fetch("claim", params, Lane.CLAIM))[0]
        except BaseException:
            self._portion.fail()
            raise
        found = 0 if row["lease_id"] is None else len(row["ids"])
        is_whole = not any(places)
        if is_whole or start is not None:
            place = (row["last_rank"], row["last_id"])
            trail.learn(start, began, _monotonic() - began, place, found=found, is_full=found > 0 and found == asks[0].quota)
        if row["lease_id"] is not None:
            return await self._in_hand(worker, row)
        # Nothing from there on: what there is stands before it.
        self._heads.forget(queues)
        return None if is_whole else await self.claim(worker, asks, now)

    async def peek(self, asks: Sequence[Ask]) -> list[Named]:
        params = {
            "routes": [ask.route for ask in asks],
            "tenants": [ask.tenant for ask in asks],
            "quotas": [ask.quota for ask in asks],
        }
        return [Named(*row) for row in await self._engine.fetch("peek", params, Lane.CLAIM)]

    async def claim_named(self, worker: WorkerId, named: Sequence[Named], now: Instant) -> Claimed | None:
        if not named:
            return None
        routes, tenants, ranks, ids = zip(*named, strict=True)
        params = {"routes": routes, "tenants": tenants, "ranks": ranks, "ids": ids, "worker": worker, "now": now}
        row = (await self._engine.fetch("claim_named", params, Lane.CLAIM))[0]
        return None if row["lease_id"] is None else await self._in_hand(worker, row)

    async def _in_hand(self, worker: WorkerId, row: Any) -> Claimed | None:
        """What a claim answers. One payload that nobody can decode hides all others: then they are read one by one."""
        self._portion.learn(len(row["ids"]), len(row["payloads"]))
        try:
            return _claimed(row)
        except UNDECODABLE:
            return next((held for held in await self.held_by(worker) if held.lease == row["lease_id"]), None)

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
                payloads=[payload_of(row["payload"]) for row in rows],
                scheduled_ats=[row["scheduled_at"] for row in rows],
            )
            for lease, rows in by_lease.items()
        ]


def _monotonic() -> Micros:
    return round(asyncio.get_running_loop().time() * SECOND)


def _claimed(row: Any) -> Claimed:
    """What a claim answers: arrays, and of what few executions have, only theirs."""
    ids: list[ExecutionId] = row["ids"]
    placed, shifted = frozenset(row["placed"] or ()), row["shifted"]
    scheduled = dict(zip(shifted, row["scheduled_ats"], strict=True)) if shifted else {}
    return Claimed(
        row["lease_id"],
        ids,
        row["attempts"] or [1] * len(ids),
        row["failures"] or [0] * len(ids),
        row["job_versions"],
        row["due_ats"],
        [id in placed for id in ids] if placed else [False] * len(ids),
        _decode(row["payloads"]),
        [scheduled.get(id, due_at) for id, due_at in zip(ids, row["due_ats"], strict=True)] if scheduled else row["due_ats"],
        is_marked(row["payloads"]),
        may_be_traced=(last := row["last_trace"]) is not None and last.int >= min(map(_INT, ids)),
    )


class PostgresOutcomes:
    """Where workers report."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def finish(self, worker: WorkerId, finished: Sequence[Finished], closing: Sequence[LeaseId], now: Instant) -> set[ExecutionId]:
        refused: set[ExecutionId] = set()
        gates: set[UUID] = set()
        rest: Sequence[Finished] = finished
        for lease in closing:
            if (
                len(whole := plain_successes(rest, lease)) >= WORTH_IT
                and (found := await self._send_whole(worker, lease, whole)) is not None
            ):
                refused |= found
                rest = [item for item in rest if item.lease != lease] if len(whole) < len(rest) else ()
                closing = [other for other in closing if other != lease]
        good = [item for item in rest if item.outcome is Outcome.SUCCEEDED]
        bad = [item for item in rest if item.outcome is not Outcome.SUCCEEDED] if len(good) < len(rest) else []
        if good:
            refused |= await self._send("finish", worker, good, [] if bad else closing, gates)
        if bad:
            refused |= await self._send("finish_mixed", worker, bad, closing, gates)
        if not rest and closing:
            await self._engine.fetch("close_leases", {"worker": worker, "closing": list(closing)})
        freed = {item.job_id for item in rest if item.holds_place and item.id not in refused}
        if freed or gates:
            await pass_on(self._engine, freed, gates, now)
        return refused

    async def _send_whole(self, worker: WorkerId, lease: LeaseId, items: Sequence[Finished]) -> set[ExecutionId] | None:
        """Report a lease at once; None when this is not all of it, or not in its order, and nothing was written."""
        row = (await self._engine.fetch_or_again("finish_whole", whole_params(worker, lease, items), Lane.FINISH))[0]
        if not row["leases"]:
            return None
        return set() if row["accepted"] == len(items) else await self._refused(items, set(row["accepted_ids"] or ()))

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


def plain_successes(items: Sequence[Finished], lease: LeaseId) -> list[Finished]:
    """What is reported of a lease, if all of it has succeeded and holds no place; else nothing."""
    mine = [item for item in items if item.lease == lease]
    return [] if any(item.holds_place or item.outcome is not Outcome.SUCCEEDED for item in mine) else mine


def whole_params(worker: WorkerId, lease: LeaseId, items: Sequence[Finished]) -> dict[str, Any]:
    """What `finish_whole` is sent with. The ids are one value, and the results one document: arrays cost three times as much."""
    results = [item.result or "null" for item in items]
    return {
        "worker": worker,
        "lease": lease,
        "held": _ON_THE_WIRE.pack(1, 0, _UUID, len(items), 1) + b"".join([_SIXTEEN + item.id.bytes for item in items]),
        "started": [item.started_at for item in items],
        "finished": [item.finished_at for item in items],
        "results": f"[{','.join(results)}]" if any(item.result for item in items) else None,
        "count": len(items),
    }


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
