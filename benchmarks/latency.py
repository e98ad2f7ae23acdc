"""How soon does it start? Pick-up: from the clock before the enqueue call to the handler's first line. Lateness: from the due time.

Everybody is warm before the first one counts. The caller is another process than whoever serves the store, on the same machine and by
the same clock; it enqueues at a steady pace, whatever a single call takes.

python -m benchmarks.latency [--full] [--store postgres] [--cases pick-up]
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from benchmarks.figures import delays
from benchmarks.fleet import all_succeeded, none_early, served, wanted
from benchmarks.harness import PAGE, Scratch, on_demand_job, opened
from benchmarks.marks import Mark
from benchmarks.question import Bound, Case, Question
from benchmarks.report import Failed, Figures
from benchmarks.run import main
from benchmarks.scale import Scale
from benchmarks.targets import PICK_UP_MS, SAME_SECOND_MS, SPREAD_MS
from duly.domain.instants import SECOND

RATE = 50
WARM_UP = 50
PICK_UP, SPREAD, SAME = "pick-up at 50 a second", "1,000 over 20 s", "200 in one second"


async def pick_up(store: Scratch, scale: Scale) -> Figures:
    """A steady trickle."""
    count = round(RATE * scale.pick_up_seconds)
    async with opened(store) as node:
        job = await on_demand_job(node, "noop")
        with served(store) as fleet:
            before = await fleet.warm(node, job, WARM_UP)
            began = time.time()
            calls: list[asyncio.Task[object]] = []
            for nth in range(count):
                await asyncio.sleep(max(0.0, began + nth / RATE - time.time()))
                calls.append(asyncio.create_task(node.executions.enqueue_for(job, [wanted(time.time())])))
            await asyncio.gather(*calls)
            await fleet.started(WARM_UP + count, scale.limit)
            await fleet.settled(scale.limit)
            marks = fleet.marks.read(before)
    return await _judged(store, marks, count)


async def spread(store: Scratch, scale: Scale) -> Figures:
    """One-off executions, one after the other in time."""
    return await _due(store, scale, [round(nth * scale.spread_seconds * SECOND / scale.spread_jobs) for nth in range(scale.spread_jobs)])


async def same_second(store: Scratch, scale: Scale) -> Figures:
    """All at one instant."""
    return await _due(store, scale, [0] * scale.same_second_jobs)


async def _due(store: Scratch, scale: Scale, offsets: Sequence[int]) -> Figures:
    async with opened(store) as node:
        job = await on_demand_job(node, "noop")
        with served(store) as fleet:
            before = await fleet.warm(node, job, WARM_UP)
            first = node.clock.now() + round(scale.lead * SECOND)
            for start in range(0, len(offsets), PAGE):
                due = [first + offset for offset in offsets[start : start + PAGE]]
                await node.executions.enqueue_for(job, [wanted(at / SECOND, run_at=at) for at in due])
            if node.clock.now() > first:
                raise Failed(f"enqueueing took longer than {scale.lead:g} s, when the first was due")
            await fleet.started(WARM_UP + len(offsets), scale.lead + offsets[-1] / SECOND + scale.limit)
            await fleet.settled(scale.limit)
            marks = fleet.marks.read(before)
    return await _judged(store, marks, len(offsets))


async def _judged(store: Scratch, marks: Sequence[Mark], count: int) -> Figures:
    """All of them ran, once, and none early."""
    if len(marks) != count:
        raise Failed(f"{count:,} executions, {len(marks):,} starts")
    none_early(marks)
    await all_succeeded(store, WARM_UP + count)
    found = delays(marks)
    return {"p50": found["p50"], "p99": found["p99"], "max": found["max"], "jobs": count}


QUESTION = Question(
    name="latency",
    title="How soon it starts",
    about="milliseconds from the call or the due time to the handler's first line",
    cases=(Case(name=PICK_UP, ask=pick_up), Case(name=SPREAD, ask=spread), Case(name=SAME, ask=same_second)),
    figures={"p50": "p50 ms", "p99": "p99 ms", "max": "max ms"},
    compared="p99",
    more_is_better=False,
    has_delays=True,
    bounds=tuple(
        Bound(case=case, figure=figure, bound=bound, unit=f" ms {figure}", more_is_better=False)
        for case, bounds in ((PICK_UP, PICK_UP_MS), (SPREAD, SPREAD_MS), (SAME, SAME_SECOND_MS))
        for figure, bound in bounds.items()
    ),
    is_long=True,
)


if __name__ == "__main__":
    main(QUESTION)
