"""A store that is served: the processes as people run them, the marks of their handlers, and waits that end."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.harness import LOG, PAGE, Scratch, looking, on_demand_job, opened, query, start, stop
from benchmarks.marks import PLACE, Mark, Marks
from benchmarks.report import Failed
from duly.compose import Node
from duly.domain.job import Job
from duly.domain.lifecycle import State
from duly.usecases.executions import Wanted

APPLICATION = "benchmarks.app:app"
SERVER = ("server", "--port", "0")
WORKER = ("worker", APPLICATION)
FAST = ("--processes", "2", "--slots", "100")
"""The flags of a worker that is to drain."""
PAD = "x" * 48

# Leases first: while one is held nothing else is looked at, and a look at a queue that is drained walks along all that was claimed (a
# sixth of a core, every 20 ms).
UNFINISHED = " OR ".join(f"EXISTS (SELECT 1 FROM {table})" for table in ("leases", "ready", "timers", "blocked"))
START = 60.0
EVERY = 0.02


class Fleet:
    """Processes on a store. What one of them says at its end is in the error of whoever waits for it."""

    def __init__(self, store: Scratch, marks: Marks, environment: Mapping[str, str] | None = None) -> None:
        self.store, self.marks = store, marks
        self.environment = {PLACE: str(marks.path), **(environment or {})}
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, role: str, command: Sequence[str]) -> None:
        """One more process, known by what it does."""
        self.running[role] = start(self.store, command, **self.environment)

    def kill(self, role: str) -> float:
        """End one as `kill -9` does; when."""
        process = self.running.pop(role)
        process.kill()
        at = time.time()
        stop([process])
        return at

    def stop(self, role: str) -> float:
        """Ask one to end; when. It is gone when this returns."""
        process, at = self.running.pop(role), time.time()
        stop([process])
        return at

    async def wait(self, what: str, is_so: Callable[[], Awaitable[bool]], limit: float, every: float = EVERY) -> float:
        """Until it is so; the time at which it was seen."""
        until = time.monotonic() + limit
        while not await is_so():
            for role, process in self.running.items():
                if process.poll() is not None:
                    raise Failed(f"the {role} ended with {process.returncode} before {what}: {self._last_words()}")
            if time.monotonic() > until:
                raise Failed(f"not within {limit:g} s: {what}; {self.marks.count():,} handlers have started: {self._last_words()}")
            await asyncio.sleep(every)
        return time.time()

    async def started(self, count: int, limit: float) -> None:
        """Until so many handlers have started."""

        async def is_so() -> bool:
            return self.marks.count() >= count

        await self.wait(f"{count:,} handlers had started", is_so, limit)

    async def settled(self, limit: float) -> float:
        """Until the store says that nothing waits and nothing runs; when it said so."""
        async with looking(self.store) as look:

            async def is_so() -> bool:
                return not (await look(f"SELECT {UNFINISHED}"))[0][0]

            return await self.wait("nothing was left", is_so, limit)

    async def warm(self, node: Node, job: Job, count: int = 20) -> dict[Path, int]:
        """Until everybody is there and has run something; what to leave out of the marks."""
        await node.executions.enqueue_for(job, [wanted(-1.0)] * count)
        await self.started(count, START)
        await self.settled(START)
        return self.marks.counts()

    def _last_words(self, lines: int = 12) -> str:
        text = (self.store.directory / LOG).read_text(errors="replace") if (self.store.directory / LOG).exists() else ""
        return "\n".join(text.strip().splitlines()[-lines:]) or "(they said nothing)"


@contextlib.contextmanager
def served(store: Scratch, worker: Sequence[str] = (), servers: int = 1, environment: Mapping[str, str] | None = None) -> Iterator[Fleet]:
    """As people run it: one process for all on a file, servers beside a worker on PostgreSQL."""
    with Marks() as marks:
        fleet = Fleet(store, marks, environment)
        try:
            if store.kind == "sqlite" and servers == 1:
                fleet.start("process", ["up", APPLICATION, "--port", "0", *_without_processes(worker)])
            else:
                for nth in range(servers):
                    fleet.start("server" if nth == 0 else f"server {nth + 1}", SERVER)
                fleet.start("worker", [*WORKER, *worker])
            yield fleet
        finally:
            stop(list(fleet.running.values()))


def _without_processes(flags: Sequence[str]) -> list[str]:
    """A file has one writer: `duly up` takes the rest of a worker's flags."""
    words = list(flags)
    if "--processes" in words:
        at = words.index("--processes")
        del words[at : at + 2]
    return words


# ------------------------------------------------------------ filling


def wanted(carried: float, run_at: int | None = None) -> Wanted:
    """One execution of about a hundred bytes."""
    return Wanted(payload=f'{{"carried":{carried!r},"pad":"{PAD}"}}', run_at=run_at)


async def fill(node: Node, job: Job, count: int) -> None:
    """So many executions, numbered from zero, the quickest way there is."""
    for first in range(0, count, PAGE):
        await node.executions.enqueue_for(job, [wanted(float(n)) for n in range(first, min(first + PAGE, count))])


async def filled(store: Scratch, handler: str, count: int, batch: int = 1) -> float:
    """The same before anybody serves the store; how many a second it took."""
    async with opened(store) as node:
        job = await on_demand_job(node, handler, batch=batch)
        began = time.perf_counter()
        await fill(node, job, count)
        rate = count / (time.perf_counter() - began)
    if store.server is not None:
        # What autovacuum would have done for a table that is in use.
        await query(store, "VACUUM ANALYZE")
    return rate


# ------------------------------------------------------------ what must be true


def each_once(marks: Sequence[Mark], count: int) -> None:
    """Every number from zero was carried by exactly one start."""
    numbers = sorted(mark.carried for mark in marks)
    if numbers != [float(n) for n in range(count)]:
        raise Failed(f"{count:,} executions, {len(numbers):,} starts, {len(set(numbers)):,} of them different")


def none_early(marks: Sequence[Mark]) -> None:
    """Nothing started before the time that it carried."""
    if early := sum(mark.started < mark.carried for mark in marks):
        raise Failed(f"{early:,} of {len(marks):,} started early")


async def all_succeeded(store: Scratch, count: int, at_least: bool = False) -> tuple[float, float]:
    """The ledger has so many successes at the first attempt and nothing else; the first start and the last end, in seconds."""
    sql = f"""SELECT count(*), coalesce(sum(CASE WHEN state = {State.SUCCEEDED.value} AND attempt = 1 THEN 1 ELSE 0 END), 0),
                     min(started_at), max(finished_at)
              FROM outcomes"""
    ((outcomes, succeeded, first, last),) = await query(store, sql)
    if outcomes != succeeded or (outcomes < count if at_least else outcomes != count):
        raise Failed(f"of {count:,} executions {outcomes:,} have an outcome and {succeeded:,} succeeded at once")
    return first / 1e6, last / 1e6
