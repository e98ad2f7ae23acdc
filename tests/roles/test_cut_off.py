"""A worker that cannot reach its store: what it runs is stopped in time all the same. In virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from duly.adapters.sql.bell import Bell
from duly.adapters.sql.engine_sqlite import InlineSqliteEngine
from duly.adapters.sql.store import store_on
from duly.domain.errors import Unavailable
from duly.domain.instants import SECOND, from_rfc3339
from duly.ports.handlers import Attempt
from duly.ports.store import WorkerAbout
from duly.roles.heartbeat import Beating, Heartbeat, HeartbeatSettings, keep_beating
from duly.roles.shift import Shift
from duly.roles.worker import WorkerSettings
from duly.testing.clocks import NodeClock, StoreClock
from duly.testing.loop import SimulatedLoop
from duly.usecases.executions import Executions
from duly.usecases.jobs import Jobs
from duly.usecases.overdue import Overdue
from duly.usecases.quotas import Directory
from tests.roles.conftest import World
from tests.services.databases import in_memory

LIFE = HeartbeatSettings()
# How long a call on a dead line takes before that is noticed.
SILENCE = 4.0


class Cut:
    """A port that answers nobody once it is cut."""

    def __init__(self, port: Any, is_cut: asyncio.Event) -> None:
        self._port, self._is_cut = port, is_cut

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._port, name)

        async def call(*args: Any, **named: Any) -> Any:
            if self._is_cut.is_set():
                await asyncio.sleep(SILENCE)
                raise Unavailable("DULY-E501", "away")
            return await real(*args, **named)

        return call


class Heart:
    """Beats as a task."""

    def __init__(self, heartbeat: Heartbeat, every: float, liveness: Any, on_news: Callable[[], None]) -> None:
        self._task = asyncio.create_task(keep_beating(heartbeat, every, liveness, self._is_due, on_news))

    async def _is_due(self, seconds: float) -> bool:
        await asyncio.sleep(seconds)
        return True

    def stop(self) -> None:
        self._task.cancel()

    def beat_now(self) -> None: ...


def in_virtual_time(live: Callable[[World, SimulatedLoop], Awaitable[None]]) -> None:
    """Run it in a world of its own."""
    loop = SimulatedLoop(1)
    clock = NodeClock(loop, StoreClock(loop, 0), 1_000 * SECOND)
    clock.set_offset(from_rfc3339("2026-03-01T12:00:00Z") - clock.boottime())

    async def main() -> None:
        store, bell, entropy = store_on(await in_memory(InlineSqliteEngine())), Bell(), random.Random(7).getrandbits
        quotas = Directory(store.tenants, clock)
        jobs = Jobs(store.definitions, Overdue(store.schedules, store.leases, quotas, bell), quotas, clock, entropy, bell)
        executions = Executions(jobs, store.intake, store.cancels, store.insights, quotas, clock, entropy, bell)
        await live(World(store, clock, entropy, bell, jobs, executions), loop)  # type: ignore[arg-type]

    task = loop.outside.spawn(main())
    try:
        loop.run_until(task)
        task.result()
    finally:
        loop.bury()


def shift_of(world: World, is_cut: asyncio.Event) -> Shift:
    """A worker's, cut off from its store by the event."""
    store = world.store
    cut = replace(store, ready=Cut(store.ready, is_cut), outcomes=Cut(store.outcomes, is_cut), liveness=Cut(store.liveness, is_cut))

    def start(heartbeat: Heartbeat, every: float, on_news: Callable[[], None]) -> Beating:
        return Heart(heartbeat, every, cut.liveness, on_news)

    return Shift(
        cut,
        world.transport,
        world.registry,
        world.clock,
        world.entropy,
        WorkerSettings(name="w"),
        WorkerAbout("default"),
        start,
        heartbeat=LIFE,
        grace=1.0,
    )


@pytest.mark.parametrize(("shape", "latest"), [({}, LIFE.ttl / SECOND), ({"timeoutSec": 6}, 6.5)], ids=["lease", "timeout"])
def test_who_is_cut_off_from_the_store_stops_its_handlers_in_time(shape: dict[str, int], latest: float) -> None:
    stopped: list[float] = []

    async def live(world: World, loop: SimulatedLoop) -> None:
        is_cut, began, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def stays(attempt: Attempt) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(loop.now)

        world.handle("work", stays)
        await world.enqueue(await world.create(**shape))
        running = asyncio.create_task(shift_of(world, is_cut).run(stop))
        await began.wait()
        is_cut.set()
        await asyncio.sleep(40.0)
        stop.set()
        await running

    in_virtual_time(live)
    assert stopped
    assert stopped[0] <= latest


def test_who_is_lost_sees_to_the_end_of_its_handlers_however_often_it_is_woken() -> None:
    asked: list[float] = []

    async def live(world: World, loop: SimulatedLoop) -> None:
        is_cut, stop = asyncio.Event(), asyncio.Event()

        async def hears_the_second_word(attempt: Attempt) -> None:
            while len(asked) < 2:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    asked.append(loop.now)

        world.handle("work", hears_the_second_word)
        await world.enqueue(await world.create())
        running = asyncio.create_task(shift_of(world, is_cut).run(stop))
        await asyncio.sleep(1.0)
        is_cut.set()
        for _ in range(2000):
            # Others have work all the while.
            world.transport.ring()
            await asyncio.sleep(0.01)
        stop.set()
        await running

    in_virtual_time(live)
    assert len(asked) == 2
    assert asked[1] - asked[0] < 3.0
