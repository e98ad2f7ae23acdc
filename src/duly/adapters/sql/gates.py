"""Letting executions through their gates. The same text on both engines; each call is one transaction of its own.

An execution waits at one gate at a time, in the order of its ranks, and moves on to its next gate or to `ready`. Who
lets it through holds the gate's row, counts the slots by a younger snapshot, and writes new ones: so a gate is never
overfull, whoever else tries. What frees a slot only deletes it, and then opens the gate here; should it die in between,
the sweeper finds a gate with room that somebody waits for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from duly.adapters.sql.engine import Action, Call, Engine, Many, one
from duly.adapters.sql.rows import as_uuid, as_uuids
from duly.domain.errors import Unavailable
from duly.domain.instants import SECOND, Instant
from duly.domain.limits import Gate
from duly.domain.shards import shard_of

log = logging.getLogger("duly.store")

# How many pass in one transaction; the rest follow in the next.
AT_ONCE = 500
# How often to look whether somebody who holds a slot of a rate has started at last.
LOOK_AGAIN = SECOND


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


def open_all(gates: Iterable[UUID], now: Instant) -> Action[set[int]]:
    """The same inside a transaction of the one writer."""
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
    is_rate = row["lasts"] is not None
    if is_rate:
        yield Call("note_starts", {"gate": gate})
        yield Call("drop_expired_slots", {"gate": gate, "now": now})
    room = row["capacity"] - one((yield Call("count_slots", {"gate": gate, "now": now})))["n"]
    passed = Passed()
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
        yield Call("set_gate", params)


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
    return len(idle)
