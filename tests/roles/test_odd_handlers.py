"""Whatever a handler does, on every executor: the worker lives, the attempt ends once, and the next handler runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from duly.domain.ids import ExecutionId
from duly.domain.lifecycle import Outcome, State
from duly.executors.processes import ProcessPool
from duly.executors.python import python_handlers
from duly.roles.worker import Worker
from tests.roles.conftest import World
from tests.roles.odd_errors import ODD
from tests.roles.odd_handlers import ASYNC_DEEDS, DEEDS, apps

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(params=["loop", "thread", "process", "async_process"])
async def executor(world: World, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    pool = ProcessPool(f"tests.roles.odd_handlers:apps.{request.param}", size=1)
    handlers = python_handlers(getattr(apps, request.param).calls(), threads=1, processes=pool)
    for handler in handlers:
        world.registry.add(handler)
    yield request.param
    for handler in handlers:
        if handler.close is not None:
            await handler.close()


async def rest(worker: Worker, world: World) -> None:
    async with asyncio.timeout(60):
        while True:
            await worker.step(world.clock.now())
            await asyncio.sleep(0.001)
            if worker.is_idle:
                return


async def test_the_worker_lives_the_attempt_ends_once_and_the_next_one_runs(world: World, executor: str) -> None:
    job = await world.create(retryPolicy={"maxAttempts": 1})
    worker = await world.worker(slots=1)
    deeds = DEEDS | (ASYNC_DEEDS if executor in ("loop", "async_process") else {})

    stand: dict[str, tuple[State, Outcome | None, int]] = {}
    told: dict[str, dict[str, Any]] = {}
    for which in deeds:
        ids: list[ExecutionId] = []
        for payload in (json.dumps(which), "null"):
            ids += await world.enqueue(job, payload=payload)
            await rest(worker, world)
        shown = await world.show(ids[0])
        stand[which] = (shown.state, shown.last_outcome, len(await world.store.insights.attempts(ids[0])))
        told[which] = json.loads(shown.error or "{}")
        assert (await world.show(ids[1])).result == '"done"', which

    failed, succeeded = (State.DEAD, Outcome.FAILED, 1), (State.SUCCEEDED, Outcome.SUCCEEDED, 1)
    assert stand == {which: failed if fails else succeeded for which, (_, fails) in deeds.items()}
    assert {which: told[which]["type"] for which in ODD} == {which: kind for which, (_, kind, _) in ODD.items()}
    assert worker.refused == worker.left_behind == 0
    assert worker.heartbeat.is_trusted
