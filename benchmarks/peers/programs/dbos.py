"""DBOS."""

# The library is in an environment of its own.
# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, misc, no-untyped-call"

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dbos import DBOS, DBOSClient

from benchmarks.marks import hit
from benchmarks.peers.programs.frame import Payload, Producer, Program, dsn, setting
from benchmarks.peers.work import payload

NAME, QUEUE, VERSION = "bench", "noop", "v1"


def _configuration() -> Any:
    quiet = {"run_admin_server": False, "log_level": "ERROR"}
    return {"name": NAME, "system_database_url": dsn(), "application_version": VERSION, "sys_db_pool_size": 20, **quiet}


class DbosProducer(Producer):
    """A client; there is no bulk, so that a fill has several callers."""

    has_bulk = False

    async def setup(self) -> None:
        # Its blocking calls refuse to run where an event loop does.
        await asyncio.to_thread(_make_schema)

    async def open(self) -> None:
        self._client = DBOSClient(system_database_url=dsn(), application_name=NAME)

    async def close(self) -> None:
        self._client.destroy()

    async def add(self, job: Payload) -> None:
        await self._client.enqueue_async(_options(), job)

    async def fill(self, count: int) -> None:
        self._from_many(({}, payload(i)) for i in range(count))

    async def add_at(self, jobs: Sequence[tuple[float, Payload]]) -> None:
        # It takes a delay, not a time: counted anew by the caller whose turn it is.
        self._from_many(({"due": due}, job) for due, job in jobs)

    def _from_many(self, jobs: Iterable[tuple[dict[str, float], Payload]]) -> None:
        with ThreadPoolExecutor(int(setting("CALLERS", "8"))) as callers:
            list(callers.map(lambda made: self._enqueue(made[1], **made[0]), jobs))

    def _enqueue(self, job: Payload, due: float | None = None) -> None:
        delay = {} if due is None else {"delay_seconds": max(0.001, due - time.time())}
        self._client.enqueue({**_options(), **delay}, job)


def _options() -> Any:
    return {"queue_name": QUEUE, "workflow_name": "noop", "app_version": VERSION}


def _make_schema() -> None:
    DBOS(config=_configuration())
    DBOS.launch()
    DBOS.register_queue(QUEUE)
    DBOS.destroy(destroy_registry=True)


def worker() -> None:
    """Run jobs until it is stopped."""
    DBOS(config=_configuration())

    @DBOS.workflow(name="noop")
    async def noop(job: Payload) -> None:
        hit(job["t"])
        if job.get("ms"):
            await asyncio.sleep(job["ms"] / 1000)

    options: dict[str, Any] = {}
    if poll := setting("POLL_S", ""):
        options["polling_interval_sec"] = float(poll)
    if concurrency := setting("CONCURRENCY", ""):
        options["worker_concurrency"] = int(concurrency)
    DBOS.launch()
    DBOS.register_queue(QUEUE, on_conflict="always_update", **options)
    while True:
        time.sleep(1)


PROGRAM = Program(DbosProducer(), worker=worker)
