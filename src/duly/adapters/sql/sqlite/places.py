"""What leaves its place or its slots, and who comes after it, on SQLite."""

from __future__ import annotations

from collections.abc import Iterable
from json import loads
from typing import Any
from uuid import UUID

from duly.adapters.sql.engine import Action, Call, one
from duly.adapters.sql.firing import BY_LIMIT
from duly.adapters.sql.gates import open_all
from duly.adapters.sql.rows import as_uuid, as_uuids, encode
from duly.domain.instants import Instant
from duly.domain.lifecycle import State
from duly.domain.shards import shard_of


def pass_on(job_ids: Iterable[Any], now: Instant) -> Action[set[int]]:
    """The oldest waiter of each job takes its free place, and becomes ready or waits for its time or at its first gate. Answers routes."""
    routes: set[int] = set()
    gates: set[UUID] = set()
    for job_id in job_ids:
        waiter = one((yield Call("next_waiter", {"job_id": job_id})))
        if waiter is None or (yield Call("taken_places", {"job_id": job_id})):
            continue
        yield Call("take_place", {"job_id": job_id, "place": 0, "id": waiter["id"]})
        yield Call("drop_waits", {"id": waiter["id"]})
        if waiter["due_at"] > now:
            # Jitter put it off, and the place came free before.
            yield Call("drop_blocked", {"id": waiter["id"]})
            timer = {"shard": shard_of(as_uuid(job_id)), "gated": waiter["gates"] is not None}
            yield Call("make_timer", dict(waiter) | timer)
        elif waiter["gates"] is None:
            yield Call("drop_blocked", {"id": waiter["id"]})
            yield Call("make_ready", dict(waiter))
            routes.add(waiter["route"])
        else:
            first = as_uuids(waiter["gates"])[0]
            yield Call("set_blocked_reason", {"id": waiter["id"], "reason": BY_LIMIT})
            yield Call("add_gate_wait", {"gate": first, "rank": waiter["rank"], "id": waiter["id"]})
            gates.add(first)
    return routes | (yield from open_all(gates, now))


def leave(id: Any, job_id: Any, now: Instant, *, attempt: int, started_at: Instant | None, final: bool) -> Action[set[int]]:
    """An attempt has ended: its slots are free, and so is its place if that was the end of the execution. Answers routes."""
    routes: set[int] = set()
    if (yield Call("has_slots", {"id": id})):
        gates = {as_uuid(row["gate"]) for row in (yield Call("drop_slots", {"id": id, "started_at": started_at}))}
        if started_at is not None:
            yield Call("time_slots", {"id": id, "attempt": attempt, "started_at": started_at})
        routes = yield from open_all(gates, now)
    if final and (yield Call("free_place", {"job_id": job_id, "id": id})):
        routes |= yield from pass_on([job_id], now)
    return routes


def take_from_waiting(id: Any, now: Instant) -> Action[set[int]]:
    """What was asked to stop and waits becomes final. Answers routes on which somebody else is ready now."""
    key = one((yield Call("where_it_waits", {"id": id})))
    if key is None:
        return set()
    stopped = (yield Call("take_from_ready", {"id": id, "route": key["route"], "tenant": key["tenant"], "rank": key["rank"]})) or (
        (yield Call("take_from_timers", {"id": id})) or (yield Call("drop_blocked", {"id": id}))
    )
    if not stopped:
        return set()
    return (yield from make_cancelled(id, stopped[0]["attempt"], now))


def make_cancelled(id: Any, attempt: int, now: Instant) -> Action[set[int]]:
    """A waiting execution that was cancelled is final, and what it held is passed on."""
    outcome = {"id": id, "state": State.CANCELLED, "attempt": attempt - 1, "lease": None, "worker": None, "started_at": None}
    yield Call("add_outcome", outcome | {"finished_at": now, "result": None, "error": (yield from cancelled_by(id))})
    yield Call("drop_waits", {"id": id})
    yield Call("drop_gate_waits", {"id": id})
    place = one((yield Call("place_of", {"id": id})))
    return (yield from leave(id, place["job_id"], now, attempt=attempt, started_at=None, final=True))


def cancelled_by(id: Any, error: str = '{"reason":"cancelled"}') -> Action[str]:
    """The error of a cancelled execution. The wish goes once it is settled; who wished it stays with the outcome."""
    row = one((yield Call("why_wish", {"id": id})))
    return error if row is None else encode(loads(error) | {"by": row["asked_by"]})
