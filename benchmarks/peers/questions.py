"""The questions, asked of every system in the same way.

A drain is measured from the first handler's start to the last one's, start-up excluded, and also until the store says that nothing is
left. Every job carries the time at which it was enqueued or is due, and its handler's first line marks when it started.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from benchmarks.figures import busy_rate, delays, rate
from benchmarks.peers.running import Running
from benchmarks.postgres import DATABASE, old_snapshot
from benchmarks.report import Failed, Figures
from benchmarks.scale import Scale

PICK_UP_RATE = 50
LEAST_STARTS = 100


@dataclass(frozen=True, kw_only=True)
class Question:
    """`figures` are the ones that are compared; `settings` the ones that are asked."""

    name: str
    title: str
    about: str
    ask: Callable[[Running, Scale], Figures]
    figures: tuple[str, ...]
    settings: tuple[Literal["default", "best", "prompt"], ...] = ("best",)
    more_is_better: bool = True
    work: str = "noop"
    stores: tuple[str, ...] = ("postgres", "redis", "sqlite")
    only: tuple[str, ...] = ()
    """Asked of these systems; of all when it is empty."""

    @property
    def compared(self) -> str:
        """The figure that ratios are made of."""
        return "per_second" if self.more_is_better else "p99"


# ------------------------------------------------------------ drains


def drain(running: Running, scale: Scale, *, pinned: bool = False, attempts: float = 1.0, most: int | None = None) -> Figures:
    """Fill the store, then start the workers. `attempts` is how many starts a job has on average, `most` how many jobs there may be."""
    jobs = min(scale.jobs(running.setting.about), most or scale.most_jobs)
    running.ask("fill", jobs)
    if running.system.is_settled(running.place):
        raise Failed("its store says that nothing waits, though it was filled")
    servers = running.place.servers
    if running.system.store == "postgres":
        # What autovacuum would have done for a table that is in use.
        servers.postgres.execute("VACUUM ANALYZE", DATABASE)
    with old_snapshot(servers.postgres, running.place.dsn) if pinned else contextlib.nullcontext(), running.workers():
        # What starting up costs is not part of it.
        if not running.wait(1, scale.limit):
            raise Failed(f"nothing of {jobs} jobs ran: {running.last_words()}")
        before = running.used()
        is_complete = running.wait(int(jobs * attempts), scale.limit)
        settled = running.settle() if is_complete else None
        after = running.used()
    marks = running.marks.read()
    until_settled = None if settled is None else (len(marks) - 1) / (settled - marks[0].started)
    return {
        "per_second": rate(marks) if attempts == 1.0 else busy_rate(marks),
        "until_settled": until_settled,
        "jobs": jobs,
        "starts": len(marks),
        "seconds": marks[-1].started - marks[0].started,
        "complete": float(is_complete),
        "worker_cpu": _each(before.workers, after.workers, after.starts - before.starts),
        "server_cpu": _each(before.server, after.server, after.starts - before.starts),
    }


def _each(before: float | None, after: float | None, starts: int) -> float | None:
    """Microseconds of processor time for each start; None when too little was seen to tell."""
    return None if before is None or after is None or starts < LEAST_STARTS else 1e6 * (after - before) / starts


def flow(running: Running, scale: Scale) -> Figures:
    """Workers that wait, then a producer as fast as it can: from its first call to the last handler."""
    jobs = scale.jobs(running.setting.about)
    with running.workers():
        running.warm()
        time.sleep(1.0)
        before = running.marks.counts()
        running.ask("fill", jobs)
        is_complete = running.wait(sum(before.values()) + jobs, scale.limit)
    marks = running.marks.read(before)
    if not marks:
        raise Failed(f"nothing of {jobs} jobs ran: {running.last_words()}")
    took = marks[-1].started - min(mark.carried for mark in marks)
    return {"per_second": len(marks) / took, "jobs": jobs, "starts": len(marks), "seconds": took, "complete": float(is_complete)}


# ------------------------------------------------------------ delays


def pick_up(running: Running, scale: Scale) -> Figures:
    """A steady trickle: from the clock before the enqueue call to the handler."""
    jobs = round(PICK_UP_RATE * scale.pick_up_seconds)
    with running.workers():
        running.warm()
        time.sleep(1.5)
        before = running.marks.counts()
        running.ask("paced", jobs, PICK_UP_RATE)
        running.wait(sum(before.values()) + jobs, scale.limit)
    return _delays(running, before, jobs)


def spread(running: Running, scale: Scale) -> Figures:
    """One-off jobs, one after the other in time: from the due time to the handler."""
    return _lateness(running, scale, [nth * scale.spread_seconds / scale.spread_jobs for nth in range(scale.spread_jobs)])


def same_second(running: Running, scale: Scale) -> Figures:
    """One-off jobs that are all due at one instant."""
    return _lateness(running, scale, [0.0] * scale.same_second_jobs)


def _lateness(running: Running, scale: Scale, offsets: list[float]) -> Figures:
    with running.workers():
        running.warm()
        time.sleep(1.0)
        before = running.marks.counts()
        grain = running.system.due_grain
        first = math.ceil((time.time() + scale.lead) / grain) * grain
        told = running.ask("at", text=json.dumps([first + offset for offset in offsets]))
        if told.get("at", 0.0) > first:
            raise Failed(f"the jobs were not enqueued in {scale.lead:g} s, when the first was due")
        time.sleep(max(0.0, first - time.time()))
        running.wait(sum(before.values()) + len(offsets), offsets[-1] + scale.limit)
    return _delays(running, before, len(offsets))


def _delays(running: Running, before: dict[Path, int], jobs: int) -> Figures:
    marks = running.marks.read(before)
    if not marks:
        raise Failed(f"nothing of {jobs} jobs ran: {running.last_words()}")
    return {**delays(marks), "jobs": jobs, "missed": jobs - len(marks)}


# ------------------------------------------------------------ enqueueing


def enqueue(running: Running, scale: Scale, *, command: str) -> Figures:
    """Nobody works meanwhile."""
    told = running.ask(command, scale.enqueue_seconds)
    return {"per_second": told["count"] / told["seconds"], "jobs": told["count"], "seconds": told["seconds"]}


# ------------------------------------------------------------ all of them

RATE = ("per_second",)
BAR = ("duly", "graphile")
"""Those whose ratio is asked for at other work as well."""


def _list(*questions: Question) -> Mapping[str, Question]:
    return {question.name: question for question in questions}


QUESTIONS = _list(
    Question(
        name="drain",
        title="Drain of no-op jobs",
        about="jobs a second, from the first handler to the last",
        ask=drain,
        figures=("per_second", "until_settled", "worker_cpu", "server_cpu"),
        settings=("default", "best"),
    ),
    Question(
        name="flow",
        title="Drain with a live bulk producer",
        about="jobs a second, from the first enqueue to the last handler",
        ask=flow,
        figures=RATE,
    ),
    Question(
        name="pinned",
        title="Drain while an old snapshot is held open",
        about="jobs a second, from the first handler to the last",
        ask=partial(drain, pinned=True),
        figures=("per_second", "until_settled"),
        stores=("postgres",),
    ),
    Question(
        name="pickup",
        title="Pick-up at 50 jobs a second",
        about="milliseconds from the enqueue call to the handler",
        ask=pick_up,
        figures=("p50", "p99"),
        settings=("prompt",),
        more_is_better=False,
    ),
    Question(
        name="spread",
        title="Lateness of 1,000 one-off jobs over 20 s",
        about="milliseconds from the due time to the handler",
        ask=spread,
        figures=("p50", "p99"),
        settings=("prompt",),
        more_is_better=False,
    ),
    Question(
        name="same-second",
        title="Lateness of 200 jobs due at one instant",
        about="milliseconds from the due time to the handler",
        ask=same_second,
        figures=("p50", "p99"),
        settings=("prompt",),
        more_is_better=False,
    ),
    Question(
        name="enqueue-single",
        title="Enqueue one by one",
        about="jobs a second from one caller",
        ask=partial(enqueue, command="single"),
        figures=RATE,
    ),
    Question(
        name="enqueue-bulk",
        title="Enqueue 1,000 at a time",
        about="jobs a second from one caller",
        ask=partial(enqueue, command="bulk"),
        figures=RATE,
    ),
    Question(name="mixed", title="Drain of mixed durations (0, 2 and 40 ms)", about="jobs a second", ask=drain, figures=RATE, work="mixed"),
    Question(
        name="large", title="Drain of payloads of 10 kB", about="jobs a second", ask=partial(drain, most=30_000), figures=RATE, work="large"
    ),
    Question(
        name="tenants",
        title="Drain of 1,000 tenants",
        about="jobs a second",
        ask=partial(drain, most=100_000),
        figures=RATE,
        work="tenants",
        only=BAR,
    ),
    Question(
        name="tenants-queues",
        title="Drain of 1,000 tenants, each with a queue of its own where there is such a thing",
        about="jobs a second",
        ask=partial(drain, most=100_000),
        figures=RATE,
        work="tenants",
        only=BAR,
    ),
    Question(
        name="failures",
        title="Drain with half of the jobs failing once",
        about="attempts a second, without stretches in which nothing is due",
        ask=partial(drain, attempts=1.5, most=100_000),
        figures=RATE,
        work="failures",
        only=BAR,
    ),
)
