"""Sketches of durations on both engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from duly.adapters.sql.engine import Action, Call, Engine, Many, one
from duly.adapters.sql.rows import as_uuid, encode
from duly.domain.expected import Ended, Expected, Sketch
from duly.domain.ids import JobId
from duly.domain.instants import Instant

_decoder = msgspec.json.Decoder(Sketch)


class SqlFigures:
    """The port on an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def counted_to(self, nth: int) -> UUID | None:
        row = one(await self._engine.fetch("watch_reached", {"name": _name(nth)}))
        return None if row is None else UUID(row["reached"])

    async def ends(self, after: UUID, until: UUID, ended_after: Instant, limit: int) -> tuple[list[Ended], UUID | None]:
        def action() -> Action[tuple[list[Ended], UUID | None]]:
            span = {"after": after, "until": until, "quota": limit}
            last = one((yield Call("ends_last", span)))
            rows = yield Call("ends_counted", span | {"ended_after": ended_after})
            found = [
                Ended(as_uuid(row["id"]), as_uuid(row["job_id"]), row["tenant"], row["started_at"], row["finished_at"]) for row in rows
            ]
            return found, None if last is None else as_uuid(last["id"])

        return await self._engine.read(action)

    async def count(self, nth: int, seen: UUID | None, reached: UUID, counted: Mapping[JobId, tuple[int, Sketch]], now: Instant) -> bool:
        def action() -> Action[bool]:
            if seen is None:
                moved = yield Call("begin_pass", {"name": _name(nth), "reached": reached.hex})
            else:
                moved = yield Call("move_pass", {"name": _name(nth), "reached": reached.hex, "seen": seen.hex})
            if not moved:
                return False
            known = yield from self._sketches("figures", {}, sorted(counted))
            rows: list[dict[str, Any]] = []
            for job_id, (tenant, sketch) in sorted(counted.items()):
                whole = known.get(job_id, Sketch())
                whole.merge(sketch)
                rows.append({"job_id": job_id, "tenant": tenant, "sketch": encode(whole), "now": now})
            if rows:
                yield Many("set_figures", rows)
            return True

        return await self._engine.run(action)

    async def expected(self, tenant: int, jobs: Sequence[JobId]) -> dict[JobId, Expected]:
        if not jobs:
            return {}
        found = await self._engine.read(lambda: self._sketches("expected", {"tenant": tenant}, jobs))
        return {job_id: expected for job_id, sketch in found.items() if (expected := sketch.expected()) is not None}

    def _sketches(self, name: str, more: Mapping[str, Any], jobs: Sequence[JobId]) -> Action[dict[JobId, Sketch]]:
        """By job: one question on PostgreSQL, a look at a key each on SQLite."""
        if self._engine.name == "postgres":
            rows = yield Call(f"{name}_of", {**more, "ids": list(jobs)})
            return {row["job_id"]: _decoder.decode(row["sketch"]) for row in rows}
        found: dict[JobId, Sketch] = {}
        for job_id in jobs:
            row = one((yield Call(name, {**more, "job_id": job_id})))
            if row is not None:
                found[job_id] = _decoder.decode(row["sketch"])
        return found


def _name(nth: int) -> str:
    return f"survey-{nth}"
