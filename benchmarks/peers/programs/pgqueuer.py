"""PgQueuer."""

# The library is in an environment of its own.
# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, misc, no-untyped-call"

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgDriver

from benchmarks.marks import hit
from benchmarks.peers.programs.frame import Payload, Producer, Program, dsn, setting


class PgqueuerProducer(Producer):
    """One connection."""

    async def setup(self) -> None:
        await self.open()
        await self._queries.install()
        await self.close()

    async def open(self) -> None:
        self._connection = await asyncpg.connect(dsn())
        self._queries = Queries(AsyncpgDriver(self._connection))

    async def close(self) -> None:
        await self._connection.close()

    async def add(self, job: Payload) -> None:
        await self._queries.enqueue("noop", _bytes(job))

    async def add_many(self, jobs: Sequence[Payload]) -> None:
        await self._queries.enqueue(["noop"] * len(jobs), [_bytes(job) for job in jobs], [0] * len(jobs))

    async def add_at(self, jobs: Sequence[tuple[float, Payload]]) -> None:
        # It takes a delay, not a time.
        now = time.time()
        delays = [timedelta(seconds=due - now) for due, _ in jobs]
        await self._queries.enqueue(["noop"] * len(jobs), [_bytes(job) for _, job in jobs], [0] * len(jobs), delays)


def _bytes(job: Payload) -> bytes:
    return json.dumps(job).encode()


async def work() -> None:
    """Run jobs until it is stopped."""
    queue = PgQueuer.from_asyncpg_connection(await asyncpg.connect(dsn()))

    @queue.entrypoint("noop")
    async def noop(job: Any) -> None:
        carried = json.loads(job.payload)
        hit(carried["t"])
        if carried.get("ms"):
            await asyncio.sleep(carried["ms"] / 1000)

    await queue.run(batch_size=int(setting("BATCH", "10")))


def worker() -> None:
    """On the loop that the setting names."""
    run = uvloop.run if setting("UVLOOP", "") == "yes" else asyncio.run
    run(work())


PROGRAM = Program(PgqueuerProducer(), worker=worker)
