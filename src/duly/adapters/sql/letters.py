"""Dead letters, bulk actions and batches: the same on both engines but for how many ids are sent at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from duly.adapters.sql.audit import append
from duly.adapters.sql.definitions import use_key
from duly.adapters.sql.engine import Action, Call, Engine, Lane, one
from duly.adapters.sql.firing import enqueue_each
from duly.adapters.sql.gates import open_gates
from duly.adapters.sql.listing import LAST_ID
from duly.adapters.sql.quotas import admit_each
from duly.adapters.sql.rows import as_uuid, encode
from duly.domain.audit import Deed
from duly.domain.bulk import Candidate, Match
from duly.domain.execution import NewExecution
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant
from duly.domain.lifecycle import Outcome, State, is_final
from duly.domain.why.errors import error_of
from duly.ports.dispatch import Idempotency
from duly.ports.letters import Batch, Letter, Settling

_IDS_BY_STATE = {State.SCHEDULED: "ids_scheduled", State.BLOCKED: "ids_blocked", State.PENDING: "ids_pending", State.RUNNING: "ids_running"}


class SqlLetters:
    """The port of those who look after dead letters."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def open_letters(
        self, tenant: int, job_id: JobId | None, before: ExecutionId | None, limit: int
    ) -> tuple[list[Letter], ExecutionId | None]:
        def action() -> Action[tuple[list[Letter], ExecutionId | None]]:
            rows = yield Call("ids_unusual", {"state": State.DEAD, "before": before or LAST_ID, "quota": limit})
            ids = [as_uuid(row["id"]) for row in rows]
            found = (yield Call("open_letters", {"tenant": tenant, "job_id": job_id, "ids": ids})) if ids else ()
            return [_letter_of(row) for row in found], ids[-1] if len(ids) == limit else None

        return await self._engine.read(action, Lane.KEYED)

    async def candidates(
        self, tenant: int, match: Match, states: frozenset[State], before: ExecutionId | None, limit: int
    ) -> tuple[list[Candidate], ExecutionId | None]:
        def action() -> Action[tuple[list[Candidate], ExecutionId | None]]:
            ids = yield from _sources(tenant, match, states, before or LAST_ID, limit)
            if not ids:
                return [], None
            found = yield Call("candidates", {"tenant": tenant, "ids": ids})
            return [_candidate_of(row) for row in found], ids[-1] if len(ids) >= limit else None

        return await self._engine.read(action)

    async def replay(
        self, replays: Sequence[tuple[ExecutionId, NewExecution]], by: str, now: Instant, *, deed: Deed | None = None
    ) -> set[ExecutionId]:
        gates: set[UUID] = set()

        def action() -> Action[set[ExecutionId]]:
            gates.clear()
            ours = yield from self._settle([(old, new.id) for old, new in replays], Settling.REPLAYED, by, now)
            fresh = [new for old, new in replays if old in ours]
            yield from admit_each(fresh, now)
            done = yield from enqueue_each(fresh, now)
            gates.update(done.gates)
            yield from append([None if deed is None else deed.about([new.id for old, new in replays if old in ours])])
            return ours

        ours = await self._engine.run(action)
        await open_gates(self._engine, gates, now)
        return ours

    async def settle(
        self,
        ids: Sequence[ExecutionId],
        how: Settling,
        by: str,
        now: Instant,
        replay: ExecutionId | None = None,
        *,
        deed: Deed | None = None,
    ) -> int:
        def action() -> Action[int]:
            ours = yield from self._settle([(id, replay) for id in ids], how, by, now)
            yield from append([None if deed is None else deed.about([id for id in ids if id in ours])])
            return len(ours)

        return await self._engine.run(action)

    def _settle(
        self, pairs: Sequence[tuple[ExecutionId, ExecutionId | None]], how: Settling, by: str, now: Instant
    ) -> Action[set[ExecutionId]]:
        if self._engine.name == "postgres":
            params = {"ids": [id for id, _ in pairs], "replays": [replay for _, replay in pairs], "by": by, "how": how, "now": now}
            return {row["id"] for row in (yield Call("settle_many", params))}
        ours: set[ExecutionId] = set()
        for id, replay in pairs:
            if (yield Call("settle", {"id": id, "now": now, "by": by, "how": how, "replay": replay})):
                ours.add(id)
        return ours

    async def hasten(self, tenant: int, ids: Sequence[ExecutionId], now: Instant, *, deed: Deed | None = None) -> set[ExecutionId]:
        def action() -> Action[set[ExecutionId]]:
            hastened: set[ExecutionId] = set()
            for id in sorted(ids, key=lambda id: id.int):
                row = one((yield Call("hasten_timer", {"id": id, "tenant": tenant, "now": now})))
                if row is not None:
                    yield Call("hasten_attempt", {"id": id, "attempt": row["attempt"] - 1, "now": now})
                    hastened.add(id)
            yield from append([None if deed is None else deed.about([id for id in ids if id in hastened])])
            return hastened

        return await self._engine.run(action)

    async def add_batch(self, batch: Batch, *, deed: Deed | None = None, idempotency: Idempotency | None = None) -> UUID | None:
        params = {
            "batch": batch.id,
            "tenant": batch.tenant,
            "job_id": batch.job_id,
            "kind": batch.kind,
            "asked_at": batch.asked_at,
            "asked_by": batch.asked_by,
            "total": batch.total,
            "about": encode(batch.about),
        }

        def action() -> Action[UUID | None]:
            if idempotency is not None:
                earlier = yield from use_key(batch.tenant, idempotency, [batch.id], batch.asked_at)
                if earlier is not None:
                    return earlier[0]
            yield Call("add_batch", params)
            yield from append([deed])
            return None

        return await self._engine.run(action)

    async def keep_answer(self, id: UUID, key: str, answer: dict[str, Any]) -> None:
        def action() -> Action[None]:
            about = yield from _locked_about(id)
            if about is not None:
                yield from _change(id, about | {"answers": about.get("answers", {}) | {key: answer}}, None)

        await self._engine.run(action)

    async def abort_batch(self, id: UUID, now: Instant, *, deed: Deed | None = None) -> bool:
        def action() -> Action[bool]:
            about = yield from _locked_about(id)
            if about is None or about.get("abortedAt") is not None:
                return False
            yield from _change(id, about | {"abortedAt": now}, deed)
            return True

        return await self._engine.run(action)

    async def end_canaries(self, id: UUID, *, deed: Deed | None = None) -> bool:
        def action() -> Action[bool]:
            about = yield from _locked_about(id)
            if about is None or about.get("abortedAt") is not None:
                return False
            if about.pop("canary", None) is not None:
                yield from _change(id, about, deed)
            return True

        return await self._engine.run(action)

    async def drop_batch(self, id: UUID, *, deed: Deed | None = None, idempotency: Idempotency | None = None) -> None:
        def action() -> Action[None]:
            tenant = one((yield Call("drop_batch", {"batch": id})))
            if tenant is not None and idempotency is not None:
                yield Call("forget_key", {"tenant": tenant["tenant"], "key": idempotency.key})
            yield from append([deed])

        await self._engine.run(action)

    async def batch(self, tenant: int, id: UUID) -> Batch | None:
        row = one(await self._engine.fetch("batch", {"batch": id, "tenant": tenant}))
        if row is None:
            return None
        job_id = None if row["job_id"] is None else as_uuid(row["job_id"])
        about = msgspec.json.decode(row["about"])
        return Batch(id, tenant, row["kind"], row["asked_at"], row["asked_by"], row["total"], about, job_id)

    async def batch_counts(self, id: UUID) -> dict[State, int]:
        return {State(row["state"]): int(row["n"]) for row in await self._engine.fetch("batch_counts", {"batch": id})}

    async def backfilled(self, tenant: int, job_id: JobId, first: Instant, last: Instant) -> list[tuple[UUID, Instant, State]]:
        params = {"tenant": tenant, "job_id": job_id, "first": first, "last": last}
        rows = await self._engine.fetch("backfilled", params)
        return [(as_uuid(row["batch"]), row["scheduled_at"], State(row["state"])) for row in rows]

    async def last_due(self, id: UUID) -> Instant | None:
        found: Instant | None = one(await self._engine.fetch("last_due", {"batch": id}))["at"]
        return found


def _locked_about(id: UUID) -> Action[dict[str, Any] | None]:
    """What is known about a batch, locked: of two who change it neither forgets what the other has written."""
    row = one((yield Call("lock_batch", {"batch": id})))
    return None if row is None else msgspec.json.decode(row["about"])


def _change(id: UUID, about: dict[str, Any], deed: Deed | None) -> Action[None]:
    yield Call("change_batch", {"batch": id, "about": encode(about)})
    yield from append([deed])


def _sources(tenant: int, match: Match, states: frozenset[State], before: UUID, limit: int) -> Action[list[ExecutionId]]:
    """The next ids that may be meant, newest first, from the smallest table that has them all."""
    if match.ids is not None:
        return sorted((id for id in match.ids if id < before), key=lambda id: id.int, reverse=True)[:limit]
    wanted = states if match.state is None else frozenset({match.state})
    params: dict[str, Any] = {"tenant": tenant, "before": before, "quota": limit}
    calls: list[Call] = []
    if match.batch is not None:
        calls = [Call("ids_of_batch", params | {"batch": match.batch})]
    elif match.job_id is not None and State.SUCCEEDED in wanted:
        calls = [Call("ids_of_job", params | {"job_id": match.job_id})]
    else:
        for state in sorted(wanted):
            calls.append(Call("ids_final", params | {"state": state}) if is_final(state) else Call(_IDS_BY_STATE[state], params))
    found: set[ExecutionId] = set()
    for call in calls:
        found |= {as_uuid(row["id"]) for row in (yield call)}
    return sorted(found, key=lambda id: id.int, reverse=True)[:limit]


def _letter_of(row: Any) -> Letter:
    return Letter(as_uuid(row["id"]), as_uuid(row["job_id"]), row["job_name"], row["finished_at"], row["attempt"], error_of(row["error"]))


def _candidate_of(row: Any) -> Candidate:
    return Candidate(
        id=as_uuid(row["id"]),
        job_id=as_uuid(row["job_id"]),
        job_version=row["job_version"],
        state=State(row["state"]),
        created_at=row["created_at"],
        batch=None if row["batch"] is None else as_uuid(row["batch"]),
        last_outcome=None if row["last_outcome"] is None else Outcome(row["last_outcome"]),
        error=error_of(row["error"]),
        settled=bool(row["is_settled"]),
        payload=row["payload"],
    )
