"""Celery with Redis; `inside` is beat, which fires on a crontab."""

# The library is in an environment of its own.
# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, misc, no-untyped-call"

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from celery import Celery
from celery.schedules import crontab

from benchmarks.marks import hit
from benchmarks.peers.programs.frame import Payload, Producer, Program, obey_lines, redis_url, setting

app = Celery("bench", broker=redis_url())
app.conf.update(
    task_ignore_result=True,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=int(setting("PREFETCH", "4")),
    timezone="UTC",
    enable_utc=True,
)


@app.task(name="noop")
def noop(i: int, t: float, pad: str, ms: int = 0) -> None:
    """Does nothing, or waits."""
    hit(t)
    if ms:
        time.sleep(ms / 1000)


class CeleryProducer(Producer):
    """One connection of the application's pool."""

    has_bulk = False

    async def add(self, job: Payload) -> None:
        noop.apply_async(kwargs=job)

    async def add_at(self, jobs: Sequence[tuple[float, Payload]]) -> None:
        for due, job in jobs:
            noop.apply_async(kwargs=job, eta=datetime.fromtimestamp(due, UTC))


class BeatProducer(CeleryProducer):
    """Entries of the beat schedule, all on the minute that is asked for; beat starts when they are known."""

    async def add_at(self, jobs: Sequence[tuple[float, Payload]]) -> None:
        app.conf.beat_schedule = {str(job["i"]): _entry(due, job) for due, job in jobs}
        beat = app.Beat(schedule=setting("FILE", ""), loglevel="ERROR", quiet=True)
        threading.Thread(target=beat.start_scheduler, daemon=True).start()


def _entry(due: float, job: Payload) -> dict[str, object]:
    at = datetime.fromtimestamp(due, UTC)
    when = crontab(minute=at.minute, hour=at.hour, day_of_month=at.day, month_of_year=at.month)
    return {"task": "noop", "schedule": when, "kwargs": job}


def beat() -> None:
    """Beat in this process, with the entries that it is asked for; the workers are others."""
    obey_lines(BeatProducer())


PROGRAM = Program(CeleryProducer(), inside=beat)
