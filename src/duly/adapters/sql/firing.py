"""Submit and fire, one row at a time: the same text on both engines.

Whatever has a place, limits, a unique key or a batch comes in here; PostgreSQL writes all others in bulk. What becomes of a
fire that meets its predecessor is decided by `domain.overlap.meet`, from rows that are locked until the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from duly.adapters.sql.engine import Action, Call, Many, one
from duly.adapters.sql.gates import make_gates
from duly.adapters.sql.quotas import note_fires
from duly.adapters.sql.rows import NEVER, as_uuid, encode
from duly.domain.audit import Deed
from duly.domain.execution import Advance, Fire, NewExecution
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant
from duly.domain.lifecycle import SkipReason, State, Trigger
from duly.domain.limits import Gate
from duly.domain.overlap import Entry, meet

# Not looked up for each: members of an enum are found through a descriptor, and a driver would ask who adapts them.
_BY_SCHEDULE = int(Trigger.SCHEDULE)
# Why an execution stands in `blocked`.
BY_OVERLAP, BY_LIMIT = 0, 1


@dataclass(slots=True)
class Fired:
    """What fires did, and what must follow: gates to open, live predecessors that are asked to stop, and jobs in whose queue
    somebody waits for a place that may be free by now."""

    states: list[State] = field(default_factory=list)
    gates: set[UUID] = field(default_factory=set)
    stopped: list[ExecutionId] = field(default_factory=list)
    waiting: list[JobId] = field(default_factory=list)


@dataclass(slots=True)
class Enqueued:
    """What an enqueue did: which are new, which were there already under another id, and gates to open."""

    fresh: set[ExecutionId] = field(default_factory=set)
    instead: dict[ExecutionId, ExecutionId] = field(default_factory=dict)
    gates: set[UUID] = field(default_factory=set)

    @property
    def new(self) -> int:
        """How many are new."""
        return len(self.fresh)

    def of(self, deeds: Sequence[Deed]) -> list[Deed | None]:
        """The deeds, about what is new of that which they asked for."""
        return [deed.about([id for id in deed.executions if id in self.fresh]) for deed in deeds]


def advance(move: Advance, epoch: int, now: Instant) -> Action[bool]:
    """Move a schedule on; False when it no longer stands where it was read. PostgreSQL has looked at the epoch of its shard before."""
    ends = move.next_at is None
    params = {
        "job_id": move.job_id,
        "read_at": move.read_at,
        "version": move.version,
        "next_at": NEVER if ends else move.next_at,
        "skip_at": move.skip_at,
        "shard": move.shard,
        "epoch": epoch,
    }
    if not (yield Call("advance_schedule", params)):
        return False
    if ends:
        yield Call("complete_job", {"id": move.job_id, "now": now})
    return True


def fire_each(fires: Sequence[Fire], now: Instant) -> Action[Fired]:
    """Write fires of schedules that have advanced, in their order."""
    fired = Fired()
    known: set[UUID] = set()
    for fire in fires:
        if fire.gates and (missing := [gate for gate in fire.gates if gate.id not in known]):
            yield from make_gates(missing, fire.tenant)
            known |= {gate.id for gate in missing}
        yield from _fire(fire, now, fired)
    yield from note_fires(fires, now)
    return fired


def _fire(fire: Fire, now: Instant, fired: Fired) -> Action[None]:
    due_at, takes_a_place = fire.at + fire.delay, fire.overlap.takes_a_place
    row = {
        "id": fire.id,
        "job_id": fire.job_id,
        "job_version": fire.job_version,
        "tenant": fire.tenant,
        "route": fire.route,
        "shard": fire.shard,
        "trigger": _BY_SCHEDULE,
        "holds_place": takes_a_place,
        "skip_reason": fire.skip,
        "due_at": due_at,
        "rank": fire.rank,
        "now": now,
        "payload": None,
        "scheduled_at": fire.at if fire.delay else None,
        "batch": None,
        "gates": _ids(fire.gates) if fire.gates else None,
        "gated": bool(fire.gates),
        "attempt": 1,
        "failures": 0,
    }
    if not (yield Call("add_execution", row)):
        return
    if fire.skip is not None:
        yield from _skip(fire.id, fire.skip, now, fire.skip_by)
        fired.states.append(State.SKIPPED)
        return
    entry = (yield from _meet(fire, now, fired)) if takes_a_place else Entry.RUN
    if entry is Entry.RUN and not fire.gates and due_at <= now:
        # Nearly every one: it waits for nothing.
        yield Call("make_ready", row)
        fired.states.append(State.PENDING)
    elif entry is Entry.SKIP:
        yield from _skip(fire.id, SkipReason.OVERLAP, now)
        fired.states.append(State.SKIPPED)
    elif entry is Entry.WAIT:
        yield Call("add_blocked", row | {"reason": BY_OVERLAP})
        yield Call("add_wait", {"waits_for": fire.job_id, "id": fire.id})
        fired.states.append(State.BLOCKED)
    else:
        fired.states.append((yield from _let_in([row], now, fired.gates)))


def _meet(fire: Fire, now: Instant, fired: Fired) -> Action[Entry]:
    """Take a place, or see what becomes of a fire that finds none.

    The waiters are read first: a place on its way to one of them shows as taken once that has committed. Who waits
    without having locked a place is passed one after the commit, in case the last one left meanwhile.
    """
    if fire.overlap.is_one_or_none:
        # The first one runs and every other is skipped: nothing else has to be known of who is there.
        return Entry.RUN if (yield Call("take_only_place", {"job_id": fire.job_id, "id": fire.id})) else Entry.SKIP
    while True:
        waiting = [as_uuid(row["id"]) for row in (yield Call("waiters_of", {"job_id": fire.job_id}))] if fire.overlap.queue_depth else []
        taken = {row["place"]: as_uuid(row["id"]) for row in (yield Call("taken_places", {"job_id": fire.job_id}))}
        met = meet(fire.overlap, taken.keys(), len(waiting))
        if met.replaces_who_waits and not (yield from _replace(waiting, now)):
            continue
        if met.entry is not Entry.RUN or (yield Call("take_place", {"job_id": fire.job_id, "place": met.place, "id": fire.id})):
            break
    if met.stops_the_previous:
        kill_at = None if met.kills_after is None else now + met.kills_after
        for held in taken.values():
            yield Call("ask_to_stop", {"id": held, "now": now, "by": "overlap", "kill_at": kill_at})
        fired.stopped += taken.values()
    if met.entry is Entry.WAIT and not taken:
        fired.waiting.append(fire.job_id)
    return met.entry


def _replace(waiting: Sequence[ExecutionId], now: Instant) -> Action[bool]:
    """Who waits is skipped; False when one of them has been let in since we looked."""
    for waiter in waiting:
        yield Call("drop_waits", {"id": waiter})
        if not (yield Call("drop_blocked", {"id": waiter})):
            return False
        yield from _skip(waiter, SkipReason.OVERLAP, now)
    return True


def _skip(id: ExecutionId, why: SkipReason, now: Instant, by: str | None = None) -> Action[None]:
    reason = {"reason": why.name.lower()} | ({} if by is None else {"by": by})
    yield Call("skip", {"id": id, "now": now, "error": encode(reason)})


def _let_in(rows: Sequence[dict[str, Any]], now: Instant, gates: set[UUID]) -> Action[State]:
    """From the header to where it stands: a timer, its first gate, or ready. Answers where the last one stands."""
    later = [row for row in rows if row["due_at"] > now]
    gated = [row for row in rows if row["gates"] and row["due_at"] <= now]
    ready = [row for row in rows if not row["gates"] and row["due_at"] <= now]
    if later:
        yield Many("make_timer", later)
    if ready:
        yield Many("make_ready", ready)
    if gated:
        yield from queue_at_gates(gated)
        gates |= {row["gates"][0] for row in gated}
    return State.SCHEDULED if later else State.BLOCKED if gated else State.PENDING


def queue_at_gates(rows: Sequence[dict[str, Any]]) -> Action[None]:
    """They wait at their first gate. `gates` are ids; the rest as in `blocked`."""
    yield Many("add_blocked", [row | {"reason": BY_LIMIT} for row in rows])
    yield Many("add_gate_wait", [{"gate": row["gates"][0], "rank": row["rank"], "id": row["id"]} for row in rows])


def enqueue_each(executions: Sequence[NewExecution], now: Instant) -> Action[Enqueued]:
    """Write headers, and let in what is due. Idempotent by id; what has a unique key that is taken is not written."""
    done = Enqueued()
    by_id = {execution.id: execution for execution in executions}
    for row in (yield Call("known_executions", {"ids": list(by_id)})):
        del by_id[as_uuid(row["id"])]
    for execution in [execution for execution in by_id.values() if execution.unique is not None]:
        holder = yield from _take_unique(execution, now)
        if holder != execution.id:
            done.instead[execution.id] = holder
            del by_id[execution.id]
    fresh = list(by_id.values())
    for tenant in {execution.tenant for execution in fresh if execution.gates}:
        yield from make_gates({gate for execution in fresh if execution.tenant == tenant for gate in execution.gates}, tenant)
    rows = [header(execution, now) for execution in fresh]
    yield Many("add_executions", rows)
    yield from _let_in(rows, now, done.gates)
    done.fresh = set(by_id)
    return done


def _take_unique(execution: NewExecution, now: Instant) -> Action[ExecutionId]:
    """Who has the key: this one, or whoever was first."""
    assert execution.unique is not None
    key, until = execution.unique
    if (yield Call("take_unique", {"key": key, "id": execution.id, "until": until, "now": now})):
        return execution.id
    holder = one((yield Call("unique_holder", {"key": key})))
    return execution.id if holder is None else as_uuid(holder["id"])


def header(execution: NewExecution, now: Instant) -> dict[str, Any]:
    """A submitted execution, with what its first row in `ready`, `timers` or `blocked` needs."""
    return {
        "id": execution.id,
        "job_id": execution.job_id,
        "job_version": execution.job_version,
        "tenant": execution.tenant,
        "route": execution.route,
        "shard": execution.shard,
        "trigger": execution.trigger,
        "holds_place": False,
        "skip_reason": None,
        "due_at": execution.due_at,
        "rank": execution.rank,
        "now": now,
        "payload": execution.payload,
        "scheduled_at": execution.scheduled_at,
        "batch": execution.batch,
        "gates": _ids(execution.gates),
        "gated": bool(execution.gates),
        "attempt": 1,
        "failures": 0,
    }


def _ids(gates: Sequence[Gate]) -> list[UUID] | None:
    return [gate.id for gate in gates] or None
