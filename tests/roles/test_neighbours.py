"""A worker under one tenant's flood: what another tenant brings is neither overlooked nor left behind a large batch."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec

from duly.domain.access import Actor, Role
from duly.domain.instants import SECOND
from duly.domain.job import Job
from duly.domain.tenants import Tenant
from duly.ports.handlers import Attempt
from duly.roles.worker import NEIGHBOUR_FOR, Worker, WorkerSettings
from duly.wire.jobs import JobShape
from tests.roles.conftest import World


async def echo(attempt: Attempt) -> Any:
    return attempt.payload


async def job_of(world: World, name: str) -> Job:
    """A job of a tenant of that name."""
    made = await world.store.tenants.create(Tenant(number=0, name=name))
    assert made is not None
    shape = msgspec.convert({"name": "job", "target": {"handler": "work"}}, JobShape)
    return (await world.jobs.create(Actor(made.number, name, Role.ADMIN, "test"), [shape]))[0]


async def hired(world: World) -> Worker:
    """A worker that looks for work as real ones do."""
    worker = await world.worker()
    worker.settings = replace(WorkerSettings(name="w"), look_for_routes_every=-1)
    return worker


async def step(world: World, worker: Worker) -> int:
    """One step and what it starts; answers how many were claimed."""
    claimed = (await worker.step(world.clock.now())).did["claimed"]
    for _ in range(5):
        await asyncio.sleep(0)
    return claimed


async def test_a_newcomer_is_seen_though_the_flood_goes_on(world: World) -> None:
    world.handle("work", echo)
    flood, newcomer = await job_of(world, "b"), await job_of(world, "a")
    await world.enqueue(flood, 3_000)
    worker = await hired(world)
    await step(world, worker)
    [run] = await world.enqueue(newcomer)
    world.clock.turn(0.001)

    await step(world, worker)
    await step(world, worker)

    found = await world.store.insights.execution(newcomer.version.tenant, run)
    assert found is not None
    assert found.started_at is not None


async def test_batches_are_small_while_others_may_have_work(world: World) -> None:
    world.handle("work", echo)
    flood, other = await job_of(world, "b"), await job_of(world, "a")
    await world.enqueue(flood, 5_000)
    await world.enqueue(other)
    worker = await hired(world)

    shared = [await step(world, worker) for _ in range(8)]
    world.clock.turn(NEIGHBOUR_FOR / SECOND)
    alone = [await step(world, worker) for _ in range(4)]

    assert max(shared) == worker.settings.largest_shared_batch
    assert max(alone) > 2 * worker.settings.largest_shared_batch
