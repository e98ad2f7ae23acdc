"""Letting executions through their gates. The same text on both engines; each call is one transaction of its own.

An execution waits at one gate at a time, in the order of its ranks, and moves on to its next gate or to `ready`. Who
lets it through holds the gate's row, counts the slots by a younger snapshot, and writes new ones: so a gate is never
overfull, whoever else tries. What frees a slot only deletes it, and then opens the gate here; should it die in between,
the sweeper finds a gate with room that somebody waits for.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from duly.adapters.sql.engine import Action, Call, Engine, Many, one
from duly.adapters.sql.rows import as_uuid, as_uuids, encode
from duly.domain.dependencies import OPEN
from duly.domain.errors import Unavailable
from duly.domain.ids import id_floor
from duly.domain.instants import SECOND, Instant
from duly.domain.limits import Gate
from duly.domain.shards import shard_of

log = logging.getLogger("duly.store")

# How many pass in one transaction; the rest follow in the next.
AT_ONCE = 500
# How often to look whether somebody who holds a slot of a rate has started at last.
LOOK_AGAIN = SECOND
# … and whether the job that others wait for has succeeded, though nobody said so.
LOOK_FOR_SUCCESS = 5 * SECOND


@dataclass(slots=True)
class Passed:
    """Who got through: the routes on which something is ready, gates that others reached, and whether more could pass."""

    routes: set[int] = field(default_factory=set)
    onward: set[UUID] = field(default_factory=set)
    more: bool = False


class _Round:
    """The gates that are still to be opened, and the routes on which something became ready."""

    def __init__(self, gates: Iterable[UUID]) -> None:
        self.gates = list(dict.fromkeys(gates))
        self.routes: set[int] = set()

    def note(self, gate: UUID, passed: Passed) -> None:
        self.routes |= passed.routes
        self.gates.extend(passed.onward)
        if passed.more:
            self.gates.append(gate)


async def open_gates(engine: Engine, gates: Iterable[UUID], now: Instant) -> set[int]:
    """Let through whom the gates have room for; answers the routes on which something became ready.

    It follows a commit, whose answer must not be taken back: should the store be away by now, the sweeper opens them.
    """
    left = _Round(gates)
    try:
        while left.gates:
            gate = left.gates.pop()
            left.note(gate, await engine.run(partial(open_gate, gate, now)))
    except Unavailable as error:
        log.warning("gates are left to the sweeper: %s", error)
    return left.routes


def open_all(gates: Collection[UUID], now: Instant) -> Action[set[int]]:
    """The same inside a transaction of the one writer."""
    if not gates:
        return set()
    left = _Round(gates)
    while left.gates:
        gate = left.gates.pop()
        left.note(gate, (yield from open_gate(gate, now)))
    return left.routes


def open_gate(gate: UUID, now: Instant) -> Action[Passed]:
    """One gate: as many as it has room for, best rank first."""
    row = one((yield Call("lock_gate", {"gate": gate})))
    if row is None:
        return Passed()
    passed = Passed()
    capacity = row["capacity"]
    if capacity == 0:
        capacity = yield from _look_at_awaited(gate, now)
    is_rate = row["lasts"] is not None
    if is_rate:
        yield Call("note_starts", {"gate": gate})
        yield Call("drop_expired_slots", {"gate": gate, "now": now})
    room = capacity - one((yield Call("count_slots", {"gate": gate, "now": now})))["n"]
    if room > 0:
        quota = min(room, AT_ONCE)
        found = yield Call("next_at_gate", {"gate": gate, "quota": quota})
        yield from _let_through(gate, row["lasts"], found, passed)
        passed.more = len(found) == quota < room
    if is_rate and not passed.more:
        yield from _look_again(gate, now)
    return passed


def _let_through(gate: UUID, lasts: int | None, found: Sequence[Any], passed: Passed) -> Action[None]:
    if not found:
        return
    yield Many("leave_gate_queue", [{"gate": gate, "rank": row["rank"], "id": row["id"]} for row in found])
    yield Many("add_slot", [{"gate": gate, "id": row["id"], "attempt": row["attempt"], "lasts": lasts} for row in found])
    through: list[dict[str, Any]] = []
    for row in found:
        gates = as_uuids(row["gates"])
        following = gates[gates.index(gate) + 1 :]
        if following:
            yield Call("add_gate_wait", {"gate": following[0], "rank": row["rank"], "id": row["id"]})
            passed.onward.add(following[0])
        else:
            through.append({key: row[key] for key in ("id", "rank", "route", "tenant", "attempt", "failures")})
            passed.routes.add(row["route"])
    yield Many("drop_blocked", through)
    yield Many("make_ready", through)


def _look_again(gate: UUID, now: Instant) -> Action[None]:
    """When somebody still waits: the clock frees the next slot, or a worker starts one that has not begun."""
    look_at = None
    if (yield Call("somebody_waits", {"gate": gate})):
        free = one((yield Call("next_free_slot", {"gate": gate})))
        look_at = now + LOOK_AGAIN if free["at"] is None else free["at"]
        if free["unstarted"]:
            look_at = min(look_at, now + LOOK_AGAIN)
    yield Call("look_at_gate", {"gate": gate, "look_at": look_at})


def _look_at_awaited(gate: UUID, now: Instant) -> Action[int]:
    """A gate that is closed until another job has succeeded: how many it lets through. At the deadline it opens, or who waits is skipped.

    It is called after the commit of a fire that waits, and after the commit of a success: of the two, whoever wrote second sees the other.
    """
    awaited = one((yield Call("awaited", {"gate": gate})))
    if awaited is None:
        return 0
    params = {"tenant": awaited["tenant"], "job": awaited["job"], "first": awaited["first"], "past": awaited["past"]}
    is_met = bool((yield Call("awaited_success", params | {"first_id": id_floor(awaited["first"])})))
    is_over = now >= awaited["deadline"]
    if is_met or (is_over and awaited["runs"]):
        if not is_met:
            told = f"runs without the job {awaited['job']!r}, which had not succeeded by the deadline"
            waiting = yield Call("next_at_gate", {"gate": gate, "quota": AT_ONCE})
            yield Many("note_in_log", [{"id": row["id"], "attempt": row["attempt"], "now": now, "message": told} for row in waiting])
        yield Call("set_gate", {"gate": gate, "capacity": OPEN, "lasts": None})
        yield Call("drop_awaited", {"gate": gate})
        yield Call("look_at_gate", {"gate": gate, "look_at": None})
        return OPEN
    if is_over:
        found = yield Call("next_at_gate", {"gate": gate, "quota": AT_ONCE})
        for waiter in found:
            yield from _skip(gate, waiter, awaited["job"], now)
        if len(found) < AT_ONCE:
            yield Call("look_at_gate", {"gate": gate, "look_at": None})
        return 0
    yield Call("look_at_gate", {"gate": gate, "look_at": min(awaited["deadline"], now + LOOK_FOR_SUCCESS)})
    return 0


def _skip(gate: UUID, waiter: Any, job: str, now: Instant) -> Action[None]:
    """It has waited in vain. Its place is free; who waits for that is let in by the sweeper."""
    id = waiter["id"]
    yield Call("leave_gate_queue", {"gate": gate, "rank": waiter["rank"], "id": id})
    yield Call("drop_blocked", {"id": id})
    yield Call("drop_slots", {"id": id, "started_at": None})
    held = one((yield Call("place_of_flow", {"id": id})))
    yield Call("free_place", {"job_id": held["job_id"], "id": id})
    yield Call("skip", {"id": id, "now": now, "error": encode({"reason": "dependency", "job": job})})


def make_gates(gates: Iterable[Gate], tenant: int) -> Action[None]:
    """See to it that these gates are there, as wide as the newest version says, until this transaction ends.

    Those of the tenant itself are there anyway, and whoever comes to them may have read its quotas a moment too early.
    """
    for gate in sorted({gate for gate in gates if not gate.kept}):
        params = {
            "gate": gate.id,
            "tenant": tenant,
            "shard": shard_of(gate.id),
            "capacity": gate.capacity,
            "lasts": gate.lasts,
            "about": gate.about,
        }
        held: Any = ()
        while not held:
            yield Call("make_gate", params)
            held = yield Call("hold_gate", {"gate": gate.id})
        if gate.awaited is None:
            yield Call("set_gate", params)
        else:
            # Looked at soon, should nobody come to do it after the commit.
            yield Call("add_awaited", {"gate": gate.id, "tenant": tenant, **gate.awaited._asdict()})
            yield Call("look_at_gate", {"gate": gate.id, "look_at": gate.awaited.first})


def clear_away(quota: int) -> Action[int]:
    """Gates that nobody uses and nobody will come to go, so that keys of long ago cost nothing.

    Who waits for a time, for a place or at another gate holds nothing yet and needs the gate all the same: nobody would make it again.
    """
    idle = [as_uuid(row["gate"]) for row in (yield Call("idle_gates", {"quota": quota}))]
    if idle:
        # Read after the gates are locked: whoever comes from now on waits for us, and makes them again.
        awaited = {gate for row in (yield Call("awaited_gates", {"idle": idle})) for gate in as_uuids(row["gates"])}
        idle = [gate for gate in idle if gate not in awaited]
    yield Many("drop_gate", [{"gate": gate} for gate in idle])
    yield Many("drop_awaited", [{"gate": gate} for gate in idle])
    return len(idle)
