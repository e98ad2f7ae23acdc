"""Looking through log lines on both engines."""

from __future__ import annotations

from duly.adapters.sql.engine import Action, Call, Engine, Lane, one
from duly.adapters.sql.listing import LAST_ID
from duly.adapters.sql.rows import as_uuid, log_of
from duly.domain.ids import ExecutionId, JobId
from duly.domain.logs import LogFilter
from duly.ports.logs import EXECUTIONS_AT_ONCE, LINES_AT_ONCE, FoundLine, Place


class SqlLogs:
    """The port on an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def of_execution(
        self, tenant: int, id: ExecutionId, wanted: LogFilter, after: int, limit: int
    ) -> tuple[list[FoundLine], int | None]:
        def action() -> Action[tuple[list[FoundLine], int | None]]:
            found, reached, _ = yield from _look(tenant, id, wanted, after, limit, LINES_AT_ONCE)
            return found, reached

        return await self._engine.read(action, Lane.KEYED)

    async def of_job(
        self, tenant: int, job: JobId, wanted: LogFilter, after: Place | None, oldest: ExecutionId, limit: int
    ) -> tuple[list[FoundLine], Place | None]:
        def action() -> Action[tuple[list[FoundLine], Place | None]]:
            found: list[FoundLine] = []
            left = LINES_AT_ONCE
            begun, sequence = (LAST_ID, 0) if after is None else after
            if sequence:
                lines, reached, looked_at = yield from _look(tenant, begun, wanted, sequence, limit, left)
                found += lines
                left -= looked_at
                if reached is not None:
                    return found, (begun, reached)
            params = {"job": job, "tenant": tenant, "before": begun, "oldest": oldest, "quota": EXECUTIONS_AT_ONCE}
            rows = yield Call("executions_with_logs", params)
            for row in rows:
                id = as_uuid(row["id"])
                if not row["has_lines"]:
                    continue
                if len(found) >= limit or left <= 0:
                    # The one before it was looked through to its end.
                    return found, (begun, 0)
                lines, reached, looked_at = yield from _look(tenant, id, wanted, 0, limit - len(found), left)
                found += lines
                left -= looked_at
                if reached is not None:
                    return found, (id, reached)
                begun = id
            return found, (as_uuid(rows[-1]["id"]), 0) if len(rows) == EXECUTIONS_AT_ONCE else None

        return await self._engine.read(action)

    async def volume(self, id: ExecutionId, attempt: int) -> tuple[int, int]:
        row = one(await self._engine.fetch("log_volume", {"id": id, "attempt": attempt}))
        return int(row["lines"]), int(row["size"])


def _look(
    tenant: int, id: ExecutionId, wanted: LogFilter, after: int, limit: int, most: int
) -> Action[tuple[list[FoundLine], int | None, int]]:
    """Lines, the number that was come to (None: the end) and how many were looked at."""
    end = one((yield Call("logs_reached", {"tenant": tenant, "id": id, "after": after, "looked_at": most})))
    if not end["n"]:
        return [], None, 0
    params = {
        "id": id,
        "after": after,
        "reached": end["reached"],
        "attempt": wanted.attempt,
        "least": wanted.least,
        "contains": wanted.contains or "",
        "quota": limit,
    }
    found = [FoundLine(id, *log_of(row)) for row in (yield Call("logs_found", params))]
    if len(found) == limit:
        last = found[-1].sequence
        return found, None if last == end["reached"] and end["n"] < most else last, end["n"]
    return found, end["reached"] if end["n"] == most else None, end["n"]
