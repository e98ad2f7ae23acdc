"""Tenants share a busy fleet by their weights."""

from __future__ import annotations

from collections import Counter

from duly.domain.fairness import share_out
from duly.domain.instants import DAY
from tests.conformance.ledger import raw
from tests.conformance.tenants import change, made, tenant
from tests.conformance.world import World


async def test_shares_follow_the_weights_within_five_percent(world: World) -> None:
    weights = {1: 1, 2: 2, 3: 5}
    for number, weight in weights.items():
        one = await tenant(world, f"t{number}")
        await change(world, one, weight)
        job = await world.job(tenant=one.number)
        await world.store.intake.enqueue(made(world, job, one, 800), world.now)
    numbers = {row["tenant"]: row["weight"] for row in await raw(world.engine, "SELECT tenant, weight FROM tenants WHERE tenant > 1")}
    claimed: Counter[int] = Counter()
    credit: dict[int, float] = {}
    worker = await world.worker(ttl=DAY)
    routes = [route.number for route in await world.store.ready.routes()]

    while sum(claimed.values()) < 1_000:
        asks = share_out(7, await world.store.ready.work(routes, 64), credit, counted_to=64)
        batch = await world.store.ready.claim(worker, asks, world.now)
        assert batch is not None
        versions = {number: await world.version(number) for number in set(batch.job_versions)}
        claimed.update(versions[number].tenant for number in batch.job_versions)
        await world.finish(worker, batch)

    total = sum(claimed.values())
    for number, weight in numbers.items():
        assert abs(claimed[number] / total - weight / 8) <= 0.05 * weight / 8
