"""A worker on PostgreSQL loses an answer, or its connection, at one of its statements: everything runs once, and ends once.

The simulation does this to every statement on SQLite; here are those that PostgreSQL has of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

import asyncpg
import pytest

from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.domain.errors import Unavailable
from duly.domain.ids import ExecutionId
from duly.domain.job import Job
from duly.domain.lifecycle import State
from duly.domain.limits import Limits
from duly.ports.handlers import Attempt, Handler, Registry
from duly.ports.store import WorkerAbout
from duly.roles.heartbeat import Heartbeat, HeartbeatSettings
from duly.roles.worker import Worker, WorkerSettings
from tests.conformance.conftest import opened
from tests.conformance.ledger import raw
from tests.conformance.test_workers_over_http import WorldClock
from tests.conformance.world import World

# Enough for a lease that is reported whole; those behind a gate never are.
PLAIN, GATED = 40, 4
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'duly-%'"


class Faulty(PostgresEngine):
    """Answers, unless it is armed: the next statement of that name is cut off before it is sent, or its answer is lost."""

    armed: tuple[str, str] | None = None

    async def fetch(self, name: str, *rest: Any) -> Any:
        if self.armed is None or self.armed[0] != name:
            return await super().fetch(name, *rest)
        fault, self.armed = self.armed[1], None
        if fault == "never sent":
            raise Unavailable("DULY-E501", "cut")
        if fault == "disconnected":
            server = await asyncpg.connect(self.dsn)
            await server.execute(CUT)
            await server.close()
        answer = await super().fetch(name, *rest)
        if fault == "answer lost":
            raise Unavailable("DULY-E501", "cut")
        return answer


async def hire(world: World, ran: Counter[Any]) -> Worker:
    async def work(attempt: Attempt) -> str:
        ran[attempt.id] += 1
        return str(attempt.id)

    registry, clock, life = Registry(), WorldClock(world), HeartbeatSettings()
    registry.add(Handler("noop", work))
    store = world.store
    number = await store.liveness.register("w", WorkerAbout("default"), world.now, life.ttl)
    settings = WorkerSettings(name="w", slots=PLAIN, look_for_routes_every=-1, look_for_work_every=-1, compare_every=0)
    heartbeat = Heartbeat(number, clock, life, clock.boottime())
    chance = world.chance.getrandbits
    return Worker(settings, heartbeat, store.ready, store.outcomes, store.definitions, store.checkpoints, registry, clock, chance)


async def bring(world: World, job: Job) -> list[ExecutionId]:
    """Submit as a client does: again when the answer is lost, under the same ids. The fault may have left cut lines in the pool."""
    made = world.new_executions(job, GATED)
    while True:
        with contextlib.suppress(Unavailable):
            await world.store.intake.enqueue(made, world.now)
            return [execution.id for execution in made]


@pytest.mark.parametrize("fault", ["never sent", "answer lost", "disconnected"])
@pytest.mark.parametrize("statement", ["claim", "held_by", "finish_whole", "finish"])
async def test_everything_runs_once_and_ends_once(postgres_store: str, statement: str, fault: str) -> None:
    engine = Faulty(postgres_store)
    async with opened(engine):
        world = World(engine)
        runs = await world.enqueue(await world.job(), PLAIN, payload='{"n":1}')
        gated = await world.job(limits=Limits(max_concurrent=2))
        ran: Counter[Any] = Counter()
        worker = await hire(world, ran)
        engine.armed = (statement, fault)

        for _ in range(100):
            try:
                await worker.step(world.now)
            except Unavailable:
                # What comes after a commit is left to the sweeper, whose own line may have gone with the others.
                with contextlib.suppress(Unavailable):
                    await world.store.losses.unstick(world.now, 100)
            for _ in range(5):
                await asyncio.sleep(0)
            if len(ran) == len(runs) == PLAIN and worker.is_idle:
                runs += await bring(world, gated)
            if engine.armed is None and worker.is_idle and len(ran) == PLAIN + GATED:
                break

        assert engine.armed is None, f"{statement} was never sent"
        assert ran == Counter(runs)
        ended = await raw(engine, "SELECT id, state, result FROM outcomes ORDER BY id")
        assert ended == [{"id": run, "state": State.SUCCEEDED, "result": f'"{run}"'} for run in sorted(runs)]
        assert await raw(engine, "SELECT lease_id FROM leases") == []
