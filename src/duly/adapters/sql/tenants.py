"""Tenants on both engines: see ports/tenants.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from typing import Any
from uuid import UUID

from duly.adapters.sql.audit import append
from duly.adapters.sql.definitions import use_key_for_secret
from duly.adapters.sql.engine import Action, Call, Engine, Many, one
from duly.adapters.sql.gates import open_gates
from duly.adapters.sql.quotas import JOBS, QUEUED, WINDOW
from duly.adapters.sql.rows import as_uuid
from duly.domain.audit import Deed
from duly.domain.homes import Standing
from duly.domain.ids import ExecutionId, JobId, id_floor
from duly.domain.instants import MINUTE, SECOND, Instant
from duly.domain.shards import shard_of
from duly.domain.tenants import Quotas, Tenant, Usage, both_gates
from duly.ports.dispatch import Idempotency
from duly.ports.tenants import Bounded

# How many jobs are looked through in one step of retention, and how far a count for people goes.
JOBS_AT_ONCE = 100
COUNTED_TO = 10_000_000
# An id may be a little older than its row: it is made before the submit waits for its turn.
ID_SLACK = MINUTE
FIRST_ID = UUID(int=0)
_QUOTAS = tuple(item.name for item in fields(Quotas))
_DROPS = ("drop_logs", "drop_attempts", "drop_checkpoint", "drop_settled", "drop_cancel", "drop_unique", "drop_execution", "drop_outcome")


class SqlTenants:
    """Tenants, their quotas and what they use."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def create(
        self, tenant: Tenant, *, deed: Deed | None = None, idempotency: tuple[int, Idempotency] | None = None
    ) -> Tenant | None:
        def action() -> Action[Tenant | None]:
            if idempotency is not None:
                asking, key = idempotency
                yield from use_key_for_secret(asking, key, "0", tenant.created_at, f"the tenant {tenant.name!r}")
            params = {
                "name": tenant.name,
                "weight": tenant.weight,
                "now": tenant.created_at,
                "standing": tenant.standing,
                "store": tenant.store,
            }
            row = one((yield Call("add_tenant", params | asdict(tenant.quotas))))
            if row is None:
                if idempotency is not None:
                    yield Call("forget_key", {"tenant": idempotency[0], "key": idempotency[1].key})
                return None
            made = replace(tenant, number=row["tenant"])
            yield from set_up(made.number, made.quotas)
            yield from append([deed])
            return made

        return await self._engine.run(action)

    async def named(self, name: str) -> Tenant | None:
        row = one(await self._engine.fetch("tenant_named", {"name": name}))
        return None if row is None else _tenant_of(row)

    async def page(self, after: str, limit: int) -> list[Tenant]:
        return [_tenant_of(row) for row in await self._engine.fetch("tenants_after", {"after": after, "quota": limit})]

    async def bounded(self) -> Bounded:
        def action() -> Action[Bounded]:
            newest = one((yield Call("newest_tenant", {})))["tenant"]
            return Bounded({row["tenant"]: _quotas_of(row) for row in (yield Call("bounded_tenants", {}))}, newest)

        return await self._engine.read(action)

    async def change(
        self, tenant: int, weight: int, quotas: Quotas, expected: int, now: Instant, *, deed: Deed | None = None
    ) -> Sequence[int] | None:
        def action() -> Action[bool]:
            row = one((yield Call("lock_tenant", {"tenant": tenant})))
            if row is None or row["version"] != expected:
                return False
            yield Call("set_tenant", {"tenant": tenant, "weight": weight} | asdict(quotas))
            yield Call("forget_headroom", {"tenant": tenant})
            yield from set_up(tenant, quotas)
            yield from append([deed])
            return True

        if not await self._engine.run(action):
            return None
        # A wider gate has room that nobody gives back.
        return sorted(await open_gates(self._engine, [gate.id for gate, _ in both_gates(tenant, quotas)], now))

    async def usage(self, tenant: int, quotas: Quotas, now: Instant) -> Usage:
        def action() -> Action[Usage]:
            jobs = one((yield Call("count_live_jobs", {"tenant": tenant, "most": COUNTED_TO})))["n"]
            queued = one((yield Call("count_queued", {"tenant": tenant, "most": COUNTED_TO})))["n"]
            running = one((yield Call("count_running", {"tenant": tenant})))["n"]
            if quotas.max_fires_per_minute is not None:
                rows = yield Call("fires_since", {"tenant": tenant, "second": now // SECOND - WINDOW})
                fires = sum(row["count"] for row in rows)
            else:
                since = {"first": id_floor(now - MINUTE - ID_SLACK), "since": now - MINUTE}
                fires = one((yield Call("count_made_since", {"tenant": tenant} | since)))["n"]
            return Usage(jobs, queued, running, fires)

        return await self._engine.read(action)

    async def prune(self, tenant: int, before: Instant, now: Instant, first: JobId | None, limit: int) -> tuple[int, JobId | None]:
        def action() -> Action[tuple[int, JobId | None]]:
            yield Call("drop_old_fires", {"second": now // SECOND - 2 * WINDOW})
            jobs = yield Call("jobs_from", {"tenant": tenant, "first": first or FIRST_ID, "quota": JOBS_AT_ONCE})
            old: list[ExecutionId] = []
            following = None if len(jobs) < JOBS_AT_ONCE else as_uuid(jobs[-1]["id"])
            for row in jobs:
                quota = limit - len(old)
                bounds = {"before": id_floor(before), "finished_before": before, "quota": quota}
                found = yield Call("old_of_job", {"job_id": row["id"]} | bounds)
                old += [as_uuid(item["id"]) for item in found]
                if len(found) == quota:
                    following = as_uuid(row["id"])
                    break
            yield from self._drop(old)
            return len(old), following

        return await self._engine.run(action)

    def _drop(self, old: Sequence[ExecutionId]) -> Action[None]:
        if not old:
            return
        if self._engine.name == "postgres":
            yield Call("drop_finished", {"ids": old})
        else:
            for name in _DROPS:
                yield Many(name, [{"id": id} for id in old])


def set_up(tenant: int, quotas: Quotas) -> Action[None]:
    """The rows that the quotas need before anybody meets them."""
    for kind, bounds in ((JOBS, quotas.max_jobs is not None), (QUEUED, quotas.bounds_intake)):
        if bounds:
            yield Call("make_headroom", {"tenant": tenant, "kind": kind})
    for gate, bounds in both_gates(tenant, quotas):
        params: dict[str, Any] = {"gate": gate.id, "capacity": gate.capacity}
        if bounds:
            yield Call("keep_gate", params | {"tenant": tenant, "shard": shard_of(gate.id), "lasts": gate.lasts, "about": gate.about})
        else:
            yield Call("widen_gate", params)


def _tenant_of(row: Any) -> Tenant:
    return Tenant(
        number=row["tenant"],
        name=row["name"],
        weight=row["weight"],
        quotas=_quotas_of(row),
        version=row["version"],
        created_at=row["created_at"],
        standing=Standing(row["standing"]),
        store=row["store"],
    )


def _quotas_of(row: Any) -> Quotas:
    return Quotas(**{name: row[name] for name in _QUOTAS})
