"""How the store fares, on both engines: see ports/condition.py."""

from __future__ import annotations

from duly.adapters.sql.engine import Engine, one
from duly.ports.condition import StoreCondition, TableCondition


class SqlConditions:
    """Asks the engine's own statistics."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def condition(self, tables: int) -> StoreCondition:
        row = one(await self._engine.fetch("store_condition", {}))
        found = await self._engine.fetch("table_conditions", {"quota": tables}) if self._engine.name == "postgres" else []
        return StoreCondition(
            bytes=row["bytes"],
            free_bytes=row["free_bytes"],
            connections=row["connections"],
            most_connections=row["most_connections"],
            oldest_transaction_at=row["oldest_transaction_at"],
            tables=[TableCondition(each["name"], each["live"], each["dead"], each["bytes"] or 0, each["vacuumed_at"]) for each in found],
        )
