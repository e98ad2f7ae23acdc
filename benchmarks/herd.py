"""How long does it take when very many cron jobs fire in the same second, until all of them are done?

The jobs are created in bulk, each with a schedule of its own, in a store that is served and has nothing else to do. The clock starts at
the instant of the fire and stops when somebody who looks at the store finds nothing left.

python -m benchmarks.herd [--full] [--store postgres]
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from benchmarks.figures import delays
from benchmarks.fleet import FAST, none_early, served
from benchmarks.harness import Scratch, create_jobs, on_demand_job, opened, query
from benchmarks.question import Bound, Case, Question
from benchmarks.report import Failed, Figures
from benchmarks.run import main
from benchmarks.scale import Scale
from benchmarks.targets import HERD_SECONDS
from duly.compose import Node
from duly.domain.instants import MINUTE, SECOND
from duly.domain.job import JobSpec, JobType, Target, Timing
from duly.domain.lifecycle import State
from duly.domain.overlap import Overlap

LEAST_SAMPLE = 500
NEXT_YEAR = 365 * 86_400 * SECOND


async def herd(store: Scratch, scale: Scale) -> Figures:
    """All at one instant, with the overlap and the catch-up that a job has unless it says otherwise."""
    count = scale.herd_jobs
    async with opened(store) as node:
        with served(store, FAST) as fleet:
            await fleet.warm(node, await on_demand_job(node, "noop"))
            at, rate = await created(node, count, scale, lambda at, _: every_minute(at))
            # Whoever was created too late for the first minute is there for the next.
            while at < node.clock.now() + scale.lead * SECOND / 2:
                at += MINUTE
            await asyncio.sleep((at - node.clock.now()) / SECOND - 0.2)
            await fleet.started(fleet.marks.count() + count, scale.limit)
            done = await fleet.settled(scale.limit)
            marks = [mark for mark in fleet.marks.read() if mark.carried == at / SECOND]
    sql = f"""SELECT count(*), count(DISTINCT e.job_id) FROM executions e JOIN outcomes o ON o.id = e.id
              WHERE e.due_at = {at} AND o.state = {State.SUCCEEDED.value} AND o.attempt = 1"""
    ((executions, jobs),) = await query(store, sql)
    if not executions == jobs == len(marks) == count:
        raise Failed(f"{count:,} jobs, {jobs:,} of them succeeded in {executions:,} executions and {len(marks):,} starts")
    none_early(marks)
    late = delays(marks)
    return {"seconds": done - at / SECOND, "p50": late["p50"], "p99": late["p99"], "created_a_second": rate, "jobs": count}


def every_minute(at: int) -> Timing:
    """Once a minute, first at this second."""
    return Timing(type=JobType.CRON, cron=f"{at // SECOND % 60} * * * * *", seconds=True, start_at=at)


def every_second(count: int) -> Callable[[int, int], Timing]:
    """The timing of each of so many jobs that fire once a second, spread evenly over it."""

    def timing(at: int, nth: int) -> Timing:
        first = at + nth * SECOND // count
        return Timing(type=JobType.INTERVAL, every=SECOND, anchor=first, start_at=first)

    return timing


async def created(
    node: Node, count: int, scale: Scale, timing_of: Callable[[int, int], Timing], overlap: Overlap | None = None, name: str = "job"
) -> tuple[int, float]:
    """So many jobs, and an instant that is likely to leave time to create them: from then on they fire.

    That instant, and how many were created a second. On a busy machine it may be over.
    """
    policy = overlap or Overlap()

    def spec(nth: int, name: str, at: int) -> JobSpec:
        return JobSpec(name=f"{name}-{nth}", timing=timing_of(at, nth), target=Target(handler="tick"), overlap=policy)

    # How long will it take? A few first, which never fire here.
    sample, never = max(LEAST_SAMPLE, count // 20), node.clock.now() + NEXT_YEAR
    began = time.perf_counter()
    await create_jobs(node, sample, lambda nth: spec(nth, f"{name}-sample", never))
    each = (time.perf_counter() - began) / sample
    at = (node.clock.now() // SECOND + 1 + round(1.5 * each * count + scale.lead)) * SECOND
    began = time.perf_counter()
    await create_jobs(node, count, lambda nth: spec(nth, name, at))
    return at, count / (time.perf_counter() - began)


QUESTION = Question(
    name="herd",
    title="Cron jobs that all fire in one second",
    about="seconds from that second until all are done",
    cases=(Case(name="one cron schedule each", ask=herd),),
    figures={"seconds": "all done, s", "p50": "started p50 ms", "p99": "started p99 ms", "created_a_second": "created a second"},
    compared="seconds",
    more_is_better=False,
    bounds=(Bound(case="one cron schedule each", figure="seconds", bound=HERD_SECONDS, unit=" s", more_is_better=False),),
    is_long=True,
)


if __name__ == "__main__":
    main(QUESTION)
