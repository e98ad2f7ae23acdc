"""How fast does it drain while an old snapshot is held open, so that nothing of what was deleted can be cleaned up?

A second round on the same snapshot has the dead rows of the first before it.

python -m benchmarks.pinned [--full] [--repeat 3]
"""

from __future__ import annotations

from benchmarks.drain import NOOP, RATES, drain
from benchmarks.fleet import FAST, all_succeeded, each_once, fill, filled, served
from benchmarks.harness import Scratch, on_demand_job, opened
from benchmarks.postgres import old_snapshot
from benchmarks.question import Case, Question
from benchmarks.report import Figures
from benchmarks.run import main
from benchmarks.scale import Scale

STORES = ("postgres",)


async def pinned(store: Scratch, scale: Scale) -> Figures:
    """The snapshot is as old as the full queue."""
    return await drain(store, scale, pinned=True)


async def again(store: Scratch, scale: Scale) -> Figures:
    """The second of two rounds under one snapshot; workers start anew for it."""
    jobs = scale.jobs(100_000)
    with old_snapshot(store.database, store.url):
        await filled(store, "noop", jobs)
        with served(store, FAST) as fleet:
            await fleet.started(jobs, scale.limit)
            await fleet.settled(scale.limit)
        async with opened(store) as node:
            await fill(node, await on_demand_job(node, "noop"), jobs)
        with served(store, FAST) as fleet:
            await fleet.started(jobs, scale.limit)
            settled = await fleet.settled(scale.limit)
            marks = fleet.marks.read()
    each_once(marks, jobs)
    _, last = await all_succeeded(store, 2 * jobs)
    first = marks[0].started
    return {"per_second": jobs / (last - first), "until_settled": jobs / (settled - first), "jobs": jobs}


QUESTION = Question(
    name="pinned",
    title="Drain while an old snapshot is held open",
    about="executions a second, from the first handler's start to the last one's end",
    cases=(
        Case(name="a full queue", ask=pinned, stores=STORES),
        Case(name="a second full queue", ask=again, stores=STORES),
    ),
    figures=RATES,
    base=f"drain/{NOOP}",
    peers="≥ 2× Graphile Worker",
    is_long=True,
)


if __name__ == "__main__":
    main(QUESTION)
