"""How fast does a full queue of no-op executions drain? History kept, every outcome fenced and committed.

The queue is filled before the processes start. The rate counts from the first handler's start to the last one's end, as the ledger
has them: starting up is not part of it, the second process that comes a moment later is. `until settled` counts until somebody who
looks at the store finds nothing left.

python -m benchmarks.drain [--full] [--store postgres] [--cases no-op] [--repeat 3]
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from functools import partial

from benchmarks import figures
from benchmarks.app import BATCH
from benchmarks.fleet import FAST, all_succeeded, each_once, filled, served
from benchmarks.harness import Scratch
from benchmarks.postgres import old_snapshot
from benchmarks.question import Bound, Case, Question
from benchmarks.report import Figures
from benchmarks.run import main
from benchmarks.scale import Scale
from benchmarks.targets import BATCH_FACTOR, SQLITE_DRAIN, THREADS_DRAIN

NOOP = "no-op"
RATES = {"per_second": "a second", "until_settled": "until settled"}
BUILT_IN = "duly.echo"
CORES = str(os.cpu_count() or 1)


async def drain(
    store: Scratch, scale: Scale, *, handler: str = "noop", about: int = 100_000, worker: Sequence[str] = FAST, pinned: bool = False
) -> Figures:
    """Fill, start the workers, wait until nothing is left. `about` is the rate to expect: it decides how many there are."""
    jobs = scale.jobs(about)
    enqueued = await filled(store, handler, jobs, BATCH if handler == "batched" else 1)
    with old_snapshot(store.database, store.url) if pinned else contextlib.nullcontext(), served(store, worker) as fleet:
        if handler != BUILT_IN:
            await fleet.started(jobs, scale.limit)
        settled = await fleet.settled(scale.limit)
        marks = fleet.marks.read()
    first, last = await all_succeeded(store, jobs)
    if handler != BUILT_IN:
        each_once(marks, jobs)
    return {
        "per_second": jobs / (last - first),
        "until_settled": jobs / (settled - first),
        "starts_a_second": figures.rate(marks) or None,
        "bulk_enqueue": enqueued,
        "jobs": jobs,
        "seconds": last - first,
    }


def _case(name: str, handler: str, about: int, *worker: str, stores: tuple[str, ...] = ("sqlite", "postgres")) -> Case:
    return Case(name=name, ask=partial(drain, handler=handler, about=about, worker=worker or FAST), stores=stores)


QUESTION = Question(
    name="drain",
    title="Drain of no-op jobs",
    about="executions a second, from the first handler's start to the last one's end",
    cases=(
        _case(NOOP, "noop", 100_000),
        _case("no-op, one process", "noop", 60_000, "--processes", "1", "--slots", "100", stores=("postgres",)),
        _case("no-op, four processes", "noop", 100_000, "--processes", "4", "--slots", "100", stores=("postgres",)),
        _case("no-op, eight processes", "noop", 100_000, "--processes", "8", "--slots", "100", stores=("postgres",)),
        _case("duly.echo, with a result", BUILT_IN, 90_000),
        _case("in threads", "threaded", 30_000),
        _case("in child processes", "forked", 1_000, "--children", CORES),
        _case(f"batches of {BATCH}", "batched", 100_000),
    ),
    figures=RATES,
    base=NOOP,
    bounds=(
        Bound(case=NOOP, store="sqlite", figure="per_second", bound=SQLITE_DRAIN, unit="/s"),
        Bound(case="in threads", figure="per_second", bound=THREADS_DRAIN, unit="/s"),
        Bound(case=f"batches of {BATCH}", figure="per_second", bound=BATCH_FACTOR, unit="×", times_as_much_as=NOOP),
    ),
    peers="≥ 2× Graphile Worker, ≥ 5× PgQueuer, ≥ 60× Celery",
)


if __name__ == "__main__":
    main(QUESTION)
