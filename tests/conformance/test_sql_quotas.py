"""The functions for a user's own transaction hold to the quotas of tenants, as Python does."""

from __future__ import annotations

import asyncpg
import pytest

from duly.domain.job import Job
from duly.domain.tenants import tenant_gates
from tests.conformance.ledger import raw
from tests.conformance.tenants import submit, tenant, waiting
from tests.conformance.test_sql_limits import postgres
from tests.conformance.world import World


async def enqueue(world: World, job: Job, payloads: str = "[null]") -> None:
    await raw(world.engine, f"SELECT * FROM duly_enqueue_many('{job.version.spec.name}', '{payloads}', tenant => 'acme')")


async def test_queued(migrated_dsn: str) -> None:
    async with postgres(migrated_dsn) as world:
        acme = await tenant(world, max_queued=2)
        job = await world.job(tenant=acme.number)
        await enqueue(world, job, "[null, null]")

        with pytest.raises(asyncpg.PostgresError, match="DULY-E402") as refused:
            await enqueue(world, job)

        assert refused.value.sqlstate == "DU402"
        assert await waiting(world, acme) == 2
        assert await submit(world, job, acme, 1) == ["DULY-E402"]


async def test_fires_per_minute(migrated_dsn: str) -> None:
    async with postgres(migrated_dsn) as world:
        acme = await tenant(world, max_fires_per_minute=2)
        job = await world.job(tenant=acme.number)
        await enqueue(world, job, "[null, null]")

        with pytest.raises(asyncpg.PostgresError, match="DULY-E403"):
            await enqueue(world, job)

        assert await submit(world, job, acme, 1) == ["DULY-E403"]


async def test_payloads(migrated_dsn: str) -> None:
    async with postgres(migrated_dsn) as world:
        acme = await tenant(world, max_payload_bytes=10)
        job = await world.job(tenant=acme.number)
        await enqueue(world, job, '[{"a": 1}, null]')

        with pytest.raises(asyncpg.PostgresError, match="DULY-E404"):
            await enqueue(world, job, '[{"a": "xxxxxxxxxx"}]')


async def test_the_gates_are_the_same(migrated_dsn: str) -> None:
    async with postgres(migrated_dsn) as world:
        acme = await tenant(world, max_concurrent=1, max_fires_per_minute=5)
        job = await world.job(tenant=acme.number)
        await enqueue(world, job)

        [row] = await raw(world.engine, f"SELECT gates FROM executions WHERE tenant = {acme.number}")

        assert row["gates"] == [gate.id for gate in tenant_gates(acme.number, acme.quotas)]


async def test_a_tenant_without_quotas_pays_nothing(migrated_dsn: str) -> None:
    async with postgres(migrated_dsn) as world:
        acme = await tenant(world)
        await enqueue(world, await world.job(tenant=acme.number))

        assert await raw(world.engine, "SELECT * FROM headroom UNION ALL SELECT tenant, 0, count, 0, 0 FROM fires") == []
        assert await waiting(world, acme) == 1
