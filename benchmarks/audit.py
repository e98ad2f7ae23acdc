"""What does the audit trail cost an enqueue? The same calls with and without a record, in turns, and how fast records are linked.

python -m benchmarks.audit [--full] [--store postgres]
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial

from benchmarks.harness import ACTOR, Scratch, on_demand_job, opened, query
from benchmarks.question import Case, Question
from benchmarks.report import Failed, Figures
from benchmarks.run import main
from benchmarks.scale import Scale
from benchmarks.submit import counted
from duly.compose import Node
from duly.domain.access import Actor
from duly.domain.job import Job
from duly.usecases.executions import Wanted


async def audit(store: Scratch, scale: Scale, *, size: int, callers: int) -> Figures:
    """In turns, so that a busy machine is busy for both."""
    seconds = scale.enqueue_seconds / 4
    async with opened(store) as node:
        job = await on_demand_job(node, "noop")
        without, recorded = _asking(node, job, size, None), _asking(node, job, size, ACTOR)
        await counted(recorded, seconds / 2, callers)
        pairs = [(await _rate(without, seconds, callers), await _rate(recorded, seconds, callers)) for _ in range(scale.rounds)]
        began, linked = time.perf_counter(), 0
        while more := await node.store.audit.link(500):
            linked += more
        took = time.perf_counter() - began
    ((records,),) = await query(store, "SELECT count(*) FROM audit")
    if linked != records:
        raise Failed(f"{records:,} records and {linked:,} of them linked")
    return {
        "without": statistics.median(rate for rate, _ in pairs),
        "recorded": statistics.median(rate for _, rate in pairs),
        "cost_percent": 100 * statistics.median(1 - slower / faster for faster, slower in pairs),
        "linked_a_second": linked / took,
    }


def _asking(node: Node, job: Job, size: int, actor: Actor | None) -> Callable[[], Awaitable[int]]:
    async def ask() -> int:
        return len(await node.executions.enqueue_for(job, [Wanted(payload="{}")] * size, actor=actor))

    return ask


async def _rate(call: Callable[[], Awaitable[int]], seconds: float, callers: int) -> float:
    done, took = await counted(call, seconds, callers)
    return done / took


QUESTION = Question(
    name="audit",
    title="What the audit trail costs an enqueue",
    about="executions a second, without a record of who asked and with it",
    cases=(
        Case(name="one caller", ask=partial(audit, size=1, callers=1)),
        Case(name="64 callers", ask=partial(audit, size=1, callers=64)),
        Case(name="four callers, 100 at a time", ask=partial(audit, size=100, callers=4)),
        Case(name="one caller, 1,000 at a time", ask=partial(audit, size=1000, callers=1)),
    ),
    figures={
        "without": "without, a second",
        "recorded": "recorded, a second",
        "cost_percent": "costs %",
        "linked_a_second": "records linked a second",
    },
    compared="recorded",
    is_long=True,
)


if __name__ == "__main__":
    main(QUESTION)
