"""Finished executions for analysis, by the stretch: a tenant's own, bounded whatever is asked for."""

from __future__ import annotations

from uuid import UUID

from duly.domain.access import Actor
from duly.domain.errors import Invalid
from duly.domain.ids import ExecutionId, id_floor
from duly.domain.instants import Instant
from duly.ports import records
from duly.ports.records import Stretch

# Counting sends nothing back, so a call may look at more.
COUNTED_AT_ONCE = 20_000


class Records:
    """The use case of those who export."""

    def __init__(self, store: records.Records) -> None:
        self._store = store

    async def stretch(
        self, actor: Actor, since: Instant, until: Instant, after: ExecutionId | None, limit: int, *, counted_only: bool = False
    ) -> Stretch:
        """What the tenant has from one instant to before another, by the time in the ids, oldest first.

        A call looks at so many of anybody's executions; it may answer fewer, even none, and still say where to go on.
        """
        if until < since:
            raise Invalid("DULY-E106", "must not be before since.", field="until")
        # The instant itself belongs to the stretch.
        start = UUID(int=max(id_floor(since).int - 1, 0))
        looked_at = COUNTED_AT_ONCE if counted_only else limit
        return await self._store.stretch(actor.tenant, after or start, id_floor(until), looked_at, counted_only=counted_only)
