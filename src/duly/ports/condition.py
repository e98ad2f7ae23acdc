"""How the store itself fares: its size, what it has not cleaned up, and who keeps it from doing so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from duly.domain.instants import Instant


@dataclass(frozen=True, slots=True)
class TableCondition:
    """A table as the store's own statistics have it: estimates. `dead` rows wait to be cleaned up; `vacuumed_at` None: never."""

    name: str
    rows: int
    dead: int
    bytes: int
    vacuumed_at: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCondition:
    """All of it at one moment. None is what this kind of store does not have, or does not tell us."""

    bytes: int | None = None
    free_bytes: int | None = None
    connections: int | None = None
    most_connections: int | None = None
    # Since when the oldest transaction of others is open: what died since cannot be cleaned up.
    oldest_transaction_at: Instant | None = None
    tables: Sequence[TableCondition] = ()


class Conditions(Protocol):
    """Cheap: from statistics, never a count of rows."""

    async def condition(self, tables: int) -> StoreCondition:
        """How the store fares, with the tables that have most to clean up, at most so many. SQLite cleans up at once and names none."""
