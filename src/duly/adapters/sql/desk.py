"""The desk on both engines: see ports/desk.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from duly.adapters.sql.audit import append
from duly.adapters.sql.definitions import answer_key, use_key
from duly.adapters.sql.engine import Action, Call, Engine, one
from duly.adapters.sql.fleet import registration
from duly.adapters.sql.rows import as_uuid, worker_of
from duly.domain.audit import Deed
from duly.domain.execution import Finished, LeaseId, Stop, WorkerId
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant, Micros
from duly.domain.lifecycle import Outcome, State
from duly.ports.desk import Ended, Held, Member
from duly.ports.dispatch import Idempotency
from duly.ports.store import Outcomes, WorkerAbout, WorkerRow


class SqlDesk:
    """What is the same on both engines."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def register_once(
        self, name: str, about: WorkerAbout, now: Instant, ttl: Micros, tenant: int, family: str | None, idempotency: Idempotency
    ) -> WorkerId:
        def action() -> Action[WorkerId]:
            earlier = yield from use_key(tenant, idempotency, [], now)
            if earlier is not None:
                return earlier[0].int
            row = one((yield Call("register_worker", registration(name, about, now, ttl, tenant, family))))
            yield from answer_key(tenant, idempotency, [UUID(int=row["id"])])
            return int(row["id"])

        return await self._engine.run(action)

    async def worker(self, worker: WorkerId) -> WorkerRow | None:
        row = one(await self._engine.fetch("worker", {"worker": worker}))
        return None if row is None else replace(worker_of(row), family=row["family"])

    async def leases(self, worker: WorkerId) -> list[LeaseId]:
        return [row["lease_id"] for row in await self._engine.fetch("leases_of", {"worker": worker})]

    async def stops(self, worker: WorkerId) -> list[Stop]:
        return [Stop(as_uuid(row["id"]), row["kill_at"]) for row in await self._engine.fetch("cancels_of_worker", {"worker": worker})]

    async def drain(self, worker: WorkerId, deed: Deed) -> None:
        def action() -> Action[None]:
            yield Call("drain_worker", {"worker": worker})
            yield from append([deed])

        await self._engine.run(action)


class SqliteDesk(SqlDesk):
    """With one writer, a finish takes its execution out of the lease: a second one finds it ended."""

    def __init__(self, engine: Engine, outcomes: Outcomes) -> None:
        super().__init__(engine)
        self._outcomes = outcomes

    async def members(self, worker: WorkerId, held: Sequence[Held]) -> dict[Held, Member]:
        def action() -> Action[dict[Held, Member]]:
            found: dict[Held, Member] = {}
            for lease, id in held:
                row = one((yield Call("member_reported", {"worker": worker, "lease": lease, "id": id})))
                if row is not None:
                    found[lease, id] = member_of(row)
            return found

        return await self._engine.read(action)

    async def settle(self, worker: WorkerId, finished: Sequence[Finished], held: Sequence[Held], now: Instant) -> dict[Held, Ended]:
        if finished:
            await self._outcomes.finish(worker, finished, [], now)

        def action() -> Action[dict[Held, Ended]]:
            found: dict[Held, Ended] = {}
            for lease, id in held:
                ended = ended_of(one((yield Call("ended_under", {"worker": worker, "lease": lease, "id": id}))))
                if ended is not None:
                    found[lease, id] = ended
            return found

        return await self._engine.read(action)

    async def touched(self, worker: WorkerId, ids: Sequence[ExecutionId]) -> set[ExecutionId]:
        return {id for id in ids if await self._engine.fetch("touched", {"worker": worker, "id": id})}


def member_of(row: Any) -> Member:
    """A row of member_reported or members_reported."""
    return Member(row["attempt"], row["failures"], row["job_version"], row["due_at"], row["granted_at"], bool(row["holds_place"]))


def ended_of(row: Any) -> Ended | None:
    """A row of ended_under; None when the attempt has not ended."""
    outcome, state = row["outcome"], row["state"]
    if outcome is None and state is None:
        return None
    return Ended(
        Outcome.SUCCEEDED if outcome is None else Outcome(outcome), State.SCHEDULED if state is None else State(state), row["retry_at"]
    )
