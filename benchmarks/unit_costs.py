"""What one fire, enqueue, claim and finish costs here: processor time from outside, log and tables from the store itself.

Each write is measured twice: many in large batches give the cost of a row, few that come one by one the cost of a batch. Claim and finish
follow one another so closely that they are measured together; each gets half. `round` is from latencies while nothing else is wanted.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import ACTOR, Scratch, opened, processes, query, scratch
from duly.adapters.system.clock import system_entropy
from duly.compose import Node
from duly.domain.capacity.costs import COSTS, UnitCosts, WriteCost
from duly.domain.ids import new_id
from duly.domain.instants import SECOND, Micros
from duly.domain.job import Job, JobSpec, JobType, Target, Timing
from duly.domain.overlap import Overlap, OverlapPolicy
from duly.domain.retry import RetryPolicy
from duly.usecases.executions import Wanted

_TICK = os.sysconf("SC_CLK_TCK")
# Tables whose rows stay as long as history is kept; tables with a row or two for each job.
HISTORY = ("executions", "outcomes")
JOBS = ("jobs", "job_versions", "schedules", "names", "calendar_uses")
# Looking costs something too, so nobody looks often.
LOOK_EVERY = 0.5
# Nobody serves it: what is fired into it stays there.
NOWHERE = "nowhere"


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent up to a moment: seconds of processors, bytes of log, commits; and the moment."""

    database: float
    server: float
    worker: float
    here: float
    log: float
    commits: float
    at: float

    def __sub__(self, other: Spent) -> Spent:
        return Spent(*(getattr(self, name) - getattr(other, name) for name in self.__slots__))

    def without(self, idle: Spent) -> Spent:
        """The same without what would have been spent anyhow, at the rate of an idle time. Our own share is not idle."""
        share = self.at / idle.at
        kept = {"here": self.here, "at": self.at}
        spent = {name: getattr(self, name) - share * getattr(idle, name) for name in self.__slots__ if name not in kept}
        return Spent(**spent, **kept)


class Meter:
    """Reads what the processes on a store have spent."""

    def __init__(self, store: Scratch, server: int | None = None, worker: int | None = None) -> None:
        self.store, self.server, self.worker = store, server, worker
        self._idle: Spent | None = None

    async def read(self) -> Spent:
        """Up to now."""
        pids = [pid for pid in (self.server, self.worker) if pid is not None]
        if self.store.kind == "sqlite":
            log = float(sum(_written(pid) for pid in [*pids, os.getpid()]))
            database, commits = 0.0, 0.0
        else:
            (directory, lsn, commits), *_ = await query(
                self.store,
                "SELECT current_setting('data_directory'), pg_current_wal_insert_lsn() - '0/0'::pg_lsn, xact_commit"
                " FROM pg_stat_database WHERE datname = current_database()",
            )
            postmaster = int((Path(directory) / "postmaster.pid").read_text().splitlines()[0])
            database, log = _tree(postmaster), float(lsn)
        server, worker = (0.0 if pid is None else _processor(pid) for pid in (self.server, self.worker))
        return Spent(database, server, worker, time.process_time(), log, float(commits), time.monotonic())

    async def since(self, before: Spent) -> Spent:
        """What was spent since then, beyond what idle processes spend."""
        spent = await self.read() - before
        return spent if self._idle is None else spent.without(self._idle)

    async def watch_idle(self, seconds: float) -> Spent:
        """What idle processes spend, and what it costs to look whether they are."""
        before = await self.read()
        for _ in range(round(seconds / LOOK_EVERY)):
            await _is_done(self.store)
            await asyncio.sleep(LOOK_EVERY)
        self._idle = await self.read() - before
        return self._idle


def _fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _processor(pid: int) -> float:
    fields = _fields(pid)
    return (int(fields[11]) + int(fields[12])) / _TICK


def _parent(pid: int) -> int:
    return int(_fields(pid)[1])


def _tree(root: int) -> float:
    """A process, its children, and those that have ended."""
    fields = _fields(root)
    total = sum(int(field) for field in fields[11:15]) / _TICK
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if _parent(int(path.name)) == root:
                total += _processor(int(path.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


def _written(pid: int) -> int:
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    return 0


async def sizes(store: Scratch, tables: tuple[str, ...]) -> int:
    """Bytes of these tables with their partitions and indexes; of a SQLite file, of everything."""
    if store.kind == "sqlite":
        pages, free, size = [(await query(store, f"PRAGMA {name}"))[0][0] for name in ("page_count", "freelist_count", "page_size")]
        return int((pages - free) * size)
    names = " OR ".join(f"relname = '{name}' OR relname LIKE '{name}\\_%'" for name in tables)
    found = await query(
        store,
        f"SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c WHERE relkind = 'r'"
        f" AND relnamespace = 'duly'::regnamespace AND ({names})",
    )
    return int(found[0][0])


async def until(true: Callable[[], Awaitable[bool]], seconds: float = 300.0) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(seconds):
        while not await true():
            await asyncio.sleep(LOOK_EVERY)


async def measure(kind: str, executions: int) -> UnitCosts:
    """All unit costs of one engine on this machine."""
    with scratch(kind) as store:
        async with opened(store) as node:
            with processes(store, ["server", "--port", "0"], ["worker"]) as (server, worker):
                job = await _job(node, JobSpec(name="measured", timing=Timing(), target=Target(handler="duly.echo")))
                await _run(node, store, job, 50)
                meter = Meter(store, server.pid, worker.pid)
                idle = await meter.watch_idle(5.0)
                enqueue, half, execution_disk = await _work(node, store, meter, executions)
                fire, job_disk = await _fires(node, store, meter, executions // 4, half)
                attempt_disk = await _attempts(node, store, min(executions, 1000))
    return UnitCosts(
        engine=kind,
        measured_on=_machine(),
        fire=fire,
        enqueue=enqueue,
        claim=half,
        finish=half,
        execution_disk=round(execution_disk),
        attempt_disk=round(attempt_disk),
        job_disk=round(job_disk),
        # What a process opens at most is a matter of the code, not of the machine.
        server_connections=COSTS[kind].server_connections,
        worker_connections=COSTS[kind].worker_connections,
        idle_commits=round(idle.commits / idle.at / 2, 2),
        idle_log=round(idle.log / idle.at / 2),
    )


async def _work(node: Node, store: Scratch, meter: Meter, count: int) -> tuple[WriteCost, WriteCost, float]:
    """Enqueue alone, then enqueue and run together; in batches, then one by one. The last is what an execution leaves on disk."""
    idle = await _job(node, JobSpec(name="idle", timing=Timing(), target=Target(handler="duly.echo", pool=NOWHERE)))
    busy = await _job(node, JobSpec(name="busy", timing=Timing(), target=Target(handler="duly.echo")))
    singles = max(count // 50, 50)
    before = await meter.read()
    await _enqueue(node, idle, count)
    enqueued = await meter.since(before)
    before = await meter.read()
    waited = await _singly(node, idle, singles)
    enqueued_one = await meter.since(before)
    await query_write(store, "DELETE FROM ready")
    empty = await sizes(store, HISTORY)
    before = await meter.read()
    await _run(node, store, busy, count)
    ran = await meter.since(before)
    disk = (await sizes(store, HISTORY) - empty) / count
    before = await meter.read()
    await _singly(node, busy, singles)
    await until(lambda: _is_done(store))
    ran_one = await meter.since(before)
    late = await _lateness(store, "trigger = 1", singles)
    enqueue = _cost(
        (enqueued.database / count, enqueued.here / count, enqueued.log / count),
        (enqueued_one.database / singles, enqueued_one.here / singles, enqueued_one.log / singles),
        waited,
    )
    both = _cost(
        ((ran.database - enqueued.database) / count, ran.worker / count, (ran.log - enqueued.log) / count),
        (
            (ran_one.database - enqueued_one.database) / singles,
            ran_one.worker / singles,
            (ran_one.log - enqueued_one.log) / singles,
        ),
        max(late - waited, late / 2),
    )
    half = WriteCost(**{name: round(getattr(both, name) / (1 if name == "round" else 2), 1) for name in WriteCost.__slots__})
    return enqueue, half, disk


async def _fires(node: Node, store: Scratch, meter: Meter, count: int, half: WriteCost) -> tuple[WriteCost, float]:
    """A herd in one instant, then fires that come one by one. Each comes twice, and what counts is when the dispatcher knows the jobs."""
    singles = max(count // 20, 20)
    before_jobs = await sizes(store, JOBS)
    waiting = (await query(store, "SELECT count(*) FROM ready"))[0][0]
    at, again = node.clock.now() + 5 * SECOND + count * 800, 20 * SECOND + count * 1000
    await _repeated(node, [at] * count, NOWHERE, again)
    job_disk = (await sizes(store, JOBS) - before_jobs) / count
    await until(lambda: _has(store, "SELECT count(*) FROM ready", waiting + count))
    # Shortly before, so that little of an idle time has to be taken off.
    await asyncio.sleep(max((at + again - SECOND - node.clock.now()) / SECOND, 0))
    before = await meter.read()
    await until(lambda: _has(store, "SELECT count(*) FROM ready", waiting + 2 * count))
    herd = await meter.since(before)
    gap = SECOND // 20
    at, again = node.clock.now() + 3 * SECOND + singles * 800, singles * gap + 10 * SECOND
    await _repeated(node, [at + nth * gap for nth in range(singles)], "default", again)
    ended = (await query(store, "SELECT count(*) FROM outcomes"))[0][0]
    await until(lambda: _has(store, "SELECT count(*) FROM outcomes", ended + singles))
    await asyncio.sleep(max((at + again - SECOND - node.clock.now()) / SECOND, 0))
    before = await meter.read()
    await until(lambda: _has(store, "SELECT count(*) FROM outcomes", ended + 2 * singles))
    one_by_one = await meter.since(before)
    late = await _lateness(store, "trigger = 0", singles)
    # What came one by one was run as well, and that is known already.
    run_database, run_log = 2 * (half.row_database + half.batch_database) / 1e6, 2 * (half.row_log + half.batch_log)
    cost = _cost(
        (herd.database / count, herd.server / count, herd.log / count),
        (one_by_one.database / singles - run_database, one_by_one.server / singles, one_by_one.log / singles - run_log),
        max(late - half.round, late / 2),
    )
    return cost, job_disk


def _cost(row: tuple[float, float, float], one: tuple[float, float, float], round_: float) -> WriteCost:
    """From what a row costs in a large batch, and what one costs that comes alone. Seconds in, microseconds out."""
    database, process, log = (max(value, 0.0) for value in row)
    alone = [max(single - value, 0.0) for single, value in zip(one, row, strict=True)]
    return WriteCost(
        row_database=round(database * 1e6, 1),
        row_process=round(process * 1e6, 1),
        batch_database=round(alone[0] * 1e6, 1),
        batch_process=round(alone[1] * 1e6, 1),
        round=round(max(round_, 100.0)),
        row_log=round(log),
        batch_log=round(alone[2]),
    )


async def _job(node: Node, spec: JobSpec) -> Job:
    now = node.clock.now()
    return (await node.jobs.create_specs(ACTOR, [(new_id(now, system_entropy), spec)], now))[0]


async def _repeated(node: Node, firsts: list[int], pool: str, every: Micros) -> None:
    """A job for each: it fires then, and once more."""
    now = node.clock.now()
    specs = [
        JobSpec(
            name=f"repeated-{pool}-{now}-{nth}",
            timing=Timing(type=JobType.INTERVAL, every=every, anchor=at, start_at=at, end_at=at + every),
            target=Target(handler="duly.echo", pool=pool),
            overlap=Overlap(policy=OverlapPolicy.ALLOW),
        )
        for nth, at in enumerate(firsts)
    ]
    for start in range(0, len(specs), 500):
        await node.jobs.create_specs(ACTOR, [(new_id(now, system_entropy), spec) for spec in specs[start : start + 500]], now)


async def _enqueue(node: Node, job: Job, count: int) -> None:
    for start in range(0, count, 1000):
        await node.executions.enqueue_for(job, [Wanted() for _ in range(start, min(start + 1000, count))])


async def _singly(node: Node, job: Job, count: int) -> float:
    """One by one, a little apart; returns how long the median of them took, in microseconds."""
    took: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        await node.executions.enqueue_for(job, [Wanted()])
        took.append((time.perf_counter() - began) * 1e6)
        await asyncio.sleep(0.02)
    return statistics.median(took)


async def _run(node: Node, store: Scratch, job: Job, count: int) -> None:
    await _enqueue(node, job, count)
    await until(lambda: _is_done(store))


async def _is_done(store: Scratch) -> bool:
    served = "SELECT 1 FROM ready r JOIN routes o ON o.route = r.route WHERE o.pool <> 'nowhere'"
    return not (await query(store, f"SELECT EXISTS ({served}) OR EXISTS (SELECT 1 FROM leases)"))[0][0]


async def _has(store: Scratch, sql: str, count: int) -> bool:
    return int((await query(store, sql))[0][0]) >= count


async def _lateness(store: Scratch, where: str, count: int) -> float:
    rows = await query(
        store,
        f"SELECT o.started_at - e.due_at FROM executions e JOIN outcomes o ON o.id = e.id WHERE {where} ORDER BY e.id DESC LIMIT {count}",
    )
    return statistics.median(float(row[0]) for row in rows)


async def _attempts(node: Node, store: Scratch, count: int) -> float:
    spec = JobSpec(name="failing", timing=Timing(), target=Target(handler="duly.fail"), retry=RetryPolicy(max_attempts=1))
    job = await _job(node, spec)
    before = await sizes(store, ("attempts",))
    await _run(node, store, job, count)
    return (await sizes(store, ("attempts",)) - before) / count


async def query_write(store: Scratch, sql: str) -> None:
    """Change the store from outside."""
    if store.kind == "sqlite":
        with sqlite3.connect(store.directory / "bench.db", timeout=30) as file:
            file.execute(sql)
        file.close()
    else:
        await query(store, sql)


def _machine() -> str:
    model = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    return f"{os.cpu_count()} × {model or platform.machine()}, Python {platform.python_version()}"
