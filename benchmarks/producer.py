"""A bulk producer in a process of its own: as fast as the store takes it, a thousand at a time.

    python -m benchmarks.producer JOB COUNT [--tenant N] [--payload JSON]

It prints when it made its first call and when its last one returned. Without a payload it numbers the executions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time

from benchmarks.fleet import fill
from benchmarks.harness import PAGE, Scratch
from duly import config
from duly.compose import open_node
from duly.domain.access import DEFAULT_TENANT_NUMBER, Actor, Role
from duly.domain.ids import parse_job_id
from duly.domain.job import Job
from duly.usecases.executions import Wanted


def producing(store: Scratch, job: Job, count: int, *words: str, aside: bool = False) -> subprocess.Popen[str]:
    """The process, which has begun. `aside`: it has the processors that nobody else wants, as if it came from another machine."""
    command = [sys.executable, "-m", "benchmarks.producer", job.id.hex, str(count), *words]
    if aside:
        command = ["nice", "-n", "19", *command]
    return subprocess.Popen(command, env=store.environment(), stdout=subprocess.PIPE, text=True)


async def produced(process: subprocess.Popen[str]) -> tuple[float, float]:
    """Its first call and the return of its last, once it has ended."""
    said, _ = await asyncio.to_thread(process.communicate)
    if process.returncode != 0:
        raise RuntimeError(f"the producer ended with {process.returncode}")
    began, ended = json.loads(said)
    return began, ended


async def produce(job_id: str, count: int, tenant: int, payload: str | None) -> tuple[float, float]:
    """Bring them in."""
    node = await open_node(config.load())
    try:
        job = await node.jobs.show(Actor(tenant, "", Role.ADMIN, "benchmark"), parse_job_id(f"job_{job_id}"))
        began = time.time()
        if payload is None:
            await fill(node, job, count)
        else:
            for start in range(0, count, PAGE):
                await node.executions.enqueue_for(job, [Wanted(payload)] * min(PAGE, count - start))
        return began, time.time()
    finally:
        await node.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job")
    parser.add_argument("count", type=int)
    parser.add_argument("--tenant", type=int, default=DEFAULT_TENANT_NUMBER)
    parser.add_argument("--payload")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(produce(options.job, options.count, options.tenant, options.payload))))


if __name__ == "__main__":
    main()
