"""How many fires a minute, end to end: schedule, execution, run, outcome?

Jobs that fire every second are spread evenly over it. They are created in steps, until more is asked for than can be done; each step is
measured once everybody has been at it for a while, and the best one counts. A fire counts when it was fired and done within the stretch
that is measured; one that is skipped, because the run before is still live, does not.

python -m benchmarks.fires [--full] [--store postgres] [--fires 40000]
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from benchmarks.figures import delays
from benchmarks.fleet import FAST, none_early, served
from benchmarks.harness import Look, Scratch, looking, on_demand_job, opened
from benchmarks.herd import created, every_second
from benchmarks.marks import Mark
from benchmarks.question import Bound, Case, Question
from benchmarks.report import Failed, Figures
from benchmarks.run import main
from benchmarks.scale import Scale
from benchmarks.targets import FIRES_A_MINUTE
from duly.domain.instants import SECOND
from duly.domain.lifecycle import State, Trigger
from duly.domain.overlap import Overlap, OverlapPolicy

RUN_UP = 3.0


class Step(NamedTuple):
    """So many were asked for a second, from one instant to another."""

    asked: int
    begins: int
    ends: int


async def fires(store: Scratch, scale: Scale, *, policy: OverlapPolicy) -> Figures:
    """One step after the other, on the same processes."""
    steps: list[Step] = []
    async with opened(store) as node:
        with served(store, FAST) as fleet:
            before = await fleet.warm(node, await on_demand_job(node, "noop"))
            for nth in range(1, scale.fire_steps + 1):
                asked = scale.fires_a_second * nth // scale.fire_steps
                more = asked - (steps[-1].asked if steps else 0)
                at, _ = await created(node, more, scale, every_second(more), Overlap(policy=policy), f"step{nth}")
                begins = max(at, node.clock.now()) + round(min(RUN_UP, scale.fire_seconds) * SECOND)
                steps.append(Step(asked, begins, begins + round(scale.fire_seconds * SECOND)))
                await asyncio.sleep((steps[-1].ends - node.clock.now()) / SECOND)
            marks = fleet.marks.read(before)
    none_early(marks)
    async with looking(store) as look:
        fired = f"FROM executions WHERE trigger = {Trigger.SCHEDULE.value}"
        sql = f"SELECT (SELECT count(*) {fired}), (SELECT count(*) FROM (SELECT DISTINCT job_id, due_at {fired}) AS fires)"
        ((executions, different),) = await look(sql)
        if executions != different:
            raise Failed(f"{executions - different:,} fired twice")
        found = [await _step(look, step, marks, scale.fire_seconds) for step in steps]
    return max(found, key=lambda figures: figures["per_minute"] or 0.0)


async def _step(look: Look, step: Step, marks: Sequence[Mark], seconds: float) -> Figures:
    # Its whole life is in the stretch: what had fired before is somebody else's.
    sql = f"""SELECT o.state, count(*) FROM executions e JOIN outcomes o ON o.id = e.id
              WHERE e.created_at >= {step.begins} AND o.finished_at < {step.ends} GROUP BY o.state"""
    by_state: dict[int, int] = dict(await look(sql))
    done, skipped = by_state.pop(State.SUCCEEDED.value, 0), by_state.pop(State.SKIPPED.value, 0)
    started = [mark for mark in marks if step.begins <= mark.started * SECOND < step.ends]
    if by_state or not started or done > len(marks):
        raise Failed(f"{done:,} done, {len(started):,} starts, and by state {by_state}")
    late = delays(started)
    return {
        "per_minute": 60 * done / seconds,
        "skipped_per_minute": 60 * skipped / seconds,
        "asked": 60.0 * step.asked,
        "p50": late["p50"],
        "p99": late["p99"],
    }


def _case(policy: OverlapPolicy) -> Case:
    return Case(name=f"overlap {policy.value}", ask=partial(fires, policy=policy))


QUESTION = Question(
    name="fires",
    title="Sustained fires, end to end",
    about="fires a minute that are done, at the best of several loads",
    cases=(_case(OverlapPolicy.ALLOW), _case(OverlapPolicy.SKIP)),
    figures={
        "per_minute": "done a minute",
        "skipped_per_minute": "skipped a minute",
        "asked": "asked for a minute",
        "p50": "started p50 ms",
        "p99": "started p99 ms",
    },
    compared="per_minute",
    bounds=tuple(
        Bound(case=f"overlap {policy}", figure="per_minute", bound=bound, unit=" a minute") for policy, bound in FIRES_A_MINUTE.items()
    ),
    is_long=True,
)


if __name__ == "__main__":
    main(QUESTION)
