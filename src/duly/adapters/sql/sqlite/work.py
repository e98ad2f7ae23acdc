"""Claim, finish and logs on SQLite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec

from duly.adapters.sql.engine import Action, Call, Engine, Many, one
from duly.adapters.sql.rows import UNDECODABLE, as_uuid, encode, payload_of
from duly.adapters.sql.sqlite.places import cancelled_by, leave
from duly.domain.announcements import Named
from duly.domain.execution import Claimed, Finished, LeaseId, LogLine, WorkerId
from duly.domain.fairness import Ask, Work
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant
from duly.domain.lifecycle import COSTS_AN_ATTEMPT, Outcome, State
from duly.domain.portion import Portion
from duly.domain.secrets import is_marked
from duly.ports.store import Route

# Of a lease: the bytes of an id, the attempt, and how many have failed.
_Member = tuple[bytes, int, int]
# Not looked up for each: members of an enum are found through a descriptor.
_SUCCEEDED = int(State.SUCCEEDED)


class SqliteReady:
    """Where workers take work."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._portion = Portion()

    async def routes(self) -> list[Route]:
        return [Route(row["route"], row["pool"], row["labels"], row["handler"]) for row in await self._engine.fetch("routes", {})]

    async def work(self, routes: Sequence[int], counted_to: int, *, roughly: bool = False) -> list[Work]:
        def action() -> Action[list[Work]]:
            found: list[Work] = []
            for route in routes:
                for row in (yield Call("work_on_route", {"route": route, "counted_to": counted_to})):
                    found.append(Work(route, row["tenant"], row["weight"], row["head"], row["depth"]))
            return found

        return await self._engine.read(action)

    async def claim(self, worker: WorkerId, asks: Sequence[Ask], now: Instant) -> Claimed | None:
        def action() -> Action[tuple[LeaseId, list[Any]] | None]:
            lease: LeaseId | None = None
            picked: list[Any] = []
            for ask in self._portion.of(asks):
                rows = yield Call("pick", {"route": ask.route, "tenant": ask.tenant, "quota": ask.quota})
                if not rows:
                    continue
                if lease is None:
                    granted = yield Call("grant", {"worker": worker, "now": now})
                    if not granted:
                        return None
                    lease = granted[0][0]
                taken = {"route": ask.route, "tenant": ask.tenant, "rank": rows[-1]["rank"], "id": rows[-1]["id"]}
                yield Call("grant_members", taken | {"lease": lease})
                yield Call("take", taken)
                picked += rows
            return None if lease is None else (lease, picked)

        claimed = await self._engine.run(action)
        if claimed is None:
            return None
        lease, picked = claimed
        self._portion.learn(len(picked), sum([len(row[7]) for row in picked if row[7]]))
        return _claimed(lease, picked)

    async def peek(self, asks: Sequence[Ask]) -> list[Named]:
        def action() -> Action[list[Named]]:
            found: list[Named] = []
            for ask in asks:
                rows = yield Call("peek_on_route", {"route": ask.route, "tenant": ask.tenant, "quota": ask.quota})
                found += [Named(ask.route, ask.tenant, row["rank"], as_uuid(row["id"])) for row in rows]
            return found

        return await self._engine.read(action)

    async def claim_named(self, worker: WorkerId, named: Sequence[Named], now: Instant) -> Claimed | None:
        def action() -> Action[tuple[LeaseId, list[Any]] | None]:
            picked: list[Any] = []
            taken: list[dict[str, Any]] = []
            # In one transaction of the only writer nobody comes between the look and the taking; a name that comes twice is one.
            for name in dict.fromkeys(named):
                for row in (yield Call("pick_named", name._asdict())):
                    picked.append(row)
                    taken.append(name._asdict())
            if not picked:
                return None
            granted = yield Call("grant", {"worker": worker, "now": now})
            if not granted:
                return None
            lease: LeaseId = granted[0][0]
            members = [{"lease": lease, "id": row["id"], "attempt": row["attempt"], "failures": row["failures"]} for row in picked]
            yield Many("grant_member", members)
            yield Many("take_named", taken)
            return lease, picked

        claimed = await self._engine.run(action)
        return None if claimed is None else _claimed(*claimed)

    async def held_by(self, worker: WorkerId) -> list[Claimed]:
        by_lease: dict[LeaseId, list[Any]] = defaultdict(list)
        for row in await self._engine.fetch("held_by", {"worker": worker}):
            by_lease[row["lease_id"]].append(row)
        return [_claimed(lease, rows) for lease, rows in by_lease.items()]


def _claimed(lease: LeaseId, rows: Sequence[Any]) -> Claimed:
    """Column by column, in the order in which `pick` and `held_by` end: by name, each value would be looked up."""
    ids, attempts, failures, versions, due_ats, holds_place, payloads, scheduled_ats, last_traces = list(zip(*rows, strict=True))[1:]
    texts = "[" + ",".join([payload or "null" for payload in payloads]) + "]"
    marked = is_marked(texts)
    try:
        decoded = msgspec.json.decode(texts)
    except UNDECODABLE:
        decoded, marked = [payload_of(payload) for payload in payloads], True
    return Claimed(
        lease=lease,
        ids=[as_uuid(id) for id in ids],
        attempts=list(attempts),
        failures=list(failures),
        job_versions=list(versions),
        due_ats=list(due_ats),
        holds_place=[bool(holds) for holds in holds_place],
        payloads=decoded,
        scheduled_ats=list(scheduled_ats),
        marked=marked,
        may_be_traced=(last := last_traces[-1]) is not None and last >= min(ids),
    )


class SqliteOutcomes:
    """Where workers report."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def finish(self, worker: WorkerId, finished: Sequence[Finished], closing: Sequence[LeaseId], now: Instant) -> set[ExecutionId]:
        def action() -> Action[set[ExecutionId]]:
            refused: set[ExecutionId] = set()
            leaving: list[tuple[Finished, int, bool]] = []
            by_lease: dict[LeaseId, list[Finished]] = defaultdict(list)
            for item in finished:
                by_lease[item.lease].append(item)
            for lease, items in by_lease.items():
                # By the bytes of their ids, as they come: for a thousand members that is a millisecond less.
                held = {row[0]: tuple(row) for row in (yield Call("members", {"lease": lease, "worker": worker}))}
                ended: list[tuple[Finished, _Member]] = []
                for item in items:
                    member = held.get(item.id.bytes)
                    if member is not None:
                        ended.append((item, member))
                    elif not (yield Call("finished_under", {"id": item.id, "lease": lease})):
                        refused.add(item.id)
                yield from _succeed(worker, [each for each in ended if each[0].outcome is Outcome.SUCCEEDED])
                for item, member in ended:
                    final = item.outcome is Outcome.SUCCEEDED or (yield from _end(worker, item, member))
                    if item.holds_place:
                        leaving.append((item, member[1], final))
                # Nothing held, nothing to drop: the lease may be another worker's, whose members are not ours to touch.
                if held and len(ended) == len(held):
                    yield Call("drop_members", {"lease": lease})
                else:
                    yield Many("drop_member", [{"lease": lease, "id": item.id} for item, _ in ended])
                yield Call("close_lease", {"lease": lease})
            for item, attempt, final in leaving:
                yield from leave(item.id, item.job_id, now, attempt=attempt, started_at=item.started_at, final=final)
            return refused

        return await self._engine.run(action)

    async def losses(self, id: ExecutionId) -> int:
        return int(one(await self._engine.fetch("losses", {"id": id}))["n"])

    async def append_logs(self, worker: WorkerId, lines: Sequence[tuple[LeaseId, ExecutionId, int, LogLine]]) -> int:
        def action() -> Action[int]:
            kept: list[dict[str, Any]] = []
            held: dict[tuple[LeaseId, ExecutionId], bool] = {}
            for lease, id, attempt, line in lines:
                if (lease, id) not in held:
                    held[lease, id] = one((yield Call("member", {"lease": lease, "worker": worker, "id": id}))) is not None
                if held[lease, id]:
                    fields = encode(line.fields) if line.fields else None
                    kept.append(
                        {"id": id, "attempt": attempt, "at": line.at, "level": line.level, "message": line.message, "fields": fields}
                    )
            yield Many("append_log", kept)
            return len(kept)

        return await self._engine.run(action)


def _succeed(worker: WorkerId, ended: Sequence[tuple[Finished, _Member]]) -> Action[None]:
    rows = [
        {
            "id": id,
            "state": _SUCCEEDED,
            "attempt": attempt,
            "lease": item.lease,
            "worker": worker,
            "started_at": item.started_at,
            "finished_at": item.finished_at,
            "result": item.result,
            "error": None,
        }
        for item, (id, attempt, _) in ended
    ]
    yield Call("add_outcome", rows[0]) if len(rows) == 1 else Many("add_outcome", rows, is_bound=True)


def _end(worker: WorkerId, item: Finished, member: _Member) -> Action[bool]:
    """Record an unsuccessful attempt; True when the execution is final with it."""
    _, number, failures = member
    key = (yield Call("queue_key", {"id": item.id}))[0]
    again = item.state is State.SCHEDULED and not key["cancelled"]
    attempt = {
        "id": item.id,
        "attempt": number,
        "outcome": item.outcome,
        "lease": item.lease,
        "worker": worker,
        "started_at": item.started_at,
        "finished_at": item.finished_at,
        "retry_at": item.retry_at if again else None,
        "error": item.error,
    }
    yield Call("end_attempt", attempt)
    if again:
        assert item.retry_at is not None
        timer = {
            "id": item.id,
            "shard": item.shard,
            "due_at": item.retry_at,
            "route": key["route"],
            "tenant": key["tenant"],
            "rank": item.retry_at + key["head"],
            "gated": key["gated"],
        }
        yield Call("make_timer", timer | {"attempt": number + 1, "failures": failures + (item.outcome in COSTS_AN_ATTEMPT)})
        return False
    state = State.CANCELLED if item.state is State.SCHEDULED else item.state
    error = item.error
    if state is State.CANCELLED and key["cancelled"]:
        # How a failure went stays with its attempt.
        error = yield from (cancelled_by(item.id, error) if error is not None and item.state is state else cancelled_by(item.id))
    yield Call("add_outcome", attempt | {"state": state, "result": None, "error": error})
    return True
