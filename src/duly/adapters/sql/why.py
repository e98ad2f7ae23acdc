"""Gathers the facts that explain where an execution stands: small reads in one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from duly.adapters.sql.engine import Action, Call, Engine, Lane, one
from duly.adapters.sql.rows import NEVER, as_uuid, attempt_of, execution_of, version_of, worker_of
from duly.domain.execution import Attempt, Execution
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import HOUR, MINUTE, Instant
from duly.domain.lifecycle import JobState, Outcome, SkipReason, State
from duly.domain.serving import Needs
from duly.domain.shards import shard_of
from duly.domain.why.facts import (
    COUNTED_TO,
    AwaitedFacts,
    ExecutionFacts,
    FireFacts,
    FlowFacts,
    GateFacts,
    HeldFacts,
    JobFacts,
    LineFacts,
    OtherRun,
    Overseer,
    QueueFacts,
    Settlement,
    Wish,
    WorkerFacts,
)

# How far back a rate is looked for, and among how many ends.
from duly.ports.flows import BY_APPROVAL

RECENT = 10 * MINUTE
RECENT_ENDS = 1000
LOOK_BACK = 1000
FEW_HOLDERS = 5
SHOWN_STEPS = 20

_json = msgspec.json.Decoder()


class SqlFacts:
    """The port of those who ask why."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def of_execution(self, tenant: int, id: ExecutionId, now: Instant) -> ExecutionFacts | None:
        facts = await self._engine.read(lambda: _of_execution(tenant, id, now), Lane.KEYED)
        if facts is None or facts.execution.skip not in (SkipReason.MISFIRE, SkipReason.OVERLAP):
            return facts
        # What was before it does not change any more, and is looked for among the runs of its job.
        return await self._engine.read(lambda: _then(facts))

    async def of_job(self, tenant: int, id: JobId) -> JobFacts | None:
        return await self._engine.read(lambda: _job(tenant, id))

    async def of_fire(self, tenant: int, id: JobId, at: Instant, now: Instant, kept_since: Instant) -> FireFacts | None:
        def action() -> Action[FireFacts | None]:
            job = yield from _job(tenant, id)
            if job is None:
                return None
            row = one((yield Call("version_then", {"job_id": id, "at": at})))
            return FireFacts(now, at, job, None if row is None else version_of(row), kept_since)

        return await self._engine.read(action)

    async def names(self, keys: Sequence[str]) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for key in keys:
            row = one(await self._engine.fetch("key_name", {"id": key}))
            if row is not None and row["name"]:
                found[key] = row["name"]
        return found


def _of_execution(tenant: int, id: ExecutionId, now: Instant) -> Action[ExecutionFacts | None]:
    row = one((yield Call("execution", {"tenant": tenant, "id": id})))
    if row is None:
        return None
    execution = execution_of(row)
    header = one((yield Call("why_header", {"id": id})))
    job = yield from _job(tenant, execution.job_id)
    if job is None:
        return None
    attempts = [attempt_of(row) for row in (yield Call("attempts", {"id": id}))]
    state = execution.state
    return ExecutionFacts(
        now=now,
        execution=execution,
        attempts=attempts,
        job=job,
        version=version_of(one((yield Call("versions", {"numbers": str(execution.job_version), "following": 0})))),
        needs=Needs(header["pool"], header["labels"], header["handler"]),
        workers=(yield from _workers(now)) if state in (State.PENDING, State.RUNNING) else [],
        queue=(yield from _queue(execution, header, attempts, now)) if state is State.PENDING else None,
        line=(yield from _line(execution)) if state is State.BLOCKED else None,
        gates=(yield from _gates(id)) if state is State.BLOCKED else [],
        held=(yield from _held(id)) if state is State.BLOCKED else None,
        flow=(yield from _flow(id)) if state is State.RUNNING and execution.worker is None else None,
        wish=(yield from _wish(id)),
        settlement=(yield from _settlement(id)) if state is State.DEAD else None,
        outage_from=None,
        live_then=None,
    )


def _then(facts: ExecutionFacts) -> Action[ExecutionFacts]:
    if facts.execution.skip is SkipReason.MISFIRE:
        return replace(facts, outage_from=(yield from _outage(facts.execution)))
    return replace(facts, live_then=(yield from _live_then(facts.execution)))


def _job(tenant: int, id: JobId) -> Action[JobFacts | None]:
    row = one((yield Call("why_job", {"tenant": tenant, "id": id})))
    if row is None:
        return None
    waits = row["next_fire_at"] is not None and row["next_fire_at"] < NEVER and not row["schedule_is_paused"]
    shard: Any = row if row["shard"] is not None else one((yield Call("shard", {"shard": shard_of(id)})))
    return JobFacts(
        id=id,
        name=row["name"],
        state=JobState(row["state"]),
        created_at=row["created_at"],
        version=version_of(row),
        next_fire_at=row["next_fire_at"] if waits else None,
        paused_at=row["paused_at"],
        paused_until=row["paused_until"],
        paused_by=row["paused_by"],
        pause_reason=row["pause_reason"],
        skip_at=row["skip_at"],
        skip_by=row["skip_by"],
        overseer=Overseer(shard["shard"], shard["owner"], shard["lease_until"]),
    )


def _held(id: ExecutionId) -> Action[HeldFacts | None]:
    row = one((yield Call("wait_of_step", {"id": id})))
    return None if row is None else HeldFacts(row["reason"] == BY_APPROVAL, row["name"], row["until"])


def _flow(id: ExecutionId) -> Action[FlowFacts | None]:
    row = one((yield Call("flow", {"run": id})))
    if row is None:
        return None
    live = [as_uuid(step["id"]) for step in (yield Call("live_steps", {"run": id, "quota": SHOWN_STEPS}))]
    waits = yield Call("waits_of_flow", {"run": id})
    held = tuple(HeldFacts(wait["reason"] == BY_APPROVAL, wait["name"], wait["until"]) for wait in waits)
    return FlowFacts(tuple(live), held, row["paused_by"])


def _workers(now: Instant) -> Action[list[WorkerFacts]]:
    tenants = {row["id"]: row["tenant"] for row in (yield Call("worker_tenants", {}))}
    found: list[WorkerFacts] = []
    for row in (yield Call("workers", {"lost_since": now - HOUR, "tenant": None})):
        worker = worker_of(row)
        about = worker.about
        found.append(
            WorkerFacts(
                id=worker.id,
                name=worker.name,
                pool=about.pool,
                labels=about.labels,
                handlers=about.handlers,
                slots=about.slots,
                running=worker.running,
                started_at=worker.started_at,
                expires_at=worker.expires_at,
                lost_at=worker.lost_at,
                ttl=about.ttl,
                draining=about.draining,
                tenant=tenants.get(worker.id),
            )
        )
    return found


def _queue(execution: Execution, header: Any, attempts: Sequence[Attempt], now: Instant) -> Action[QueueFacts]:
    ended = [attempt for attempt in attempts if attempt.outcome is not Outcome.SUCCEEDED]
    retry_at = ended[-1].retry_at if ended else None
    rank = header["rank"] if retry_at is None else retry_at + header["rank"] - header["due_at"]
    key = {"route": header["route"], "tenant": execution.tenant, "rank": rank, "id": execution.id}
    ahead = one((yield Call("why_ahead", key | {"counted_to": COUNTED_TO})))["n"]
    recent = one((yield Call("why_ended", {"route": header["route"], "since": now - RECENT, "quota": RECENT_ENDS})))
    return QueueFacts(ahead, recent["n"], 0 if recent["first"] is None else now - recent["first"])


def _line(execution: Execution) -> Action[LineFacts]:
    row = one((yield Call("why_line", {"job_id": execution.job_id, "id": execution.id})))
    holder = None if row["holder"] is None else (yield from _other(as_uuid(row["holder"])))
    return LineFacts(holder, row["ahead"], row["waiting"])


def _other(id: ExecutionId) -> Action[OtherRun | None]:
    row = one((yield Call("other_run", {"id": id})))
    return None if row is None else _run_of(row)


def _run_of(row: Any) -> OtherRun:
    return OtherRun(as_uuid(row["id"]), row["due_at"], row["created_at"], State(row["state"]), row["started_at"], row["finished_at"])


def _gates(id: ExecutionId) -> Action[list[GateFacts]]:
    found: list[GateFacts] = []
    for row in (yield Call("why_gates", {"id": id})):
        holders = yield Call("why_slots", {"gate": row["gate"], "quota": FEW_HOLDERS})
        about = _json.decode(row["about"])
        awaited = one((yield Call("why_awaited", {"gate": row["gate"]}))) if row["capacity"] == 0 else None
        found.append(
            GateFacts(
                gate=as_uuid(row["gate"]),
                capacity=row["capacity"],
                lasts=row["lasts"],
                about=about if isinstance(about, dict) else {},
                taken=row["taken"],
                ahead=row["ahead"],
                holders=tuple(as_uuid(holder["id"]) for holder in holders),
                frees_at=row["frees_at"] if row["look_at"] is None else row["look_at"],
                awaited=None if awaited is None else _awaited(awaited),
            )
        )
    return found


def _awaited(row: Mapping[str, Any]) -> AwaitedFacts:
    state = None if row["state"] is None else JobState(row["state"])
    return AwaitedFacts(row["job"], state, row["deadline"], bool(row["runs"]))


def _wish(id: ExecutionId) -> Action[Wish | None]:
    row = one((yield Call("why_wish", {"id": id})))
    return None if row is None else Wish(row["asked_at"], row["asked_by"], row["kill_at"])


def _settlement(id: ExecutionId) -> Action[Settlement | None]:
    row = one((yield Call("why_settled", {"id": id})))
    if row is None:
        return None
    return Settlement(row["settled_at"], row["settled_by"], None if row["replay"] is None else as_uuid(row["replay"]))


def _outage(execution: Execution) -> Action[Instant]:
    """When the row of misfires that this one belongs to began."""
    began = execution.due_at
    for row in (yield Call("fires_before", {"job_id": execution.job_id, "id": execution.id, "quota": LOOK_BACK})):
        if row["skip_reason"] != SkipReason.MISFIRE:
            break
        began = row["due_at"]
    return began


def _live_then(execution: Execution) -> Action[OtherRun | None]:
    params = {"job_id": execution.job_id, "id": execution.id, "at": execution.created_at, "quota": LOOK_BACK}
    row = one((yield Call("live_then", params)))
    if row is None:
        return None
    # An execution that has not ended stands where its state says, which the history alone does not know.
    return (yield from _other(as_uuid(row["id"]))) if row["finished_at"] is None else _run_of(row)
