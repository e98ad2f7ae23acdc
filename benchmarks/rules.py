"""What do thousands of alert rules cost while all is well? Jobs that each bring two, some runs of each, and rounds of the alerter.

`in turns` is what runs: what stirs is judged, and some of the others. `each` judges every rule in every round. A round comes every five
seconds: its processor time, of this process and the database, divided by five seconds is what of a core it takes.

python -m benchmarks.rules [--full] [--store postgres]
"""

from __future__ import annotations

import statistics
import time
from functools import partial

from benchmarks.harness import ACTOR, Scratch, create_jobs, opened
from benchmarks.question import Case, Question
from benchmarks.report import Failed, Figures
from benchmarks.run import main
from benchmarks.scale import Scale
from benchmarks.usage import processor_seconds
from duly.adapters.system.clock import system_entropy
from duly.compose import Node
from duly.compose.notices import sender_of
from duly.domain.alerts.of_job import JobAlert
from duly.domain.instants import MINUTE
from duly.domain.job import JobSpec, Target, Timing
from duly.ports.definitions import JobFilter
from duly.roles.alerter import Alerter, AlerterSettings
from duly.usecases.executions import Wanted

JOBS = 2_500
RUNS = 3
"""Of each job. They wait, and not yet for too long."""
ROUNDS = 5


async def rules(store: Scratch, scale: Scale, *, at_ease: int | None = None) -> Figures:
    """So many jobs with two rules each, and what a round of judging them takes."""
    jobs = min(JOBS, scale.most_jobs)
    async with opened(store) as node:
        await _jobs(node, jobs)
        more = {} if at_ease is None else {"at_ease": at_ease}
        alerts, sender = node.store.alerts, sender_of(node.settings, node.clock)
        alerter = Alerter("a", alerts, node.store.figures, node.store.calendars, sender, system_entropy, AlerterSettings(**more))
        await _round(alerter, node)
        found = []
        for _ in range(ROUNDS):
            began, used = time.perf_counter(), time.process_time() + _database(store)
            steps = await _round(alerter, node)
            found.append((time.perf_counter() - began, time.process_time() + _database(store) - used, steps))
        count = len(await alerts.rules())
    if count != 2 * jobs:
        raise Failed(f"{2 * jobs:,} rules and {count:,} of them there")
    return {
        "rules": count,
        "round_ms": 1e3 * statistics.median(wall for wall, _, _ in found),
        "processor_ms": 1e3 * statistics.median(used for _, used, _ in found),
        "core_percent": 100 * statistics.median(used for _, used, _ in found) / AlerterSettings().every,
        "steps": statistics.median(steps for _, _, steps in found),
    }


async def _jobs(node: Node, count: int) -> None:
    alert = JobAlert(failures=3, late_after=30 * MINUTE)

    def spec_of(nth: int) -> JobSpec:
        return JobSpec(name=f"job-{nth:05}", timing=Timing(), target=Target(handler="noop"), alert=alert)

    await create_jobs(node, count, spec_of)
    for job in await node.store.definitions.jobs(JobFilter(ACTOR.tenant, limit=count)):
        await node.executions.enqueue_for(job, [Wanted(payload="{}")] * RUNS)


async def _round(alerter: Alerter, node: Node) -> int:
    steps = 1
    while (await alerter.step(node.clock.now())).wait < 1:
        steps += 1
    return steps


def _database(store: Scratch) -> float:
    return 0.0 if store.server is None else processor_seconds([store.server.pid]) or 0.0


QUESTION = Question(
    name="rules",
    title="What thousands of alert rules cost",
    about="a round of the alerter, while all is well",
    cases=(Case(name="in turns", ask=rules), Case(name="each", ask=partial(rules, at_ease=1_000_000))),
    figures={
        "rules": "rules",
        "round_ms": "a round, ms",
        "processor_ms": "of processors, ms",
        "core_percent": "of a core, %",
    },
    compared="processor_ms",
    more_is_better=False,
    is_long=True,
)


if __name__ == "__main__":
    main(QUESTION)
