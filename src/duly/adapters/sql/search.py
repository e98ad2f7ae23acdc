"""Looking for executions: ids from the smallest table that has them all, then one probe of each key for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from duly.adapters.sql.engine import Action, Call, Engine, Lane
from duly.adapters.sql.listing import LAST_ID
from duly.adapters.sql.rows import as_uuid, encode, execution_of
from duly.domain.execution import Execution
from duly.domain.history import Change
from duly.domain.ids import ExecutionId, JobId, instant_of
from duly.domain.instants import MINUTE, Instant
from duly.domain.lifecycle import State, Trigger
from duly.ports.search import MOST_AT_ONCE, Ended, ExecutionSearch, Lately, Step

# Payloads are read whole and may be large: fewer of them are looked at in one step.
CHUNK_OF_PAYLOADS = 200
# A tenant with few jobs is read along their histories, so that nobody else's are in the way.
FEW_JOBS = 32
# The live one, and those of the same name that are cancelled: their history stays.
SAME_NAME = 100

_LIVE = {State.SCHEDULED: "ids_scheduled", State.BLOCKED: "ids_blocked", State.PENDING: "ids_pending", State.RUNNING: "ids_running"}
_UNUSUAL = (State.DEAD, State.CANCELLED, State.SKIPPED)


class SqlSearch:
    """The port of those who look for executions."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def step(self, wanted: ExecutionSearch, before: ExecutionId | None, limit: int, looked_at: int = MOST_AT_ONCE) -> Step:
        chunk = min(looked_at, CHUNK_OF_PAYLOADS if wanted.payload else MOST_AT_ONCE)

        def action() -> Action[tuple[list[ExecutionId], list[int] | None, list[UUID] | None]]:
            routes: list[int] | None = None
            if wanted.pool is not None or wanted.handler is not None:
                routes = [row["route"] for row in (yield Call("routes", {})) if _serves(row, wanted)]
            jobs: list[UUID] | None = None
            if wanted.job_name is not None:
                jobs = [
                    as_uuid(row["id"])
                    for row in (
                        yield Call(
                            "job_ids_of_name", {"tenant": wanted.tenant, "name": wanted.job_name, "before": LAST_ID, "quota": SAME_NAME}
                        )
                    )
                ]
            if wanted.job_id is not None:
                jobs = [wanted.job_id] if jobs is None or wanted.job_id in jobs else []
            if routes == [] or jobs == []:
                return [], routes, jobs
            return (yield from _ids(wanted, jobs, before or LAST_ID, chunk)), routes, jobs

        # How to find ids depends on whose they are; how to read them does not. What moves on in between is read as it stands then.
        ids, routes, jobs = await self._engine.read(action)
        rows = await self._engine.fetch("sifted", self._params(wanted, ids, routes, jobs, limit), Lane.KEYED) if ids else ()
        return Step([execution_of(row) for row in rows], ids[-1] if len(ids) == chunk else None)

    async def lately(self, tenant: int, since: Instant, most: int) -> Lately:
        def action() -> Action[Lately]:
            ids = yield from _ids(ExecutionSearch(tenant=tenant), None, LAST_ID, most)
            is_cut = len(ids) == most
            reached = max(since, instant_of(ids[-1])) if is_cut else since
            recent = [id for id in ids if instant_of(id) >= reached]
            rows = (yield Call("ends_of", {"tenant": tenant, "ids": recent})) if recent else ()
            ended: dict[State, int] = {}
            for row in rows:
                if row["state"] is not None:
                    ended[State(row["state"])] = ended.get(State(row["state"]), 0) + int(row["n"])
            fires = sum(int(row["n"]) for row in rows if row["trigger"] == Trigger.SCHEDULE)
            return Lately(reached, sum(int(row["n"]) for row in rows), fires, ended)

        return await self._engine.read(action)

    async def ended(self, tenant: int, since: Instant, most: int) -> tuple[Instant, list[Ended]]:
        def action() -> Action[tuple[Instant, list[Ended]]]:
            ids = yield from _ids(ExecutionSearch(tenant=tenant), None, LAST_ID, most)
            reached = max(since, instant_of(ids[-1])) if len(ids) == most else since
            recent = [id for id in ids if instant_of(id) >= reached]
            rows = (yield Call("ended_of", {"tenant": tenant, "ids": recent})) if recent else ()
            return reached, [
                Ended(row["due_at"], row["started_at"], row["finished_at"], State(row["state"]), row["attempt"] == 1) for row in rows
            ]

        return await self._engine.read(action)

    async def changes(self, tenant: int, since: Instant, most: int) -> list[Change]:
        rows = await self._engine.fetch("changes_since", {"tenant": tenant, "since": since, "quota": most})
        return [
            Change(row["minute"] * MINUTE, row["action"], int(row["jobs"]), as_uuid(row["job_id"]), row["name"]) for row in reversed(rows)
        ]

    async def version_numbers(self, tenant: int, job_id: JobId, limit: int) -> list[int]:
        rows = await self._engine.fetch("version_numbers", {"tenant": tenant, "job_id": job_id, "quota": limit})
        return [row["id"] for row in rows]

    async def newest(self, tenant: int, limit: int, running: int) -> tuple[list[ExecutionId], list[ExecutionId]]:
        def action() -> Action[tuple[list[ExecutionId], list[ExecutionId]]]:
            newest = yield from _ids(ExecutionSearch(tenant=tenant), None, LAST_ID, limit)
            live = yield from _ids(ExecutionSearch(tenant=tenant, state=State.RUNNING), None, LAST_ID, running)
            return newest, live

        return await self._engine.read(action)

    async def newest_of(self, tenant: int, jobs: Sequence[tuple[JobId, int]]) -> list[list[ExecutionId]]:
        def action() -> Action[list[list[ExecutionId]]]:
            if self._engine.name == "postgres":
                params = {"tenant": tenant, "jobs": [job_id for job_id, _ in jobs], "quota": max(limit for _, limit in jobs)}
                of: list[list[ExecutionId]] = [[] for _ in jobs]
                for row in (yield Call("newest_of_jobs", params)):
                    of[row["nth"] - 1].append(row["id"])
                return [ids[:limit] for ids, (_, limit) in zip(of, jobs, strict=True)]
            found = []
            for job_id, limit in jobs:
                found.append(_read((yield Call("ids_of_job", {"tenant": tenant, "before": LAST_ID, "quota": limit, "job_id": job_id}))))
            return found

        return await self._engine.read(action, Lane.KEYED)

    async def by_ids(self, tenant: int, ids: list[ExecutionId]) -> list[Execution]:
        if not ids:
            return []
        wanted = ExecutionSearch(tenant=tenant)
        rows = await self._engine.fetch("sifted", self._params(wanted, ids, None, None, len(ids)), Lane.KEYED)
        return [execution_of(row) for row in rows]

    def _params(
        self, wanted: ExecutionSearch, ids: list[ExecutionId], routes: list[int] | None, jobs: list[UUID] | None, limit: int
    ) -> dict[str, Any]:
        found: dict[str, Any] = {
            "tenant": wanted.tenant,
            "ids": ids,
            "state": wanted.state,
            "trigger": wanted.trigger,
            "since": wanted.since,
            "until": wanted.until,
            "last_outcome": wanted.last_outcome,
            "batch": wanted.batch,
            "worker": wanted.worker,
            "quota": limit,
        }
        if self._engine.name == "postgres":
            paths = [".".join(match.path) for match in wanted.payload]
            values = [match.value for match in wanted.payload]
            return found | {"routes": routes, "jobs": jobs, "paths": paths or None, "values": values or None}
        matches = [{"path": "$" + "".join(f'."{key}"' for key in match.path), "value": match.value} for match in wanted.payload]
        return found | {
            "routes": None if routes is None else encode(routes),
            "jobs": None if jobs is None else encode([id.hex.upper() for id in jobs]),
            "matches": encode(matches) if matches else None,
        }


def _serves(route: Any, wanted: ExecutionSearch) -> bool:
    return (wanted.pool is None or route["pool"] == wanted.pool) and (wanted.handler is None or route["handler"] == wanted.handler)


def _ids(wanted: ExecutionSearch, jobs: list[UUID] | None, before: UUID, chunk: int) -> Action[list[ExecutionId]]:
    """The next ids that may be meant, newest first. Fewer than `chunk`: they are the last."""
    params: dict[str, Any] = {"tenant": wanted.tenant, "before": before, "quota": chunk}
    if wanted.batch is not None:
        return _read((yield Call("ids_of_batch", params | {"batch": wanted.batch})))
    if wanted.state in _LIVE:
        return _read((yield Call(_LIVE[wanted.state], params)))
    if jobs is None and wanted.state in _UNUSUAL:
        return _read((yield Call("ids_unusual", params | {"state": wanted.state})))
    if jobs is None:
        known = yield Call("some_jobs_of_tenant", {"tenant": wanted.tenant, "quota": FEW_JOBS + 1})
        if len(known) > FEW_JOBS:
            return _read((yield Call("ids_of_all", params)))
        jobs = [as_uuid(row["id"]) for row in known]
    found: list[ExecutionId] = []
    for job_id in jobs:
        found += _read((yield Call("ids_of_job", params | {"job_id": job_id})))
    return sorted(found, key=lambda id: id.int, reverse=True)[:chunk]


def _read(rows: Any) -> list[ExecutionId]:
    return [as_uuid(row["id"]) for row in rows]
