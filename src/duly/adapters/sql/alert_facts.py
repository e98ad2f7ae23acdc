"""What rules are judged by, on both engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from duly.adapters.sql.engine import Action, Call, Engine, one
from duly.adapters.sql.rows import NEVER, as_uuid
from duly.domain.alerts.facts import PoolFacts, Run, Watched, WorkerFacts
from duly.domain.alerts.rule import Kind
from duly.domain.fire_audit import Flaw, Missed
from duly.domain.ids import ExecutionId, JobId, id_floor
from duly.domain.instants import Instant
from duly.domain.lifecycle import SkipReason, State, Trigger
from duly.ports.alerts import Glimpse
from duly.ports.store import WorkerAbout

MOST_DEATHS = 2000
# So many failures in a row are looked through for the last success.
MOST_PASSED_OVER = 100_000
# Where a rule about all jobs begins to look.
_BEGINNINGS: dict[Kind, tuple[str, ...]] = {
    Kind.FINAL_FAILURE: ("jobs_that_died",),
    Kind.FAILURES: ("jobs_that_died",),
    Kind.FAILURE_RATE: ("jobs_that_died",),
    Kind.LATE: ("jobs_that_wait", "jobs_that_are_blocked", "jobs_that_run_late", "jobs_that_began_late"),
    Kind.MISSED: ("jobs_that_wait", "jobs_that_are_blocked", "jobs_that_misfired"),
    Kind.OVERRUN: ("jobs_that_run",),
}

_about = msgspec.json.Decoder(WorkerAbout)


class SqlAlertFacts:
    """The facts' part of the port."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def jobs_named(self, tenant: int, names: Sequence[str], now: Instant) -> list[Watched]:
        def action() -> Action[list[Watched]]:
            if self._engine.name == "postgres":
                return [_watched(row) for row in (yield Call("watched_names", {"tenant": tenant, "names": list(names), "now": now}))]
            found: list[Watched] = []
            for name in names:
                found += [_watched(row) for row in (yield Call("watched_named", {"tenant": tenant, "name": name, "now": now}))]
            return found

        return await self._engine.read(action) if names else []

    async def candidates(self, tenant: int, kind: Kind, since: Instant, due_before: Instant, now: Instant, limit: int) -> list[Watched]:
        params = {
            "since": since,
            "due_before": due_before,
            "late_by": now - due_before,
            "first": id_floor(since),
            "before": id_floor(due_before),
        }

        def action() -> Action[list[Watched]]:
            ids: dict[JobId, None] = {}
            for name in _BEGINNINGS.get(kind, ()):
                wanted = {key: value for key, value in params.items() if key in _PARAMETERS[name]}
                ids |= dict.fromkeys(as_uuid(row["job_id"]) for row in (yield Call(name, {"tenant": tenant, "quota": limit, **wanted})))
            return (yield from self._watched(tenant, list(ids)[:limit], now))

        return await self._engine.read(action)

    async def newest_jobs(self, tenant: int, now: Instant, limit: int) -> list[Watched]:
        def action() -> Action[list[Watched]]:
            rows = yield Call("newest_jobs", {"tenant": tenant, "quota": limit})
            return (yield from self._watched(tenant, [as_uuid(row["id"]) for row in rows], now))

        return await self._engine.read(action)

    async def watched(self, tenant: int, ids: Sequence[JobId], now: Instant) -> list[Watched]:
        return await self._engine.read(lambda: self._watched(tenant, ids, now)) if ids else []

    def _watched(self, tenant: int, ids: Sequence[JobId], now: Instant) -> Action[list[Watched]]:
        if self._engine.name == "postgres":
            return [_watched(row) for row in (yield Call("watched_ids", {"tenant": tenant, "ids": list(ids), "now": now}))]
        found: list[Watched] = []
        for id in ids:
            found += [_watched(row) for row in (yield Call("watched", {"tenant": tenant, "id": id, "now": now}))]
        return found

    async def runs(self, tenant: int, jobs: Sequence[JobId], since: ExecutionId, per_job: int) -> dict[JobId, list[Run]]:
        wanted = {"tenant": tenant, "first": since, "quota": per_job}

        def action() -> Action[dict[JobId, list[Run]]]:
            found: dict[JobId, list[Run]] = {job_id: [] for job_id in jobs}
            if self._engine.name == "postgres":
                for run in map(_run, (yield Call("runs_of_jobs", {**wanted, "ids": list(jobs)}))):
                    found[run.job_id].append(run)
                return found
            for job_id in jobs:
                found[job_id] = [_run(row) for row in (yield Call("runs_of_job", {**wanted, "job_id": job_id}))]
            return found

        return await self._engine.read(action) if jobs else {}

    async def runs_around(self, tenant: int, job: JobId, run: ExecutionId, since: ExecutionId, per_side: int) -> list[Run]:
        wanted = {"tenant": tenant, "job_id": job, "quota": per_side}

        def action() -> Action[list[Run]]:
            later = yield Call("runs_from", {**wanted, "first": run})
            earlier = yield Call("runs_before", {**wanted, "first": since, "before": run})
            return [_run(row) for row in (*later, *earlier)]

        return await self._engine.read(action)

    async def successes(self, tenant: int, jobs: Sequence[JobId], since: ExecutionId) -> dict[JobId, Instant | None]:
        wanted = {"tenant": tenant, "first": since, "quota": MOST_PASSED_OVER}

        def action() -> Action[dict[JobId, Instant | None]]:
            found: dict[JobId, Instant | None] = {}
            for job_id in jobs:
                found[job_id] = one((yield Call("last_success", {**wanted, "job_id": job_id})))["at"]
            return found

        return await self._engine.read(action)

    async def deaths(self, tenant: int, since: Instant) -> dict[JobId, list[Run]]:
        found: dict[JobId, list[Run]] = {}
        rows = await self._engine.fetch("deaths_of_tenant", {"tenant": tenant, "since": since, "quota": MOST_DEATHS})
        for run in map(_run, rows):
            found.setdefault(run.job_id, []).append(run)
        return found

    async def missed(self, tenant: int, limit: int) -> list[Missed]:
        params = {"tenant": tenant, "at": NEVER, "before": _LAST, "job_id": None, "open_only": True, "quota": limit}
        return [
            Missed(as_uuid(row["job_id"]), row["at"], row["tenant"], Flaw(row["kind"]), row["found_at"], None, row["job_name"])
            for row in await self._engine.fetch("missed_of_tenant", params)
        ]

    async def letters(self, tenant: int, since: Instant) -> int:
        return int(one(await self._engine.fetch("letters_since", {"tenant": tenant, "since": since}))["n"])

    async def workers(self, tenant: int, since: Instant, now: Instant) -> list[WorkerFacts]:
        rows = await self._engine.fetch("workers_watched", {"tenant": tenant, "since": since, "now": now})
        return [
            WorkerFacts(row["name"], _about.decode(row["about"]).pool, row["started_at"], row["lost_at"], bool(row["has_retired"]))
            for row in rows
        ]

    async def pools(self, tenant: int, now: Instant) -> list[PoolFacts]:
        rows = await self._engine.fetch("pools_waiting", {"tenant": tenant})
        slots: dict[str, int] = {}
        workers: dict[str, int] = {}
        for row in await self._engine.fetch("workers_watched", {"tenant": tenant, "since": now, "now": now}):
            about = _about.decode(row["about"])
            if row["lost_at"] is None and not row["has_retired"]:
                slots[about.pool] = slots.get(about.pool, 0) + about.slots
                workers[about.pool] = workers.get(about.pool, 0) + 1
        found: list[PoolFacts] = []
        for pool in sorted({row["pool"] for row in rows} | slots.keys()):
            own = [row for row in rows if row["pool"] == pool]
            oldest = min((row["oldest"] for row in own if row["oldest"] is not None), default=None)
            waiting = sum(row["waiting"] for row in own)
            found.append(PoolFacts(pool, waiting, oldest, slots.get(pool, 0), workers.get(pool, 0)))
        return found

    async def glimpse(self, now: Instant) -> Glimpse:
        row = one(await self._engine.fetch("work_lag", {"now": now}))
        oldest = min((row[name] for name in ("fires", "timers") if row[name] is not None), default=now)
        return Glimpse(max(now - oldest, 0), row["dispatchers"])


_LAST = ExecutionId(int=(1 << 128) - 1)
_PARAMETERS = {
    "jobs_that_died": {"since"},
    "jobs_that_wait": {"due_before", "before"},
    "jobs_that_are_blocked": {"due_before"},
    "jobs_that_began_late": {"first", "late_by"},
    "jobs_that_misfired": {"first"},
    "jobs_that_run": {"due_before"},
    "jobs_that_run_late": {"late_by"},
}


def _watched(row: Any) -> Watched:
    return Watched(
        id=as_uuid(row["id"]),
        name=row["name"],
        pool=row["pool"],
        created_at=row["created_at"],
        is_stopped=bool(row["is_stopped"]),
        resumed_at=row["resumed_at"],
    )


def _run(row: Any) -> Run:
    return Run(
        id=as_uuid(row["id"]),
        job_id=as_uuid(row["job_id"]),
        due_at=row["due_at"],
        state=State(row["state"]),
        trigger=Trigger(row["trigger"]),
        started_at=row["started_at"],
        running_since=row["running_since"],
        finished_at=row["finished_at"],
        skip=None if row["skip_reason"] is None else SkipReason(row["skip_reason"]),
        error=row["error"],
    )
