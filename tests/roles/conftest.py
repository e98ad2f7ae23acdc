"""Roles on the real SQLite store in memory, with a clock that is turned by hand."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from duly.adapters.memory.hot_index import MemoryHotIndex
from duly.adapters.sql.bell import Bell
from duly.adapters.sql.engine_sqlite import InlineSqliteEngine
from duly.adapters.sql.store import store_on
from duly.domain.access import Actor, Role
from duly.domain.execution import Execution
from duly.domain.ids import ExecutionId
from duly.domain.instants import SECOND, Instant, Micros, from_rfc3339
from duly.domain.job import Job
from duly.ports.handlers import Handler, Registry
from duly.ports.secrets import Secrets
from duly.ports.store import ExecutionFilter, Store, WorkerAbout
from duly.roles.dispatcher import Dispatcher, DispatcherSettings
from duly.roles.heartbeat import Heartbeat, HeartbeatSettings
from duly.roles.ownership import Ownership, OwnershipSettings
from duly.roles.sweeper import Sweeper, SweeperSettings
from duly.roles.worker import Worker, WorkerSettings
from duly.usecases.executions import Executions, Wanted
from duly.usecases.jobs import Jobs
from duly.usecases.overdue import Overdue
from duly.usecases.quotas import Directory
from duly.wire.jobs import JobShape
from tests.services.databases import in_memory

ACTOR = Actor(1, "default", Role.ADMIN, "test")


class HandClock:
    """Stands still until it is turned."""

    def __init__(self) -> None:
        self.instant: Instant = from_rfc3339("2026-03-01T12:00:00Z")
        self.uptime: Micros = 1_000 * SECOND

    def now(self) -> Instant:
        return self.instant

    def boottime(self) -> Micros:
        return self.uptime

    def turn(self, seconds: float) -> None:
        self.instant += round(seconds * SECOND)
        self.uptime += round(seconds * SECOND)


@dataclass
class World:
    """One store, one clock, and whoever is hired."""

    store: Store
    clock: HandClock
    entropy: Any
    transport: Bell
    jobs: Jobs
    executions: Executions
    registry: Registry = field(default_factory=Registry)
    secrets: Secrets | None = None

    def handle(self, name: str, function: Any) -> None:
        self.registry.add(Handler(name, function))

    async def create(self, **shape: Any) -> Job:
        body = {"name": "job", "target": {"handler": "work"}} | shape
        return (await self.jobs.create(ACTOR, [msgspec.json.decode(msgspec.json.encode(body), type=JobShape)]))[0]

    async def enqueue(self, job: Job, count: int = 1, **wanted: Any) -> list[ExecutionId]:
        return [made.id for made in await self.executions.enqueue_for(job, [Wanted(**wanted)] * count)]

    async def show(self, id: ExecutionId) -> Execution:
        return await self.executions.show(ACTOR, id)

    async def all(self) -> list[Execution]:
        return list(reversed(await self.store.insights.executions(ExecutionFilter(1, limit=1000))))

    def dispatcher(self, name: str = "d1") -> Dispatcher:
        ownership = Ownership(name, self.store.leases, self.clock, OwnershipSettings())
        return Dispatcher(
            ownership,
            self.store.schedules,
            self.store.definitions,
            Directory(self.store.tenants, self.clock),
            MemoryHotIndex(),
            self.transport,
            self.clock,
            DispatcherSettings(),
        )

    def sweeper(self) -> Sweeper:
        return Sweeper(self.store.losses, SweeperSettings())

    async def worker(self, **settings: Any) -> Worker:
        life = HeartbeatSettings()
        number = await self.store.liveness.register("w", WorkerAbout("default"), self.clock.now(), life.ttl)
        heartbeat = Heartbeat(number, self.clock, life, self.clock.boottime())
        chosen = WorkerSettings(name="w", look_for_routes_every=-1, look_for_work_every=-1, **settings)
        return Worker(
            chosen,
            heartbeat,
            self.store.ready,
            self.store.outcomes,
            self.store.definitions,
            self.store.checkpoints,
            self.registry,
            self.clock,
            self.entropy,
            self.secrets,
        )


@pytest.fixture
async def world() -> AsyncIterator[World]:
    engine = await in_memory(InlineSqliteEngine())
    store, clock, transport = store_on(engine), HandClock(), Bell()
    entropy = random.Random(7).getrandbits
    quotas = Directory(store.tenants, clock)
    jobs = Jobs(store.definitions, Overdue(store.schedules, store.leases, quotas, transport), quotas, clock, entropy, transport)
    yield World(
        store,
        clock,
        entropy,
        transport,
        jobs,
        Executions(jobs, store.intake, store.cancels, store.insights, quotas, clock, entropy, transport),
    )
    await store.health.close()


async def run_until_idle(worker: Worker, clock: HandClock) -> None:
    """Step the worker until it has nothing left to run or report."""
    for _ in range(100):
        await worker.step(clock.now())
        for _ in range(5):
            await asyncio.sleep(0)
        if worker.is_idle:
            return
    raise AssertionError("the worker did not come to rest")
