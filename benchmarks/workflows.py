"""What do workflows cost? A wide step beside a plain drain of as many no-ops, and the hand-over from step to step along a chain.

Processes are up and warm before anything begins. The rate counts from the first start to the last end, as the ledger has them, so the
making of the steps is in it: they are made while the first of them run. A hand-over is the time from the end of one step to the start of
the next, by the ledger's clock.

python -m benchmarks.workflows [--full] [--store postgres] [--cases fan-out]
"""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from json import dumps
from statistics import median

from benchmarks.harness import ACTOR, Scratch, on_demand_job, opened, processes, query
from benchmarks.question import Bound, Case, Question
from benchmarks.report import Failed, Figures
from benchmarks.run import main
from benchmarks.scale import Scale
from duly.adapters.system.clock import system_entropy
from duly.compose import Node
from duly.domain.ids import ExecutionId, new_id
from duly.domain.job import JobSpec, Target, Timing
from duly.domain.lifecycle import State
from duly.domain.target import WORKFLOW_HANDLER
from duly.domain.workflow.step import Step
from duly.usecases.executions import Wanted

ECHO = Target(handler="duly.echo")
PLAIN, FAN_OUT, CHAIN = "plain drain", "fan-out", "chain"
SERVING = (("scheduler",), ("worker", "--processes", "2", "--slots", "100"))


def _width(scale: Scale) -> int:
    return 2_000 if scale.is_short else 10_000


def _length(scale: Scale) -> int:
    return 100 if scale.is_short else 1_000


async def plain(store: Scratch, scale: Scale) -> Figures:
    """As many executions of one job, enqueued while the workers are up."""
    count = _width(scale)
    async with opened(store) as node:
        job = await on_demand_job(node, "duly.echo")
        with processes(store, *SERVING):
            await _warm(node)
            await node.executions.enqueue_for(job, [Wanted(payload="1")] * count)
            await _ended(
                store,
                f"SELECT count(*) FROM outcomes o JOIN executions e ON e.id = o.id WHERE e.job_id = {_sql(store, job.id)}",
                count,
                scale,
            )
    return await _rate(store, f"e.job_id = {_sql(store, job.id)}", count)


async def fan_out(store: Scratch, scale: Scale) -> Figures:
    """One step for each item of a list, and a step after all of them."""
    count = _width(scale)
    steps = (
        Step(name="list", target=ECHO, payload=dumps([1] * count)),
        Step(name="work", map="list", target=ECHO),
        Step(name="join", after=("work",), target=ECHO, payload="1"),
    )
    async with opened(store) as node:
        with processes(store, *SERVING):
            await _warm(node)
            run = await _run(node, steps, scale)
    rate = await _rate(store, "e.nth IS NOT NULL", count)
    (seconds,) = (
        await query(
            store,
            f"SELECT (o.finished_at - e.created_at) / 1e6 FROM outcomes o JOIN executions e ON e.id = o.id WHERE o.id = {_sql(store, run)}",
        )
    )[0]
    return rate | {"run_seconds": float(seconds)}


async def chain(store: Scratch, scale: Scale) -> Figures:
    """Steps one after another."""
    count = _length(scale)
    steps = tuple(Step(name=f"s{nth}", after=(f"s{nth - 1}",) if nth else (), target=ECHO, payload="1") for nth in range(count))
    async with opened(store) as node:
        with processes(store, *SERVING):
            await _warm(node)
            run = await _run(node, steps, scale)
    of_run = f"FROM executions e JOIN outcomes o ON o.id = e.id WHERE e.run = {_sql(store, run)}"
    rows = await query(store, f"SELECT o.started_at, o.finished_at {of_run} ORDER BY e.step")
    waits = sorted((following[0] - before[1]) / 1000 for before, following in pairwise(rows))
    return {"p50_ms": median(waits), "p99_ms": waits[int(len(waits) * 0.99)], "steps": count}


async def _warm(node: Node) -> None:
    """A small workflow and some executions, so that everybody has connected and looked."""
    job = await on_demand_job(node, "duly.echo")
    for _ in range(3):
        await node.executions.enqueue_for(job, [Wanted()] * 200)
        await asyncio.sleep(1.0)


async def _run(node: Node, steps: tuple[Step, ...], scale: Scale) -> ExecutionId:
    now = node.clock.now()
    spec = JobSpec(name=f"flow-{now}", timing=Timing(), target=Target(handler=WORKFLOW_HANDLER), steps=steps)
    job = (await node.jobs.create_specs(ACTOR, [(new_id(now, system_entropy), spec)], now))[0]
    run = (await node.executions.enqueue_for(job, [Wanted()]))[0].id
    until = time.monotonic() + scale.limit
    while (found := await node.executions.show(ACTOR, run)).finished_at is None:
        if time.monotonic() > until:
            raise Failed("the run did not end")
        await asyncio.sleep(0.05)
    if found.state is not State.SUCCEEDED:
        raise Failed(f"the run is {found.state.name}: {found.error}")
    return run


async def _ended(store: Scratch, sql: str, count: int, scale: Scale) -> None:
    until = time.monotonic() + scale.limit
    while (await query(store, sql))[0][0] < count:
        if time.monotonic() > until:
            raise Failed("not all of them ended")
        await asyncio.sleep(0.1)


async def _rate(store: Scratch, which: str, count: int) -> Figures:
    ends = "FROM outcomes o JOIN executions e ON e.id = o.id"
    sql = f"SELECT min(o.started_at), max(o.finished_at), count(*) {ends} WHERE {which} AND o.state = 4"
    first, last, ended = (await query(store, sql))[0]
    if ended != count:
        raise Failed(f"{ended} of {count} succeeded")
    return {"per_second": count / ((last - first) / 1e6), "jobs": count}


def _sql(store: Scratch, id: ExecutionId) -> str:
    return f"x'{id.hex}'" if store.kind == "sqlite" else f"'{id}'"


QUESTION = Question(
    name="workflows",
    title="Workflows",
    about="items of a wide step a second beside a plain drain of as many, and the hand-over from step to step in a chain",
    cases=(Case(name=PLAIN, ask=plain), Case(name=FAN_OUT, ask=fan_out), Case(name=CHAIN, ask=chain)),
    figures={"per_second": "a second", "p50_ms": "hand-over p50, ms", "p99_ms": "p99, ms"},
    base=PLAIN,
    bounds=(
        Bound(case=FAN_OUT, figure="per_second", bound=0.5, unit="×", times_as_much_as=PLAIN),
        Bound(case=CHAIN, figure="p50_ms", bound=10, unit="ms", more_is_better=False),
    ),
)


if __name__ == "__main__":
    main(QUESTION)
