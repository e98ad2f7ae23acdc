"""What do metrics and traces cost a drain? Two workers in one process, one without them and one with, drain equal queues in turns.

A busy machine drains a third faster in one minute than in the next, and two processes differ by more than what is asked for here. So
both workers live in this process, on one store, and nothing of rates is compared: only processor time for an execution, of this process
with all its threads and of the database. Each pair of turns (off on, on off) is one comparison; the median of all of them is told with
its interval. What waits to be exported is sent within the turn that made it, in smaller parts than otherwise. What it costs to
gather and send metrics is measured by itself and charged for as long as the turn took. The collector is a process of its own that throws
everything away, and its time is nobody's.

`sampled` is what runs out of the box once DULY_OTLP_URL is set (one execution in a hundred); `metrics` what runs without; `every` traces
each of them, which nobody would do with executions that take microseconds; `nothing` compares two workers without any of it: so far
the measurement itself can be wrong.

python -m benchmarks.telemetry [--full] [--store postgres] [--cases sampled]
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.app import app
from benchmarks.collector import collecting
from benchmarks.figures import median_interval
from benchmarks.fleet import APPLICATION, all_succeeded, fill
from benchmarks.harness import Scratch, on_demand_job, opened, query
from benchmarks.marks import PLACE
from benchmarks.question import Bound, Case, Question
from benchmarks.report import Failed, Figures
from benchmarks.run import main
from benchmarks.scale import Scale
from benchmarks.usage import processor_seconds
from duly import config
from duly.adapters.system.clock import system_entropy
from duly.compose import Node, open_nodes
from duly.compose.collecting import collect_seldom
from duly.compose.metrics import metrics_of
from duly.compose.otlp import open_metric_sink
from duly.compose.work import build_registry
from duly.domain.instants import HOUR, SECOND
from duly.domain.job import Job
from duly.ports.store import WorkerAbout
from duly.ports.telemetry import heard_by
from duly.roles import loop
from duly.roles.heartbeat import Heartbeat, HeartbeatSettings
from duly.roles.reporter import Reporter
from duly.roles.worker import Worker, WorkerSettings

OFF: Mapping[str, str] = {"DULY_METRICS": "false"}
COUNTED: Mapping[str, str] = {}
SAMPLED = "sampled"
SLOTS = 100
PAIRS = 8
"""Of each round of the scale."""
SENDS = 5
"""So often it is measured what a report of all metrics costs."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two that are compared: a worker, as its settings make it."""

    node: Node
    worker: Worker
    report: float = 0.0
    """Processor seconds that go into reporting metrics, in each second."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a turn took: processor seconds for each execution, and executions a second."""

    each: float
    rate: float


class _UntilDone:
    """A worker's steps, until so many have ended and nothing is left of them."""

    name = "worker"

    def __init__(self, worker: Worker, count: int, ended: asyncio.Event) -> None:
        self._worker, self._left, self._ended = worker, count, ended

    async def step(self, now: int) -> loop.Step:
        step = await self._worker.step(now)
        self._left -= step.did.get("finished", 0)
        if self._left <= 0 and self._worker.is_idle:
            self._ended.set()
        return step


async def telemetry(store: Scratch, scale: Scale, *, sample: str | None = None, counts: bool = True) -> Figures:
    """Without anything, beside metrics (`counts`) and traces of a part (`sample`)."""
    jobs, pairs = scale.jobs(10_000), []
    # As `duly worker` does.
    collect_seldom()
    with collecting() as url, tempfile.TemporaryDirectory() as marks, _marking(marks):
        settings = dict(COUNTED if counts else OFF)
        if sample is not None:
            settings |= {"DULY_OTLP_URL": url, "DULY_TRACE_SAMPLE": sample}
        # Whoever fills a file has its pages at hand, and would read a tenth as many of them: that must be neither of the two.
        async with _side(store, OFF) as off, _side(store, settings) as on, opened(store) as filler:
            job = await on_demand_job(filler, "noop")
            for side in (off, on, off, on):
                await _turn(store, side, filler, job, jobs)
            for nth in range(PAIRS * scale.rounds if scale.rounds > 1 else 1):
                first, second = (off, on) if nth % 2 == 0 else (on, off)
                found = {id(side): await _turn(store, side, filler, job, jobs) for side in (first, second)}
                pairs.append((found[id(off)], found[id(on)]))
    await all_succeeded(store, jobs * (4 + 2 * len(pairs)))
    return {**_figures(pairs), "jobs": jobs, "pairs": len(pairs)}


def _figures(pairs: Sequence[tuple[Spent, Spent]]) -> Figures:
    shares = [off.each / on.each for off, on in pairs]
    least, most = median_interval(shares)
    return {
        "off": 1e6 * statistics.median(off.each for off, _ in pairs),
        "on": 1e6 * statistics.median(on.each for _, on in pairs),
        "more": 1e6 * statistics.median(on.each - off.each for off, on in pairs),
        "share": statistics.median(shares),
        "share_least": least,
        "share_most": most,
        "off_rate": statistics.median(off.rate for off, _ in pairs),
        "on_rate": statistics.median(on.rate for _, on in pairs),
    }


# ------------------------------------------------------------ both sides


@contextlib.contextmanager
def _marking(place: str) -> Iterator[None]:
    """Where the handlers of this process make their marks."""
    os.environ[PLACE] = place
    try:
        yield
    finally:
        del os.environ[PLACE]


@contextlib.asynccontextmanager
async def _side(store: Scratch, more: Mapping[str, str]) -> AsyncIterator[Side]:
    settings = config.load(store.environment(**more))
    (node,) = await open_nodes(settings)
    try:
        registry = build_registry(settings, app, APPLICATION)
        if node.spans is not None:
            node.spans.offered(registry)
        life = HeartbeatSettings(ttl=HOUR)
        number = await node.store.liveness.register("w", WorkerAbout("default", slots=SLOTS), node.clock.now(), life.ttl)
        heartbeat, ports = Heartbeat(number, node.clock, life, node.clock.boottime()), node.store
        worker = Worker(
            WorkerSettings(name="w", slots=SLOTS),
            heartbeat,
            ports.ready,
            ports.outcomes,
            ports.definitions,
            ports.checkpoints,
            registry,
            node.clock,
            system_entropy,
        )
        yield Side(node, worker, await _report_seconds(node) if settings.telemetry.sends_metrics else 0.0)
    finally:
        await node.close()


async def _report_seconds(node: Node) -> float:
    """What reporting metrics costs, for each second."""
    sink, found = open_metric_sink(node.settings), []
    reporter = Reporter(metrics_of([node]).gather, sink, node.settings.telemetry.otlp_every / SECOND)
    try:
        for _ in range(SENDS):
            before = time.process_time()
            await reporter.step(node.clock.now())
            found.append(time.process_time() - before)
    finally:
        await sink.close()
    return statistics.median(found) / (node.settings.telemetry.otlp_every / SECOND)


# ------------------------------------------------------------ turns


async def _turn(store: Scratch, side: Side, filler: Node, job: Job, jobs: int) -> Spent:
    """Fill, then drain: what that took."""
    await fill(filler, job, jobs)
    if store.server is not None:
        await query(store, "VACUUM ANALYZE ready")
    # The next collection comes as late for everybody.
    gc.collect()
    ended, worker, clock = asyncio.Event(), side.worker, side.node.clock
    began, own, database = time.perf_counter(), time.process_time(), _database(store)
    with heard_by(side.node.telemetry):

        async def watch(seconds: float) -> None:
            await asyncio.wait_for(worker.wake.wait(), seconds)

        await loop.run(_UntilDone(worker, jobs, ended), clock, ended, system_entropy, watch)
    seconds = time.perf_counter() - began
    if side.node.spans is not None:
        await asyncio.to_thread(side.node.spans.flush)
    used = time.process_time() - own + _database(store) - database + side.report * seconds
    return Spent(used / jobs, jobs / seconds)


def _database(store: Scratch) -> float:
    found = 0.0 if store.server is None else processor_seconds([store.server.pid])
    if found is None:
        raise Failed("nobody counts processor time here: there is no /proc")
    return found


QUESTION = Question(
    name="telemetry",
    title="What metrics and traces cost a drain",
    about="processor time of worker and database for an execution, without and with; what is left of the throughput where processors are"
    " what it is short of, with the 95 % interval of the median",
    cases=(
        Case(name=SAMPLED, ask=partial(telemetry, sample="0.01")),
        Case(name="metrics", ask=telemetry),
        Case(name="every", ask=partial(telemetry, sample="1")),
        Case(name="nothing", ask=partial(telemetry, counts=False)),
    ),
    figures={
        "off": "off, µs",
        "on": "on, µs",
        "more": "more, µs",
        "share": "off / on",
        "share_least": "at least",
        "share_most": "at most",
    },
    compared="on",
    more_is_better=False,
    bounds=(
        Bound(case=SAMPLED, figure="share", bound=0.95, unit="×"),
        Bound(case=SAMPLED, store="sqlite", figure="share", bound=0.95, unit="×"),
    ),
    is_long=True,
)


if __name__ == "__main__":
    main(QUESTION)
