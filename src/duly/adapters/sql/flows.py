"""Workflows on both engines. What differs is how many headers are written at once, and when what a run held is passed on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from json import dumps, loads
from typing import Any, Protocol
from uuid import UUID

from duly.adapters.sql.audit import append
from duly.adapters.sql.engine import Action, Call, Engine, Lane, Many, Row, one
from duly.adapters.sql.firing import queue_at_gates
from duly.adapters.sql.gates import make_gates, open_gates
from duly.adapters.sql.rows import as_uuid, encode, execution_of
from duly.domain.audit import Deed
from duly.domain.execution import Execution
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant
from duly.domain.lifecycle import State
from duly.domain.shards import shard_of
from duly.ports.flows import Added, Ended, Flow, Header, NewStep, Placed, Signal, StepVersion, Taken, Wait

FIRST_ID = UUID(int=0)
# Where a group of gates opens after the commit; what a run held is freed inside it.
Freed = tuple[set[JobId], set[UUID]]


class Own(Protocol):
    """What is each engine's own."""

    async def add_at_once(self, steps: Sequence[NewStep], now: Instant) -> Added | None:
        """Make these steps in one statement, if the engine has one for such; None: it has none."""

    def headers(self, steps: Sequence[NewStep], ready: Collection[ExecutionId], now: Instant) -> Action[set[ExecutionId]]:
        """Write headers that are not there, and make these ready. Answers which are new."""

    def leave(self, id: ExecutionId, now: Instant, freed: Freed) -> Action[None]:
        """A run gives its place and its slots back."""

    async def after(self, freed: Freed, now: Instant) -> None:
        """What follows the commit."""


class SqlFlows:
    """See ports/flows.py. Shared by both engines; what is not, it asks `own` for."""

    def __init__(self, engine: Engine, own: Own) -> None:
        self._engine = engine
        self._own = own

    # ------------------------------------------------------------ beginning

    async def take(self, now: Instant, look_at: Instant, limit: int) -> list[Taken]:
        freed: Freed = (set(), set())

        def action() -> Action[list[Taken]]:
            freed[1].clear()
            taken: list[Taken] = []
            for row in (yield Call("take_flows", {"quota": limit})):
                id = as_uuid(row["id"])
                begun = yield Call("begin_flow", {"id": id, "now": now, "look_at": look_at})
                if not begun:
                    # A step that waited for its time, and has nothing else to do.
                    yield Call("add_outcome", _outcome(id, State.SUCCEEDED, now))
                slots = yield Call("free_tenants_slots", {"id": id})
                freed[1].update(as_uuid(slot["gate"]) for slot in slots)
                taken.append(Taken(id, bool(begun)))
            return taken

        if not await self._engine.fetch("a_flow_is_ready", {}, Lane.CLAIM):
            return []
        taken = await self._engine.run(action)
        await self._own.after(freed, now)
        return taken

    # ------------------------------------------------------------ looking

    async def placed(self, ids: Sequence[ExecutionId]) -> list[Placed]:
        rows = await self._engine.fetch("placed", {"ids": list(ids)}, Lane.CLAIM)
        flows: dict[Any, Flow] = {}
        found: list[Placed] = []
        for row in rows:
            run = row["run"]
            if run not in flows:
                flows[run] = _flow(row)
            found.append(Placed(as_uuid(row["id"]), flows[run], row["step"], row["nth"]))
        return found

    async def flow(self, run: ExecutionId) -> Flow | None:
        row = one(await self._engine.fetch("flow", {"run": run}, Lane.CLAIM))
        return None if row is None else _flow(row)

    async def header(self, run: ExecutionId) -> Header:
        row = one(await self._engine.fetch("flow_header", {"run": run}, Lane.CLAIM))
        return Header(row["payload"], row["tenant"], _maybe(row["run"]), row["step"])

    async def version_of(self, run: ExecutionId) -> int | None:
        row = one(await self._engine.fetch("flow_header", {"run": run}, Lane.CLAIM))
        return None if row is None else row["job_version"]

    async def step_versions(self, job_version: int) -> dict[int, StepVersion]:
        rows = await self._engine.fetch("step_versions", {"id": job_version})
        return {row["step"]: StepVersion(as_uuid(row["job_id"]), row["id"], row["route"]) for row in rows}

    async def ends(self, ids: Sequence[ExecutionId]) -> dict[ExecutionId, Ended]:
        rows = await self._engine.fetch("ends", {"ids": list(ids)}, Lane.CLAIM) if ids else ()
        return {as_uuid(row["id"]): Ended(None if row["state"] is None else State(row["state"]), row["error"]) for row in rows}

    async def results(self, ids: Sequence[ExecutionId]) -> dict[ExecutionId, str | None]:
        rows = await self._engine.fetch("results", {"ids": list(ids)}, Lane.CLAIM) if ids else ()
        return {as_uuid(row["id"]): row["result"] for row in rows}

    async def ended_between(self, first: ExecutionId, last: ExecutionId, limit: int) -> list[tuple[ExecutionId, State]]:
        rows = await self._engine.fetch("ended_between", {"first": first, "last": last, "quota": limit}, Lane.CLAIM)
        return [(as_uuid(row["id"]), State(row["state"])) for row in rows]

    async def live_steps(self, run: ExecutionId, limit: int) -> list[ExecutionId]:
        return [as_uuid(row["id"]) for row in await self._engine.fetch("live_steps", {"run": run, "quota": limit}, Lane.CLAIM)]

    async def overdue(self, now: Instant, limit: int) -> list[ExecutionId]:
        return [as_uuid(row["run"]) for row in await self._engine.fetch("overdue_flows", {"now": now, "quota": limit})]

    async def steps(self, tenant: int, run: ExecutionId, after: ExecutionId | None, limit: int) -> list[Execution]:
        params = {"tenant": tenant, "run": run, "after": after or FIRST_ID, "quota": limit}
        return [execution_of(row) for row in await self._engine.fetch("steps_of_flow", params)]

    # ------------------------------------------------------------ making and ending

    async def add(self, steps: Sequence[NewStep], now: Instant, look_at: Instant) -> Added:
        if (at_once := await self._own.add_at_once(steps, now)) is not None:
            return at_once
        opening: set[UUID] = set()

        def action() -> Action[Added]:
            opening.clear()
            ready = [step for step in steps if is_ready(step, now)]
            new = yield from self._own.headers(steps, {step.execution.id for step in ready}, now)
            made = [step for step in steps if step.execution.id in new]
            yield from _stand(made, now, look_at, opening)
            return Added(len(new), {step.execution.route for step in ready if step.execution.id in new})

        added = await self._engine.run(action)
        return Added(added.new, added.routes | await open_gates(self._engine, opening, now)) if opening else added

    async def finish(self, run: ExecutionId, state: State, result: str | None, error: str | None, now: Instant) -> bool:
        freed: Freed = (set(), set())

        def action() -> Action[bool]:
            for group in freed:
                group.clear()
            if not (yield Call("end_flow", {"run": run})):
                return False
            yield Call("add_outcome", _outcome(run, state, now, result, error))
            for name in ("drop_flow_waits", "drop_signals", "drop_seed"):
                yield Call(name, {"run": run})
            yield from self._own.leave(run, now, freed)
            return True

        ended = await self._engine.run(action)
        await self._own.after(freed, now)
        return ended

    # ------------------------------------------------------------ waiting for somebody

    async def waits(self, run: ExecutionId) -> list[Wait]:
        return [_wait(row) for row in await self._engine.fetch("waits_of_flow", {"run": run})]

    async def overdue_waits(self, now: Instant, limit: int) -> list[Wait]:
        return [_wait(row) for row in await self._engine.fetch("overdue_waits", {"now": now, "quota": limit})]

    async def settle_wait(
        self, id: ExecutionId, state: State | None, result: str | None, error: str | None, now: Instant, *, deed: Deed | None = None
    ) -> bool:
        def action() -> Action[bool]:
            row = one((yield Call("leave_wait", {"id": id})))
            yield Call("drop_flow_wait", {"id": id})
            if row is None:
                return False
            if state is None:
                yield from _let_go(row, now)
            else:
                yield Call("add_outcome", _outcome(id, state, now, result, error))
            yield from append([deed])
            return True

        return await self._engine.run(action)

    async def add_signal(self, tenant: int, run: ExecutionId, signal: Signal, *, deed: Deed | None = None) -> bool:
        params = {
            "run": run,
            "name": signal.name,
            "tenant": tenant,
            "payload": signal.payload,
            "now": signal.sent_at,
            "by": signal.sent_by,
        }
        return await self._engine.run(lambda: _recorded(Call("add_signal", params), deed))

    async def signals(self, run: ExecutionId) -> list[Signal]:
        rows = await self._engine.fetch("signals_of", {"run": run})
        return [Signal(row["name"], row["payload"], row["sent_at"], row["sent_by"]) for row in rows]

    async def seed(self, tenant: int, run: ExecutionId, former: ExecutionId, redo: Collection[str]) -> None:
        await self._engine.fetch("add_seed", {"run": run, "tenant": tenant, "former": former, "redo": dumps(sorted(redo))})

    async def unseed(self, run: ExecutionId) -> None:
        await self._engine.fetch("drop_seed", {"run": run})

    async def seed_of(self, run: ExecutionId) -> tuple[ExecutionId, frozenset[str]] | None:
        row = one(await self._engine.fetch("seed_of", {"run": run}))
        return None if row is None else (as_uuid(row["former"]), frozenset(loads(row["redo"])))

    async def pause(self, run: ExecutionId, by: str | None, now: Instant, *, deed: Deed | None = None) -> bool:
        pause = Call("pause_flow", {"run": run, "by": by, "paused_at": None if by is None else now})
        return await self._engine.run(lambda: _recorded(pause, deed))


def _recorded(call: Call, deed: Deed | None) -> Action[bool]:
    """One statement, and the deed that it is if it changed anything."""
    if not (yield call):
        return False
    yield from append([deed])
    return True


def _let_go(row: Row, now: Instant) -> Action[None]:
    """Who need not wait for somebody any more is ready; with limits to pass it goes through a timer that is due, as after every wait."""
    header = one((yield Call("gates_of_step", {"id": row["id"]})))
    if header["gates"] is None:
        yield Call("make_ready", dict(row))
    else:
        yield Call("make_timer", dict(row) | {"due_at": now, "gated": True, "shard": shard_of(as_uuid(header["job_id"]))})


def _stand(steps: Sequence[NewStep], now: Instant, look_at: Instant, opening: set[UUID]) -> Action[None]:
    """Where new steps stand that are not ready."""
    plain = [step for step in steps if step.waits is None and step.skipped is None and step.ended is None and step.width is None]
    yield Many("make_timer", [standing_of(step) for step in plain if step.execution.due_at > now])
    gated = [step for step in plain if step.execution.gates and step.execution.due_at <= now]
    for tenant in {step.execution.tenant for step in steps if step.execution.gates}:
        yield from make_gates({gate for step in steps if step.execution.tenant == tenant for gate in step.execution.gates}, tenant)
    yield from queue_at_gates([standing_of(step) for step in gated])
    opening |= {step.execution.gates[0].id for step in gated}
    waiting = [step for step in steps if step.waits is not None]
    yield Many("add_blocked", [standing_of(step) | {"reason": step.waits} for step in waiting])
    yield Many("add_flow_wait", [_waiting(step) for step in waiting])
    skipped = [step for step in steps if step.skipped is not None]
    yield Many("skip_step", [{"id": step.execution.id, "now": now, "error": encode({"reason": step.skipped})} for step in skipped])
    ended = [(step, step.ended) for step in steps if step.ended is not None]
    yield Many("add_outcome", [_outcome(step.execution.id, state, now, result, error) for step, (state, result, error) in ended])
    for step in steps:
        if step.width is not None:
            flow = {"run": step.execution.id, "tenant": step.execution.tenant, "job_version": step.flow_version}
            yield Call("add_flow", flow | {"width": step.width, "depth": step.depth, "now": now, "look_at": look_at})


def is_ready(step: NewStep, now: Instant) -> bool:
    """Whether a worker may take it as soon as it is there."""
    stands_elsewhere = step.waits is not None or step.skipped is not None or step.ended is not None or step.width is not None
    return not stands_elsewhere and step.execution.due_at <= now and not step.execution.gates


def header_of(step: NewStep, now: Instant) -> dict[str, Any]:
    """A header, as SQLite takes it."""
    one = step.execution
    return {
        "id": one.id,
        "job_id": one.job_id,
        "job_version": one.job_version,
        "tenant": one.tenant,
        "route": one.route,
        "due_at": one.due_at,
        "rank": one.rank,
        "now": now,
        "payload": one.payload,
        "gates": [gate.id for gate in one.gates] or None,
        "run": step.run,
        "step": step.place,
        "nth": step.nth,
    }


def standing_of(step: NewStep) -> dict[str, Any]:
    """Its first row in `ready`, `timers` or `blocked`."""
    one = step.execution
    return {
        "id": one.id,
        "route": one.route,
        "tenant": one.tenant,
        "rank": one.rank,
        "attempt": 1,
        "failures": 0,
        "shard": one.shard,
        "due_at": one.due_at,
        "gated": bool(one.gates),
        "gates": [gate.id for gate in one.gates],
    }


def _waiting(step: NewStep) -> dict[str, Any]:
    who = {"id": step.execution.id, "run": step.run, "tenant": step.execution.tenant}
    return who | {"reason": step.waits, "name": step.name, "until": step.until}


def _outcome(id: ExecutionId, state: State, now: Instant, result: str | None = None, error: str | None = None) -> dict[str, Any]:
    """An end that no worker wrote."""
    ended = {"id": id, "state": state, "attempt": 0, "lease": None, "worker": None, "started_at": None}
    return ended | {"finished_at": now, "result": result, "error": error}


def _flow(row: Row) -> Flow:
    return Flow(
        as_uuid(row["run"]),
        row["tenant"],
        row["job_version"],
        row["width"],
        row["depth"],
        row["paused_at"] is not None,
        row["cancelled"] is not None,
    )


def _wait(row: Row) -> Wait:
    return Wait(as_uuid(row["id"]), as_uuid(row["run"]), row["tenant"], row["reason"], row["name"], row["until"])


def _maybe(value: Any) -> UUID | None:
    return None if value is None else as_uuid(value)


def columns_of(steps: Iterable[NewStep]) -> Mapping[str, list[Any]]:
    """Headers as columns, for an engine that writes them in one statement."""
    found = list(steps)
    made = [step.execution for step in found]
    return {
        "ids": [one.id for one in made],
        "job_ids": [one.job_id for one in made],
        "job_versions": [one.job_version for one in made],
        "tenants": [one.tenant for one in made],
        "routes": [one.route for one in made],
        "due_ats": [one.due_at for one in made],
        "ranks": [one.rank for one in made],
        "payloads": [one.payload for one in made],
        "gates": [",".join(str(gate.id) for gate in one.gates) for one in made],
        "runs": [step.run for step in found],
        "steps": [step.place for step in found],
        "nths": [step.nth for step in found],
    }
