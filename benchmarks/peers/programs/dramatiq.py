"""Dramatiq with Redis."""

# The library is in an environment of its own.
# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, misc, no-untyped-call"

from __future__ import annotations

import time
from collections.abc import Sequence

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.marks import hit
from benchmarks.peers.programs.frame import Payload, Producer, Program, redis_url

broker = RedisBroker(url=redis_url())
dramatiq.set_broker(broker)


@dramatiq.actor(actor_name="noop")
def noop(i: int, t: float, pad: str, ms: int = 0) -> None:
    """Does nothing, or waits."""
    hit(t)
    if ms:
        time.sleep(ms / 1000)


class DramatiqProducer(Producer):
    """One connection."""

    has_bulk = False

    async def add(self, job: Payload) -> None:
        noop.send(**job)

    async def add_at(self, jobs: Sequence[tuple[float, Payload]]) -> None:
        # It takes a delay, not a time.
        for due, job in jobs:
            noop.send_with_options(kwargs=job, delay=max(0, round(1000 * (due - time.time()))))


PROGRAM = Program(DramatiqProducer())
