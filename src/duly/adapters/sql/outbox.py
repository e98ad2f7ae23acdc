"""The outbox on both engines: noting by triggers that exist only while somebody publishes."""

from __future__ import annotations

from collections.abc import Sequence
from json import loads
from typing import Any

from duly.adapters.sql.engine import Action, Call, Engine, Many
from duly.adapters.sql.rows import as_uuid
from duly.domain.events import Change, Happened
from duly.domain.instants import Instant, Micros
from duly.domain.lifecycle import SkipReason, Trigger
from duly.ports.events import Noted

_NOTED = ("created", "dispatched", "failed", "final")


class SqlOutbox:
    """The port on an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_noting = False

    async def take(self, herald: str, now: Instant, ttl: Micros) -> bool:
        mine = await self._engine.fetch("herald_take", {"owner": herald, "now": now, "until": now + ttl})
        if mine and not self._is_noting:
            # Where the lock was not free, the next step tries again.
            self._is_noting = await self._note(wanted=True)
        # Whoever was passed over for long may find that nothing is noted any more when it is his turn again.
        self._is_noting = self._is_noting and bool(mine)
        return bool(mine)

    async def read(self, limit: int) -> Noted:
        def action() -> Action[Noted]:
            places = yield Call("outbox_oldest", {"quota": limit})
            rows = (yield Call("outbox_read", {"quota": limit})) if places else []
            return Noted([row["seq"] for row in places], [_happened(row) for row in rows])

        # Both look at one snapshot: a place whose execution has left the history is dropped with the others.
        return await self._engine.read(action)

    async def drop(self, places: Sequence[int]) -> None:
        def action() -> Action[None]:
            if self._engine.name == "postgres":
                yield Call("outbox_drop", {"seqs": list(places)})
            else:
                yield Many("outbox_drop", [{"seq": seq} for seq in places])

        await self._engine.run(action)

    async def leave(self, herald: str) -> None:
        await self._engine.fetch("herald_leave", {"owner": herald})
        self._is_noting = False

    async def lapse(self, before: Instant) -> bool:
        # The herald is forgotten last: until then somebody comes back to what could not be done now.
        if not await self._engine.fetch("herald_is_gone", {"before": before}) or not await self._note(wanted=False):
            return False
        await self._engine.fetch("outbox_empty", {})
        await self._engine.fetch("herald_lapse", {"before": before})
        return True

    async def _note(self, *, wanted: bool) -> bool:
        """Whether it is so now."""

        def action() -> Action[None]:
            for name in _NOTED:
                yield Call(f"note_{name}" if wanted else f"unnote_{name}", {})

        if self._engine.name == "postgres":
            return bool((await self._engine.fetch("note_events", {"wanted": wanted}))[0]["done"])
        await self._engine.run(action)
        return True


def _happened(row: Any) -> Happened:
    error, skipped = row["error"], row["skip_reason"]
    return Happened(
        change=Change(row["kind"]),
        at=row["at"],
        id=as_uuid(row["id"]),
        attempt=row["attempt"],
        job_id=as_uuid(row["job_id"]),
        job=row["job"],
        tenant=row["tenant"],
        trigger=Trigger(row["trigger"]),
        due_at=row["due_at"],
        created_at=row["created_at"],
        skip_reason=None if skipped is None else SkipReason(skipped),
        verdict=row["verdict"],
        fence=row["lease_id"],
        worker=row["worker"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        retry_at=row["retry_at"],
        error=None if error is None else loads(error),
    )
