"""The run grid on both engines: one question on PostgreSQL, a look at a key each on SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duly.adapters.sql.engine import Action, Call, Engine, Lane, one
from duly.adapters.sql.listing import LAST_ID
from duly.adapters.sql.rows import as_uuid
from duly.domain.grid import Run, Tries
from duly.domain.ids import ExecutionId, JobId, id_floor, instant_of
from duly.domain.lifecycle import State

_MILLISECOND = 1000
# The character of the first place.
_FIRST = 256
# What has not ended.
_LIVE = "9"


class SqlGrids:
    """The port on an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_postgres = engine.name == "postgres"

    async def runs(self, tenant: int, job: JobId, limit: int, before: ExecutionId | None = None) -> list[Run]:
        params = {"tenant": tenant, "job_id": job, "before": before or LAST_ID, "quota": limit}

        def action() -> Action[list[Run]]:
            found: list[Run] = []
            for row in (yield Call("grid_runs", params)):
                standing: Mapping[str, Any] = row
                if row["state"] is None:
                    standing = one((yield Call("grid_standing", {"id": row["id"]})))
                found.append(
                    Run(
                        as_uuid(row["id"]),
                        row["job_version"],
                        row["version"],
                        row["due_at"],
                        row["created_at"],
                        row["scheduled_at"],
                        State(standing["state"]),
                        standing["attempt"] or 0,
                        standing["started_at"],
                        row["finished_at"],
                    )
                )
            return found

        return await self._engine.read(action)

    async def steps(self, runs: Sequence[ExecutionId]) -> dict[ExecutionId, str]:
        def action() -> Action[dict[ExecutionId, str]]:
            found: dict[ExecutionId, str] = {}
            if not self._is_postgres:
                for run in runs:
                    text = one((yield Call("grid_steps", {"run": run})))["cells"]
                    if text is not None and _LIVE in text:
                        text = one((yield Call("grid_live_steps", {"run": run})))["cells"]
                    if text is not None:
                        found[run] = _in_place(text)
                return found
            rows = yield Call("grid_steps", {"runs": list(runs), **_spans(runs)})
            return {as_uuid(row["run"]): _in_place(row["cells"]) for row in rows}

        return await self._engine.read(action, Lane.KEYED) if runs else {}

    async def tries(self, runs: Sequence[ExecutionId]) -> dict[ExecutionId, Tries]:
        def action() -> Action[dict[ExecutionId, Tries]]:
            if self._is_postgres:
                rows = yield Call("grid_tries", {"runs": list(runs)})
                return {as_uuid(row["run"]): Tries(row["outcomes"], row["retry_at"]) for row in rows}
            found: dict[ExecutionId, Tries] = {}
            for run in runs:
                row = one((yield Call("grid_tries", {"run": run})))
                if row["outcomes"] is not None:
                    found[run] = Tries(row["outcomes"], row["retry_at"])
            return found

        return await self._engine.read(action, Lane.KEYED) if runs else {}


def _spans(runs: Sequence[ExecutionId]) -> dict[str, list[ExecutionId]]:
    """Between which ids the steps of each lie: they carry the time of their run."""
    made = [instant_of(run) for run in runs]
    return {"firsts": [id_floor(at) for at in made], "lasts": [id_floor(at + _MILLISECOND) for at in made]}


def _in_place(text: str) -> str:
    """A digit for each place: they are told in any order, each behind the character of its place."""
    there = dict(zip(text[::2], text[1::2], strict=True))
    return "".join([there.get(chr(place), " ") for place in range(_FIRST, ord(max(there)) + 1)])
