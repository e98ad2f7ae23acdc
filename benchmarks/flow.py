"""How fast does work flow through while it is being brought in? A bulk producer in its own process, workers that wait for it.

The rate is over the whole: from the producer's first call to the end of the last handler. The producer runs on the same cores.

python -m benchmarks.flow [--full] [--store postgres] [--repeat 3]
"""

from __future__ import annotations

from benchmarks.drain import NOOP, RATES
from benchmarks.fleet import FAST, all_succeeded, each_once, served
from benchmarks.harness import Scratch, on_demand_job, opened
from benchmarks.producer import produced, producing
from benchmarks.question import Case, Question
from benchmarks.report import Figures
from benchmarks.run import main
from benchmarks.scale import Scale

WARM_UP = 20


async def flow(store: Scratch, scale: Scale) -> Figures:
    """Workers that are warm and idle, then all at once."""
    jobs = scale.jobs(100_000)
    async with opened(store) as node:
        job = await on_demand_job(node, "noop")
        with served(store, FAST) as fleet:
            before = await fleet.warm(node, job, WARM_UP)
            with producing(store, job, jobs) as producer:
                began, brought = await produced(producer)
                await fleet.started(WARM_UP + jobs, scale.limit)
                settled = await fleet.settled(scale.limit)
            marks = fleet.marks.read(before)
    each_once(marks, jobs)
    _, last = await all_succeeded(store, WARM_UP + jobs)
    return {
        "per_second": jobs / (last - began),
        "until_settled": jobs / (settled - began),
        "brought_a_second": jobs / (brought - began),
        "jobs": jobs,
        "seconds": last - began,
    }


QUESTION = Question(
    name="flow",
    title="Drain with a live bulk producer",
    about="executions a second, from the producer's first call to the last handler's end",
    cases=(Case(name=NOOP, ask=flow),),
    figures={**RATES, "brought_a_second": "brought in a second"},
    base=f"drain/{NOOP}",
    peers="≥ 2× Graphile Worker",
)


if __name__ == "__main__":
    main(QUESTION)
