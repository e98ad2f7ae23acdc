"""Short words for tenants with quotas, and what they submit."""

from __future__ import annotations

from typing import Any

import httpx

from duly.adapters.sql.bell import Bell
from duly.domain import decide
from duly.domain.access import Role
from duly.domain.execution import NewExecution
from duly.domain.job import Job
from duly.domain.shards import SHARDS
from duly.domain.tenants import Quotas, Tenant
from duly.http.app import create_api
from duly.ports.keys import KeyRow
from duly.usecases import access as keys
from duly.usecases.executions import Wanted, headers
from tests.api import services_on
from tests.conformance.asking import TurnedClock
from tests.conformance.ledger import raw
from tests.conformance.test_races import count
from tests.conformance.world import World


async def tenant(world: World, name: str = "acme", **quotas: int) -> Tenant:
    """A tenant with these quotas."""
    made = await world.store.tenants.create(Tenant(number=0, name=name, quotas=Quotas(**quotas), created_at=world.now))
    assert made is not None
    return made


async def change(world: World, of: Tenant, weight: int = 100, **quotas: int) -> Tenant:
    """Other quotas for it, all others gone."""
    present = await world.store.tenants.named(of.name)
    assert present is not None
    assert await world.store.tenants.change(of.number, weight, Quotas(**quotas), present.version, world.now) is not None
    changed = await world.store.tenants.named(of.name)
    assert changed is not None
    return changed


def made(world: World, job: Job, of: Tenant, many: int = 1, **wanted: Any) -> list[NewExecution]:
    """Headers as the use case makes them for this tenant."""
    return headers(job, [Wanted(**wanted)] * many, world.now, world.chance.getrandbits, of.quotas)


async def submit(world: World, job: Job, of: Tenant, *sizes: int, **wanted: Any) -> list[str | None]:
    """Calls of these sizes together; the codes of those that were refused."""
    calls = [made(world, job, of, size, **wanted) for size in sizes]
    refusals = (await world.store.intake.enqueue_within(calls, world.now)).refusals
    return [None if refusal is None else refusal.code for refusal in refusals]


async def waiting(world: World, of: Tenant) -> int:
    tables = ("timers", "ready", "blocked")
    return sum([await count(world, f"{table} WHERE tenant = {of.number}") for table in tables])


async def fire(world: World, of: Tenant) -> list[Any]:
    """Fire what is due, as a dispatcher that knows the quotas; answers the executions it made, oldest first."""
    due = await world.store.schedules.due_schedules(range(SHARDS), world.now, 1000)
    versions = await world.store.definitions.versions(sorted({item.version for item in due}))
    await world.fire(decide.fires(due, versions, world.now, (await world.store.tenants.bounded()).quotas))
    return await raw(world.engine, f"SELECT id FROM executions WHERE tenant = {of.number} ORDER BY id")


async def client_of(world: World, of: Tenant) -> httpx.AsyncClient:
    """A client of an API of its own on this world's store, with a key of the tenant."""
    secret = f"duly_a_key_of_{of.name}"
    await world.store.keys.add_key(KeyRow(keys.key_id(secret), of.number, of.name, Role.ADMIN.name, "k", keys._hash(secret), world.now))
    api = create_api(services_on(world.store, TurnedClock(world), world.chance.getrandbits, Bell()))
    headers = {"authorization": f"Bearer {secret}"}
    return httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://duly.test", headers=headers)
