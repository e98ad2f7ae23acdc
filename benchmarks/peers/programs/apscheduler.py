"""APScheduler 3: a scheduler, not a queue. A drain is a store full of one-off jobs that are due when it starts.

One process has the store: it schedules, runs and takes new jobs in. So its producer is inside of it.
"""

# The library is in an environment of its own.
# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, misc, no-untyped-call"

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from benchmarks.marks import hit
from benchmarks.peers.programs.frame import Payload, Producer, Program, obey_lines, setting


def noop(i: int, t: float, pad: str, ms: int = 0) -> None:
    """Does nothing, or waits."""
    hit(t)
    if ms:
        time.sleep(ms / 1000)


def _scheduler() -> Any:
    store = SQLAlchemyJobStore(url=setting("STORE", ""))
    return BackgroundScheduler(jobstores={"default": store}, executors={"default": ThreadPoolExecutor(10)}, timezone=UTC)


class ApschedulerProducer(Producer):
    """A scheduler that runs nothing while it is paused, or the one that runs the jobs."""

    has_bulk = False

    def __init__(self, running: Any = None) -> None:
        self._running = running

    async def setup(self) -> None:
        await self.open()
        await self.close()

    async def open(self) -> None:
        self._scheduler = self._running or _scheduler()
        if self._running is None:
            self._scheduler.start(paused=True)

    async def close(self) -> None:
        if self._running is None:
            self._scheduler.shutdown()

    async def add(self, job: Payload) -> None:
        self._add(job["t"], job)

    async def add_at(self, jobs: Sequence[tuple[float, Payload]]) -> None:
        for due, job in jobs:
            self._add(due, job)

    def _add(self, due: float, job: Payload) -> None:
        # Without a grace time: however late it is, it runs.
        self._scheduler.add_job(noop, "date", run_date=datetime.fromtimestamp(due, UTC), kwargs=job, misfire_grace_time=None)


def inside() -> None:
    """The scheduler, which takes jobs in as well."""
    scheduler = _scheduler()
    scheduler.start()
    obey_lines(ApschedulerProducer(scheduler))


PROGRAM = Program(ApschedulerProducer(), inside=inside)
