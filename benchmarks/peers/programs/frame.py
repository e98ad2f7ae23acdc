"""The frame of a program: the commands that every one of them takes. `frame.js` is the same for Node.

    setup             make the schema
    fill N            enqueue N jobs, the quickest way there is
    single SECONDS    enqueue one by one for so long
    bulk SECONDS      enqueue a thousand at a time for so long
    paced N RATE      enqueue N jobs one by one, so many a second
    at                enqueue jobs that are due at the times on standard input
    worker            run jobs until SIGTERM
    inside            the same, and obey commands on standard input: for systems whose producer is the process that runs the jobs

A command answers one line, `RESULT` and JSON. Only the standard library: every environment can import it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.work import payload

PAGE = 1000
Payload = dict[str, Any]


class Producer:
    """How a system takes jobs in. A library that blocks may block here: nothing else runs in this process."""

    has_bulk = True

    async def setup(self) -> None:
        """Make the schema; nothing where there is none."""

    async def open(self) -> None:
        """Connect."""

    async def close(self) -> None:
        """Let go."""

    async def add(self, job: Payload) -> None:
        """Enqueue one job; it is durable, as far as the system makes it so, when this returns."""
        raise NotImplementedError

    async def add_many(self, jobs: Sequence[Payload]) -> None:
        """Enqueue many jobs in one call."""
        raise NotImplementedError

    async def add_at(self, jobs: Sequence[tuple[float, Payload]]) -> None:
        """Enqueue jobs that are due at their times."""
        raise NotImplementedError

    async def fill(self, count: int) -> None:
        """Enqueue so many, the quickest way there is."""
        if self.has_bulk:
            for start in range(0, count, PAGE):
                await self.add_many([payload(i) for i in range(start, min(start + PAGE, count))])
        else:
            for i in range(count):
                await self.add(payload(i))


def setting(name: str, default: str) -> str:
    """An option of the setting that is measured."""
    return os.environ.get(f"BENCH_{name}", default)


def dsn() -> str:
    """The PostgreSQL database of this measurement."""
    return os.environ["BENCH_DSN"]


def redis_url() -> str:
    """The Redis of this measurement."""
    return os.environ["BENCH_REDIS"]


async def obey(producer: Producer, command: str, words: Sequence[str], text: str) -> dict[str, Any]:
    """Carry out one command; what to answer."""
    if command == "setup":
        await producer.setup()
        return {}
    await producer.open()
    try:
        return await _produce(producer, command, words, text)
    finally:
        await producer.close()


async def _produce(producer: Producer, command: str, words: Sequence[str], text: str) -> dict[str, Any]:
    match command, *words:
        case "fill", count:
            await producer.fill(int(count))
            return {}
        case "single", seconds:
            return await _for(float(seconds), 1, lambda i: producer.add(payload(i)))
        case "bulk", seconds:
            return await _for(float(seconds), PAGE, lambda i: producer.add_many([payload(i + n) for n in range(PAGE)]))
        case "paced", count, rate:
            began = time.time()
            for i in range(int(count)):
                await asyncio.sleep(max(0.0, began + i / float(rate) - time.time()))
                await producer.add(payload(i))
            return {}
        case ("at",):
            await producer.add_at([(due, payload(i, due)) for i, due in enumerate(json.loads(text))])
            return {"at": time.time()}
        case _:
            raise SystemExit(f"what is {command!r} {words!r}?")


async def _for(seconds: float, size: int, call: Callable[[int], Awaitable[None]]) -> dict[str, Any]:
    # The first one connects, prepares and warms up.
    await call(0)
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        await call(count)
        count += size
    return {"count": count, "seconds": time.perf_counter() - began}


def answer(result: dict[str, Any]) -> None:
    """Tell whoever asked, though a library may have turned standard output into its log."""
    print("RESULT", json.dumps(result), file=sys.__stdout__, flush=True)


@dataclass(frozen=True)
class Program:
    """What a module of this folder offers as `PROGRAM`."""

    producer: Producer
    worker: Callable[[], None] | None = None
    inside: Callable[[], None] | None = None


def carry_out(program: Program, command: str, words: Sequence[str]) -> None:
    """Do what the command line says."""
    if command == "worker" and program.worker is not None:
        program.worker()
    elif command == "inside" and program.inside is not None:
        program.inside()
    else:
        answer(asyncio.run(obey(program.producer, command, words, sys.stdin.read() if command == "at" else "")))


def obey_lines(producer: Producer) -> None:
    """Carry out the commands on standard input, one JSON list a line, until it ends."""
    for line in sys.stdin:
        command, words, text = json.loads(line)
        answer(asyncio.run(obey(producer, command, words, text)))
