"""Every role of a fleet goes on when its lines to the store fall silent."""

from __future__ import annotations

import asyncio
from pathlib import Path

from duly import config
from duly.compose import Service, open_node
from duly.domain.lifecycle import State
from duly.ports.store import ExecutionFilter
from duly.verify.proxy import Link
from tests.connections.conftest import through
from tests.connections.fleet import echo_job, ended
from tests.services.databases import empty
from tests.services.postgres import Postgres

# How soon a silent line is noticed is asked in test_dead_lines.py; here, that everybody goes on, and before the worker is given up.
LONG_ENOUGH = 60.0


async def test_schedules_fire_and_runs_end_again_by_the_same_worker(
    link: Link, shared_dsn: str, postgres_server: Postgres, tmp_path: Path
) -> None:
    empty(shared_dsn)
    node = await open_node(config.load({}, home=tmp_path, store=through(link, shared_dsn, postgres_server), port=0))
    looking = await open_node(config.load({}, home=tmp_path, store=shared_dsn))
    stop = asyncio.Event()
    service = asyncio.create_task(Service(node, ("dispatcher", "sweeper", "pruner", "worker")).run(stop))
    job = await echo_job(looking, "firing", type="INTERVAL", intervalSec=1)
    await ended(looking, job, 1)
    [before] = await looking.store.insights.workers(looking.clock.now())

    try:
        assert link.freeze() > 3
        frozen_at = looking.clock.now()
        async with asyncio.timeout(LONG_ENOUGH):
            while not any(
                run.state is State.SUCCEEDED and run.scheduled_at > frozen_at
                for run in await looking.store.insights.executions(ExecutionFilter(1, job_id=job.id, limit=50))
            ):
                await asyncio.sleep(0.05)

        [after] = await looking.store.insights.workers(looking.clock.now())
        assert after.id == before.id
    finally:
        stop.set()
        await service
        await node.close()
        await looking.close()
