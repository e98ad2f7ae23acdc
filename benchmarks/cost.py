"""What does it use? Memory at rest and under load, and processor time for a thousand jobs: of the worker, the server and the database.

Memory is the proportional share of each process and its children (PSS): what several share is counted once, which matters for
PostgreSQL. Processor time is what the kernel has counted for the whole tree. The load is brought in by a producer in a process of its
own, whose own time is not counted but whose statements are the database's.

python -m benchmarks.cost [--full] [--store postgres]
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from benchmarks.drain import NOOP
from benchmarks.fleet import FAST, all_succeeded, each_once, served
from benchmarks.harness import Scratch, on_demand_job, opened
from benchmarks.producer import produced, producing
from benchmarks.question import Case, Question
from benchmarks.report import Failed, Figures
from benchmarks.run import main
from benchmarks.scale import Scale
from benchmarks.usage import memory_bytes, processor_seconds

WARM_UP = 20
MEGABYTE = 2**20
ROLES = ("worker", "server", "database")
Roots = Mapping[str, int]


async def cost(store: Scratch, scale: Scale) -> Figures:
    """At rest first, then a stream of jobs."""
    jobs = scale.jobs(100_000)
    async with opened(store) as node:
        job = await on_demand_job(node, "noop")
        with served(store, FAST) as fleet:
            before = await fleet.warm(node, job, WARM_UP)
            # A file is served by one process, which is the worker and all else.
            roots = {role.replace("process", "worker"): process.pid for role, process in fleet.running.items()}
            if store.server is not None:
                roots["database"] = store.server.pid
            began, rested, at_rest = time.monotonic(), _used(roots), _memory(roots)
            await asyncio.sleep(scale.rest_seconds)
            idle = {role: 100 * used / (time.monotonic() - began) for role, used in _since(rested, roots).items()}
            loaded, most = _used(roots), dict(at_rest)
            with producing(store, job, jobs) as producer:
                bringing = asyncio.create_task(produced(producer))

                async def is_done() -> bool:
                    nonlocal most
                    most = {role: max(found, most[role]) for role, found in _memory(roots).items()}
                    return bringing.done() and fleet.marks.count() >= WARM_UP + jobs

                await fleet.wait(f"{jobs:,} handlers had started", is_done, scale.limit, every=0.2)
                await bringing
                await fleet.settled(scale.limit)
            used = _since(loaded, roots)
            marks = fleet.marks.read(before)
    each_once(marks, jobs)
    await all_succeeded(store, WARM_UP + jobs)
    found: Figures = {"jobs": jobs}
    for role in roots:
        found |= {f"{role}_rest": at_rest[role], f"{role}_load": most[role], f"{role}_idle": idle[role]}
        # Seconds for so many jobs: milliseconds for a thousand.
        found[f"{role}_cpu"] = 1e6 * used[role] / jobs
    return found


def _used(roots: Roots) -> dict[str, float]:
    found = {role: processor_seconds([pid]) for role, pid in roots.items()}
    if None in found.values():
        raise Failed("nobody counts processor time here: there is no /proc")
    return {role: seconds or 0.0 for role, seconds in found.items()}


def _since(before: Mapping[str, float], roots: Roots) -> dict[str, float]:
    return {role: after - before[role] for role, after in _used(roots).items()}


def _memory(roots: Roots) -> dict[str, float]:
    return {role: memory_bytes(pid) / MEGABYTE for role, pid in roots.items()}


QUESTION = Question(
    name="cost",
    title="Memory and processor time",
    about="MiB (PSS) of a process and its children; milliseconds of processor time for 1,000 jobs",
    cases=(Case(name=NOOP, ask=cost),),
    figures={
        **{f"{role}_{when}": f"{role} MiB {words}" for role in ROLES for when, words in (("rest", "at rest"), ("load", "at most"))},
        **{f"{role}_cpu": f"{role} CPU ms/1,000" for role in ROLES},
        **{f"{role}_idle": f"{role} CPU % at rest" for role in ROLES},
    },
    compared="worker_cpu",
    more_is_better=False,
    is_long=True,
)


if __name__ == "__main__":
    main(QUESTION)
