"""Times claims from outside: a worker of its own that asks for one execution at a time, in a process that does nothing else.

python -m tests.soak.probe STORE     until its standard input ends; one line of times every second

Each claim is followed by a control: a fixed piece of work in the same engine that touches no table. A noisy neighbour makes both
slower, dead rows only the claim, so the soak judges one against the other. What it claims, it finishes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg

from duly.adapters.sql.store import open_engine, store_on
from duly.domain.errors import DulyError
from duly.domain.execution import Claimed, Finished, WorkerId
from duly.domain.fairness import Ask
from duly.domain.ids import JobId
from duly.domain.instants import SECOND, Instant
from duly.domain.lifecycle import Outcome, State
from duly.domain.shards import shard_of
from duly.ports.store import Store, WorkerAbout

HANDLER = "churn"
EVERY = 0.05
TTL = 60 * SECOND
CONTROL_ROWS = 10_000

Control = Callable[[], Awaitable[object]]


@contextlib.asynccontextmanager
async def control_of(url: str) -> AsyncIterator[Control]:
    """A fixed piece of work in the same engine."""
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(":memory:")) as memory:

            async def count_here() -> object:
                counting = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT count(*) FROM n"
                return memory.execute(counting, (CONTROL_ROWS,)).fetchone()

            yield count_here
        return
    connection = await asyncpg.connect(url, server_settings={"application_name": "soak-control", "jit": "off"})

    async def count_there() -> object:
        return await connection.fetchval("SELECT count(*) FROM generate_series(1, $1)", CONTROL_ROWS)

    yield count_there
    await connection.close()


class Probe:
    """A worker that takes one at a time and times it."""

    def __init__(self, store: Store, control: Control) -> None:
        self._store = store
        self._control = control
        self._worker: WorkerId = 0
        self._renew_at = 0.0
        self.claims: list[float] = []
        self.controls: list[float] = []
        self.taken = 0
        self.refused = 0

    async def try_once(self) -> None:
        """The same, whatever the store says: an hour has moments in which it says no."""
        try:
            await self.once()
        except (asyncpg.PostgresError, DulyError) as error:
            self.refused += 1
            print(f"probe: {error!r}", file=sys.stderr, flush=True)

    async def once(self) -> None:
        """One claim, one control."""
        now = await self._store.health.store_now()
        await self._live(now)
        routes = [route.number for route in await self._store.ready.routes() if route.handler == HANDLER]
        asks = [Ask(route, 1, 1) for route in routes]
        if not asks or not self._worker:
            return
        began = time.perf_counter()
        claimed = await self._store.ready.claim(self._worker, asks, now)
        self.claims.append((time.perf_counter() - began) * 1000)
        if claimed is not None:
            await self._finish(claimed, now)
        began = time.perf_counter()
        await self._control()
        self.controls.append((time.perf_counter() - began) * 1000)

    async def _live(self, now: Instant) -> None:
        if not self._worker:
            about = WorkerAbout(pool="default", handlers=[HANDLER], slots=1, host="soak", version="probe", ttl=TTL)
            self._worker = await self._store.liveness.register("soak-probe", about, now, TTL)
        elif time.monotonic() > self._renew_at:
            if await self._store.liveness.renew(self._worker, now, TTL) is None:
                # The machine stood still for a minute. A lost worker's claims cost nothing, so they would say nothing.
                self._worker = 0
                return
        else:
            return
        self._renew_at = time.monotonic() + 10

    async def _finish(self, claimed: Claimed, now: Instant) -> None:
        jobs = {number: version.job_id for number, version in (await self._store.definitions.versions(claimed.job_versions)).items()}
        await self._store.outcomes.finish(
            self._worker,
            [
                _succeeded(claimed, nth, jobs[claimed.job_versions[nth]], now, await self._store.health.store_now())
                for nth in range(len(claimed.ids))
            ],
            [claimed.lease],
            now,
        )
        self.taken += len(claimed.ids)

    async def retire(self) -> None:
        """Leave in order."""
        if self._worker:
            await self._store.liveness.retire(self._worker, await self._store.health.store_now())


def _succeeded(claimed: Claimed, nth: int, job: JobId, started: Instant, finished: Instant) -> Finished:
    return Finished(
        claimed.ids[nth],
        claimed.lease,
        Outcome.SUCCEEDED,
        State.SUCCEEDED,
        started,
        finished,
        job,
        shard_of(job),
        claimed.holds_place[nth],
    )


async def probe(url: str) -> None:
    """Probe until standard input ends."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stop.set)
    engine = open_engine(url)
    try:
        async with control_of(url) as control:
            probing = Probe(store_on(engine), control)
            spoke_at = time.monotonic()
            while not stop.is_set():
                await probing.try_once()
                if time.monotonic() - spoke_at >= 1:
                    spoke_at = time.monotonic()
                    print(json.dumps({"claims": probing.claims, "controls": probing.controls, "taken": probing.taken}), flush=True)
                    probing.claims, probing.controls = [], []
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), EVERY)
            await probing.retire()
    finally:
        await engine.close()


if __name__ == "__main__":
    asyncio.run(probe(sys.argv[1]))
