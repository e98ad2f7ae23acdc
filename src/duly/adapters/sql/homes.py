"""The homes of tenants on both engines: see ports/homes.py. What travels is in moving.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict

from duly.adapters.sql import moving
from duly.adapters.sql.audit import append
from duly.adapters.sql.engine import Action, Call, Engine, Many, one
from duly.adapters.sql.tenants import set_up
from duly.domain.audit import Deed
from duly.domain.errors import Unavailable
from duly.domain.homes import Residence, Standing
from duly.domain.instants import Instant
from duly.domain.tenants import Tenant
from duly.ports.homes import Parcel

BATCH = 1000
# A guard needs a lock that nobody holds for long; it is asked for so often.
TRIES = 100
_GUARDS = ("guard_audit", "guard_executions", "guard_ready", "guard_timers")


class SqlHomes:
    """The homes of tenants in one store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.kind = engine.name

    async def residence(self, name: str) -> Residence | None:
        row = one(await self._engine.fetch("tenant_home", {"name": name}))
        return None if row is None else Residence(row["tenant"], row["name"], Standing(row["standing"]), row["store"])

    async def settle(self, tenant: Tenant, standing: Standing, store: str | None) -> bool:
        params = {
            "tenant": tenant.number,
            "name": tenant.name,
            "weight": tenant.weight,
            "version": tenant.version,
            "created_at": tenant.created_at,
            "standing": standing,
            "store": store,
        } | asdict(tenant.quotas)

        def action() -> Action[bool]:
            if not (yield Call("settle_tenant", params)) and not (yield Call("renew_tenant", params)):
                return False
            yield from set_up(tenant.number, tenant.quotas)
            return True

        return await self._engine.run(action)

    async def stand(self, residence: Residence, standing: Standing, store: str | None, *, deed: Deed | None = None) -> bool:
        def action() -> Action[bool]:
            yield from append([deed])
            wanted = {"tenant": residence.tenant, "read": residence.standing, "standing": standing, "store": store}
            return bool((yield Call("stand", wanted)))

        return await self._engine.run(action)

    async def leave(self, residence: Residence, to: str, *, deed: Deed | None = None) -> None:
        if self._engine.name == "sqlite":
            await self._leave_at_once(residence, to, deed)
            return
        tenant = residence.tenant
        if residence.standing is Standing.HERE:
            await self.stand(residence, Standing.LEAVING, to, deed=deed)
        await self._guarded("hold_tenant", {"tenant": tenant, "what": "asked"})
        # Before new executions are refused: a batch of fires that met a guard would fail for its neighbours too.
        await self._until_none("sleep_schedules", tenant)
        await self._guarded("hold_tenant", {"tenant": tenant, "what": "new"})
        await self.hold(tenant)
        await self._empty_ready(tenant)
        await self._until_none("sleep_timers", tenant)

    async def _leave_at_once(self, residence: Residence, to: str, deed: Deed | None) -> None:
        """With one writer nothing can come between."""
        tenant = residence.tenant

        def action() -> Action[None]:
            if residence.standing is Standing.HERE:
                yield from append([deed])
                yield Call("stand", {"tenant": tenant, "read": Standing.HERE, "standing": Standing.LEAVING, "store": to})
            for name in _GUARDS:
                yield Call(name, {})
            for name in ("sleep_schedules", "sleep_timers"):
                yield Call(name, {"tenant": tenant, "quota": -1})

        await self._engine.run(action)
        await self._empty_ready(tenant)

    async def hold(self, tenant: int) -> None:
        if self._engine.name == "postgres":
            await self._guarded("hold_tenant", {"tenant": tenant, "what": "work"})
            return

        def action() -> Action[None]:
            for name in _GUARDS:
                yield Call(name, {})

        await self._engine.run(action)

    async def running(self, tenant: int) -> int:
        return int(one(await self._engine.fetch("count_running", {"tenant": tenant}))["n"])

    async def has_workflows(self, tenant: int) -> bool:
        return bool(await self._engine.fetch("has_workflows", {"tenant": tenant}))

    async def wake(self, tenant: int) -> None:
        await self._release(tenant)
        await self._until_none("wake_timers", tenant)
        await self._until_none("wake_schedules", tenant)

    def parcels(self, tenant: int, since: Instant) -> AsyncIterator[Parcel]:
        return moving.parcels(self._engine, tenant, since)

    async def unpack(self, parcel: Parcel) -> None:
        await self._engine.run(lambda: moving.unpack(self._engine.name, parcel))

    async def counts(self, tenant: int, since: Instant) -> Mapping[str, int]:
        def action() -> Action[dict[str, int]]:
            found = dict(one((yield Call("moved_counts", {"tenant": tenant, "since": since}))))
            return found | {"strays": one((yield Call("moved_strays", {"tenant": tenant})))["n"]}

        return await self._engine.read(action)

    async def fence(self) -> int:
        return int(one(await self._engine.fetch("highest_fence", {}))["fence"])

    async def lift_fence(self, fence: int) -> None:
        def action() -> Action[None]:
            if self._engine.name == "sqlite":
                yield Call("begin_fences", {})
            yield Call("lift_fence", {"fence": max(fence, 1)})

        await self._engine.run(action)

    async def clear(self, tenant: int) -> int:
        removed = await moving.clear(self._engine, tenant)
        await self._release(tenant)
        return removed

    async def _release(self, tenant: int) -> None:
        if self._engine.name == "postgres":
            await self._guarded("release_tenant", {"tenant": tenant})

    async def _until_none(self, name: str, tenant: int) -> None:
        while len(await self._engine.fetch(name, {"tenant": tenant, "quota": BATCH})) == BATCH:
            pass

    async def _empty_ready(self, tenant: int) -> None:
        """Back to where it waits for a time. What is ready has passed its gates, and keeps its slots."""

        def action() -> Action[int]:
            rows = yield Call("ready_to_sleep", {"tenant": tenant, "quota": BATCH})
            taken = [dict(row) for row in rows]
            yield Many("leave_ready", taken)
            yield Many("make_timer", [row | {"shard": -1, "gated": False} for row in taken])
            return len(taken)

        while await self._engine.run(action):
            pass

    async def _guarded(self, name: str, params: Mapping[str, object]) -> None:
        for _ in range(TRIES):
            if one(await self._engine.fetch(name, params))["done"]:
                return
            await asyncio.sleep(0.05)
        raise Unavailable(
            "DULY-E501", "A table is locked by something that does not end.", hint="Look for long transactions, and repeat the command."
        )
