"""Procrastinate."""

# The library is in an environment of its own.
# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, misc, no-untyped-call"

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import uvloop
from procrastinate import App, PsycopgConnector

from benchmarks.marks import hit
from benchmarks.peers.programs.frame import Payload, Producer, Program, dsn, setting

app = App(connector=PsycopgConnector(conninfo=dsn(), min_size=1, max_size=int(setting("POOL", "4"))))


@app.task(name="noop", queue="noop")
async def noop(i: int, t: float, pad: str, ms: int = 0) -> None:
    """Does nothing, or waits."""
    hit(t)
    if ms:
        await asyncio.sleep(ms / 1000)


class ProcrastinateProducer(Producer):
    """A small pool of connections."""

    async def setup(self) -> None:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await app.open_async()

    async def close(self) -> None:
        await app.close_async()

    async def add(self, job: Payload) -> None:
        await noop.defer_async(**job)

    async def add_many(self, jobs: Sequence[Payload]) -> None:
        await noop.batch_defer_async(*jobs)

    async def add_at(self, jobs: Sequence[tuple[float, Payload]]) -> None:
        # A batch has one time for all: several callers at once, as many as the pool has connections.
        places = asyncio.Semaphore(4)

        async def one(due: float, job: Payload) -> None:
            async with places:
                await noop.configure(schedule_at=datetime.fromtimestamp(due, UTC)).defer_async(**job)

        await asyncio.gather(*(one(due, job) for due, job in jobs))


async def work() -> None:
    """Run jobs until it is stopped."""
    options: dict[str, Any] = {"concurrency": int(setting("CONCURRENCY", "1"))}
    if poll := setting("POLL_S", ""):
        options["fetch_job_polling_interval"] = float(poll)
    if delete := setting("DELETE_JOBS", ""):
        options["delete_jobs"] = delete
    async with app.open_async():
        await app.run_worker_async(**options)


def worker() -> None:
    """On the loop that the setting names."""
    run = uvloop.run if setting("UVLOOP", "") == "yes" else asyncio.run
    run(work())


PROGRAM = Program(ProcrastinateProducer(), worker=worker)
