"""What the auditor reads and keeps, on both engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from duly.adapters.sql.engine import Action, Call, Engine, Many, one
from duly.adapters.sql.rows import NEVER, as_uuid, encode, readable_version_of
from duly.domain.fire_audit import Flaw, Life, Missed, Pause
from duly.domain.homes import Standing
from duly.domain.ids import JobId, fire_id
from duly.domain.instants import Instant, Micros
from duly.domain.job import JobVersion
from duly.ports.fire_audit import Found, MissedFilter, Round

WATCH = "auditor"
FIRST = UUID(int=0)
LAST = UUID(int=(1 << 128) - 1)

_round = msgspec.json.Decoder(Round)


class SqlFireAudit:
    """The port on an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def take(self, auditor: str, now: Instant, ttl: Micros) -> Round | None:
        row = one(await self._engine.fetch("take_watch", {"name": WATCH, "owner": auditor, "now": now, "until": now + ttl}))
        if row is None:
            return None
        return _round.decode(row["reached"]) if row["reached"] else Round()

    async def lives(self, after: JobId | None, first: Instant, limit: int) -> tuple[list[Life], JobId | None]:
        def action() -> Action[tuple[list[Life], JobId | None]]:
            since = after or FIRST
            jobs = yield Call("audited_jobs", {"after": since, "quota": limit})
            if not jobs:
                return [], None
            span = {"after": since, "last": jobs[-1]["id"], "first": first}
            versions: dict[UUID, list[JobVersion]] = {}
            for row in (yield Call("audited_versions", span)):
                version = readable_version_of(row)
                if version is not None:
                    versions.setdefault(version.job_id, []).append(version)
            pauses: dict[UUID, list[Pause]] = {}
            for row in (yield Call("audited_pauses", span)):
                pauses.setdefault(as_uuid(row["job_id"]), []).append(Pause(row["since"], row["until"]))
            lives = [
                Life(id, row["tenant"], row["created_at"], versions[id], pauses.get(id, ()))
                for row in jobs
                if (id := as_uuid(row["id"])) in versions and row["standing"] == Standing.HERE
            ]
            return lives, as_uuid(jobs[-1]["id"]) if len(jobs) == limit else None

        return await self._engine.read(action)

    async def flaws(self, fires: Sequence[tuple[JobId, Instant]]) -> dict[tuple[JobId, Instant], Flaw]:
        wanted = {fire_id(*fire): fire for fire in fires}

        def action() -> Action[dict[tuple[JobId, Instant], Flaw]]:
            recorded = yield from self._recorded(wanted)
            found = {fire: Flaw.MISSING for id, fire in wanted.items() if id not in recorded}
            for id, has_ended in recorded.items():
                if not has_ended and (yield Call("fire_standing", {"id": id})):
                    found[wanted[id]] = Flaw.NOWHERE
            return found

        return await self._engine.read(action)

    def _recorded(self, wanted: Iterable[UUID]) -> Action[dict[UUID, bool]]:
        """Those that are on record, and whether they have ended."""
        if self._engine.name == "postgres":
            return {row["id"]: row["has_ended"] for row in (yield Call("fire_records", {"ids": list(wanted)}))}
        found: dict[UUID, bool] = {}
        for id in wanted:
            if (yield Call("fire_record", {"id": id})):
                found[id] = bool((yield Call("fire_outcome", {"id": id})))
        return found

    async def found(self, auditor: str, round: Round, found: Found, now: Instant) -> bool:
        def action() -> Action[bool]:
            if not (yield Call("reach", {"name": WATCH, "owner": auditor, "reached": encode(round)})):
                return False
            if found.missed:
                yield Many("add_missed", [_keys(item) | {"tenant": item.tenant, "kind": item.flaw, "now": now} for item in found.missed])
            if found.resolved:
                yield Many("resolve_missed", [{"job_id": job_id, "at": at, "now": now} for job_id, at in found.resolved])
            return True

        return await self._engine.run(action)

    async def open_ones(self, limit: int) -> list[Missed]:
        return [_missed(row) for row in await self._engine.fetch("open_missed", {"quota": limit})]

    async def forget(self, before: Instant) -> int:
        def action() -> Action[int]:
            yield Call("forget_missed", {"before": before})
            yield Call("forget_pauses", {"before": before})
            return 0

        return await self._engine.run(action)

    async def missed(self, wanted: MissedFilter) -> list[Missed]:
        at, before = wanted.before or (NEVER, LAST)
        found = await self._engine.fetch(
            "missed_of_tenant",
            {
                "tenant": wanted.tenant,
                "at": at,
                "before": before,
                "job_id": wanted.job_id,
                "open_only": wanted.open_only,
                "quota": wanted.limit,
            },
        )
        return [_missed(row) for row in found]

    async def standing(self, tenant: int) -> tuple[Round | None, int]:
        row = one(await self._engine.fetch("watch_reached", {"name": WATCH}))
        count = one(await self._engine.fetch("missed_count", {"tenant": tenant}))
        return None if row is None or not row["reached"] else _round.decode(row["reached"]), int(count["n"])


def _keys(item: Missed) -> dict[str, Any]:
    return {"job_id": item.job_id, "at": item.at}


def _missed(row: Mapping[str, Any]) -> Missed:
    return Missed(
        as_uuid(row["job_id"]), row["at"], row["tenant"], Flaw(row["kind"]), row["found_at"], row["resolved_at"], row["job_name"] or ""
    )
