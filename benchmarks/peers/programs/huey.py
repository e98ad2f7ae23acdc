"""Huey with Redis, or with SQLite."""

# The library is in an environment of its own.
# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, misc, no-untyped-call"

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from huey import RedisHuey, SqliteHuey

from benchmarks.marks import hit
from benchmarks.peers.programs.frame import Payload, Producer, Program, redis_url, setting

if file := setting("FILE", ""):
    huey = SqliteHuey("bench", filename=file, results=False, fsync=setting("FSYNC", "") == "yes")
else:
    huey = RedisHuey("bench", url=redis_url(), results=False)


@huey.task(name="noop")
def noop(i: int, t: float, pad: str, ms: int = 0) -> None:
    """Does nothing, or waits."""
    hit(t)
    if ms:
        time.sleep(ms / 1000)


class HueyProducer(Producer):
    """One connection."""

    has_bulk = False

    async def add(self, job: Payload) -> None:
        noop(**job)

    async def add_at(self, jobs: Sequence[tuple[float, Payload]]) -> None:
        for due, job in jobs:
            noop.schedule(kwargs=job, eta=datetime.fromtimestamp(due, UTC))


PROGRAM = Program(HueyProducer())
