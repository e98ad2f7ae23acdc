"""How busy pools are, on both engines: see ports/scaling.py."""

from __future__ import annotations

from duly.adapters.sql.engine import Engine, one
from duly.domain.ids import ExecutionId
from duly.domain.instants import SECOND, Instant
from duly.ports.scaling import PoolLately


class SqlPoolLoads:
    """The same text on both engines."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def oldest_due(self, route: int, tenant: int, sampled: int) -> Instant | None:
        row = one(await self._engine.fetch("oldest_due", {"route": route, "tenant": tenant, "quota": sampled}))
        return None if row is None or row["due_at"] is None else int(row["due_at"])

    async def lately(self, tenant: int | None, since: ExecutionId, most: int) -> dict[str, PoolLately]:
        rows = await self._engine.fetch("pools_lately", {"tenant": tenant, "first": since, "quota": most})
        return {
            row["pool"]: PoolLately(row["arrived"], row["since"], None if row["mean_run"] is None else float(row["mean_run"]) / SECOND)
            for row in rows
        }
