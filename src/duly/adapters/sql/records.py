"""Finished executions for analysts, on both engines: noted by a trigger that exists only while somebody exports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from duly.adapters.sql.engine import Action, Call, Engine, Many, one
from duly.adapters.sql.rows import as_uuid, skip_of
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant, Micros
from duly.domain.lifecycle import State, Trigger
from duly.domain.records import Record, message_of
from duly.domain.why.errors import error_of
from duly.ports.records import History, Stretch, Unexported

FIRST_ID = UUID(int=0)


class SqlRecords:
    """The port on an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_noting = False

    async def take(self, exporter: str, now: Instant, ttl: Micros) -> bool:
        mine = bool(await self._engine.fetch("exporter_take", {"owner": exporter, "now": now, "until": now + ttl}))
        # Whoever was passed over for long may find that nothing is noted any more when it is his turn again.
        self._is_noting = mine and (self._is_noting or await self._note(wanted=True))
        return self._is_noting

    async def unexported(self, limit: int) -> Unexported:
        def action() -> Action[Unexported]:
            places = yield Call("unexported_oldest", {"quota": limit})
            rows = (yield Call("unexported_read", {"quota": limit})) if places else ()
            return Unexported([row["seq"] for row in places], [record_of(row) for row in rows])

        # Both look at one snapshot: a place whose executions have left the history is dropped with the others.
        return await self._engine.read(action)

    async def drop(self, places: Sequence[int]) -> None:
        def action() -> Action[None]:
            if self._engine.name == "postgres":
                yield Call("unexported_drop", {"seqs": list(places)})
            else:
                yield Many("unexported_drop", [{"seq": seq} for seq in places])

        await self._engine.run(action)

    async def history(self, limit: int) -> History:
        where = one(await self._engine.fetch("exporter_reached", {}))
        if where is None or where["is_through"]:
            return History([], None)
        after = FIRST_ID if where["reached"] is None else as_uuid(where["reached"])
        records = [record_of(row) for row in await self._engine.fetch("records_after", {"after": after, "quota": limit})]
        return History(records, records[-1].id if len(records) == limit else None)

    async def reach(self, reached: ExecutionId | None) -> None:
        if reached is None:
            await self._engine.fetch("exporter_is_through", {})
        else:
            await self._engine.fetch("exporter_reach", {"reached": reached})

    async def leave(self, exporter: str) -> None:
        await self._engine.fetch("exporter_leave", {"owner": exporter})
        self._is_noting = False

    async def lapse(self, before: Instant) -> bool:
        # The exporter is forgotten last: until then somebody comes back to what could not be done now.
        if not await self._engine.fetch("exporter_is_gone", {"before": before}) or not await self._note(wanted=False):
            return False
        await self._engine.fetch("unexported_empty", {})
        await self._engine.fetch("exporter_lapse", {"before": before})
        return True

    async def stretch(self, tenant: int, after: ExecutionId, before: ExecutionId, looked_at: int, *, counted_only: bool = False) -> Stretch:
        def action() -> Action[Stretch]:
            found = yield Call("ids_between", {"after": after, "before": before, "quota": looked_at})
            ids = [as_uuid(row["id"]) for row in found]
            if not ids:
                return Stretch([], 0, 0, None)
            params = {"tenant": tenant, "ids": ids}
            ends = one((yield Call("ends_in_stretch", params)))
            rows = () if counted_only or not ends["finished"] else (yield Call("records_of", params))
            reached = ids[-1] if len(ids) == looked_at else None
            return Stretch([record_of(row) for row in rows], ends["finished"], ends["n"] - ends["finished"], reached)

        return await self._engine.read(action)

    async def _note(self, *, wanted: bool) -> bool:
        """Whether it is so now."""

        def action() -> Action[None]:
            yield Call("note_unexported" if wanted else "unnote_unexported", {})

        if self._engine.name == "postgres":
            return bool(one(await self._engine.fetch("note_records", {"wanted": wanted}))["done"])
        await self._engine.run(action)
        return True


def record_of(row: Any) -> Record:
    """A row of the view `records`."""
    state, trigger = State(row["state"]), Trigger(row["trigger"])
    error = error_of(row["error"])
    kind, message = error.get("type"), error.get("message")
    return Record(
        id=as_uuid(row["id"]),
        tenant=row["tenant"],
        job_id=as_uuid(row["job_id"]),
        job=row["job"],
        step=row["step"],
        version=row["version"],
        pool=row["pool"],
        handler=row["handler"],
        trigger=trigger,
        state=state,
        skip_reason=skip_of(state, trigger, row["skip_reason"], row["error"]),
        attempts=row["attempts"],
        scheduled_at=row["scheduled_at"],
        due_at=row["due_at"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        first_started_at=row["first_started_at"],
        attempt_due_at=row["attempt_due_at"],
        failed=row["failed"],
        timed_out=row["timed_out"],
        lost=row["lost"],
        released=row["released"],
        error_type=None if kind is None else str(kind),
        error_message=message_of(None if message is None else str(message)),
    )
