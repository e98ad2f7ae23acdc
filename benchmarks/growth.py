"""Does anything become slower with what is at rest? Schedules that wait, and executions that have ended: 10, then 100 million of each.

The store is filled in steps. After each step the same things are measured: how soon a new server fires, what a batch costs that is
looked for, fired, claimed, finished and enqueued, what a sweep and a bite of retention cost, the lists and the counts of the API, and the
memory of the server. What is flat has the same figures at every step: `ratios` compares each with the smallest step. On
PostgreSQL each figure also has the pages that it touched, which no busy neighbour changes.

python -m benchmarks.growth [--store postgres] [--steps 100k,1M,10M] [--upto 100M] [--repeat 10]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import httpx

from benchmarks.harness import KEY, STORES, Scratch, opened, processes, query, report, scratch, server_url
from benchmarks.postgres import POSTGRES_SETTINGS
from benchmarks.rest import DAYS, NoRoom, Rest, demand_room, fill, prepare
from duly.compose import Node
from duly.domain.ids import job_text
from duly.domain.instants import DAY, HOUR, SECOND
from duly.domain.job import Job
from duly.domain.lifecycle import Outcome
from tests.conformance.ledger import raw
from tests.conformance.world import World
from tests.services.postgres import Postgres

BATCH = 500
# Rounds that are not counted.
WARM = 2
STEPS = {"postgres": "100k,1M,10M", "sqlite": "100k,1M"}
# A batch may cost so much more than at the smallest step and is still called flat.
FLAT = 1.10
Figures = dict[str, float]


class Meter:
    """Times calls, and counts the pages that PostgreSQL touched for them."""

    def __init__(self, store: Scratch, connection: asyncpg.Connection[asyncpg.Record] | None) -> None:
        self._kind = store.kind
        self._connection = connection
        self._times: dict[str, list[float]] = {}
        self._pages: dict[str, list[int]] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def on(cls, store: Scratch) -> AsyncIterator[Meter]:
        """A meter for this store."""
        if store.kind == "sqlite":
            yield cls(store, None)
            return
        connection = await asyncpg.connect(store.url, server_settings={"application_name": "growth"})
        try:
            await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public")
            yield cls(store, connection)
        finally:
            await connection.close()

    async def pages(self) -> int:
        """How many have been touched so far."""
        if self._connection is None:
            return 0
        found: int = await self._connection.fetchval(
            "SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint FROM public.pg_stat_statements"
            " WHERE query NOT LIKE '%pg_stat_statements%'"
        )
        return found

    async def timed(self, name: str, call: Callable[[], Awaitable[Any]], *, keep: bool = True) -> Any:
        """Call it once; the figure of a name is the median of its calls."""
        before = await self.pages()
        began = time.perf_counter()
        answer = await call()
        took = (time.perf_counter() - began) * 1000
        pages = await self.pages() - before
        if keep:
            self._times.setdefault(name, []).append(took)
            if self._kind == "postgres":
                self._pages.setdefault(name, []).append(pages)
        return answer

    def begin(self) -> None:
        """A new step."""
        self._times, self._pages = {}, {}

    def note(self, name: str, took: float) -> None:
        """A time that was taken otherwise."""
        self._times.setdefault(name, []).append(took)

    def longest(self, name: str) -> float:
        return max(self._times[name])

    def end(self) -> Figures:
        """The medians of the step."""
        found = {f"{name}_ms": round(statistics.median(times), 2) for name, times in self._times.items()}
        return found | {f"{name}_pages": float(statistics.median(pages)) for name, pages in self._pages.items()}


# ------------------------------------------------------------ what is measured


async def hot(world: World, meter: Meter, jobs: list[Job], repeat: int) -> None:
    """Batches through the store's own methods: look, fire, claim, finish, enqueue."""
    worker = await world.worker(ttl=HOUR)
    await world.own_shards()
    for nth in range(repeat + WARM):
        await _hot(world, meter, jobs, worker, keep=nth >= WARM)
    await world.store.liveness.retire(worker, world.now)


async def _hot(world: World, meter: Meter, jobs: list[Job], worker: int, *, keep: bool) -> None:
    ids = ",".join(_literal(world.engine.name, job.id) for job in jobs)
    world.clock.now = await world.store.health.store_now()
    await raw(world.engine, f"UPDATE schedules SET next_fire_at = {world.now} WHERE job_id IN ({ids})")
    firing = await meter.timed("look", lambda: world.decide(limit=BATCH), keep=keep)
    assert len(firing.fires) == len(jobs), f"{len(firing.fires)} of {len(jobs)} were due"
    await meter.timed("fire", lambda: world.fire(firing), keep=keep)
    await _work(world, meter, jobs, worker, keep=keep)
    made = world.new_executions(jobs[0], BATCH)
    await meter.timed("enqueue", lambda: world.store.intake.enqueue(made, world.now), keep=keep)
    await _work(world, meter, jobs, worker, keep=keep)
    await meter.timed("heartbeat", lambda: world.store.liveness.renew(worker, world.now, HOUR), keep=keep)


async def _work(world: World, meter: Meter, jobs: list[Job], worker: int, *, keep: bool) -> None:
    claimed = await meter.timed("claim", lambda: world.claimed(worker, BATCH, of=jobs[:1]), keep=keep)
    ended = await world.ended(claimed, Outcome.SUCCEEDED)
    refused = await meter.timed("finish", lambda: world.store.outcomes.finish(worker, ended, [claimed.lease], world.now), keep=keep)
    assert not refused


def _literal(engine: str, id: UUID) -> str:
    return f"'{id}'" if engine == "postgres" else f"x'{id.hex}'"


async def roles(world: World, meter: Meter, repeat: int) -> None:
    """A sweep, what it reconciles once a minute, and a bite of retention that finds nothing."""
    for _ in range(repeat):
        world.clock.now = await world.store.health.store_now()
        await meter.timed("sweep", lambda: _sweep(world))
        await meter.timed("reconcile", lambda: world.store.losses.reconcile(world.now))
        await meter.timed(
            "upcoming_instants", lambda: world.store.schedules.upcoming(range(64), world.now, world.now + 30 * SECOND, 10_000)
        )
        await meter.timed("retention_idle", lambda: _retention(world))


async def _sweep(world: World) -> None:
    await world.store.losses.bury_workers(world.now)
    await world.store.losses.lose(world.after_loss, world.now, 20)
    await world.store.losses.unstick(world.now, 200)


async def _retention(world: World) -> None:
    await world.store.retention.prepare(world.now, 3 * DAY)
    await world.store.retention.prune(world.now - DAYS * DAY, world.now, 500)


async def oldest_day(world: World, meter: Meter, rest: Rest, job: Job) -> None:
    """Retention of a whole day, bite by bite, while somebody enqueues: how long is a bite, and how long does anybody wait for it?"""
    gone = asyncio.Event()

    async def prune() -> None:
        while await meter.timed("retention_bite", lambda: world.store.retention.prune(rest.first + DAY, world.now, 500)):
            pass
        gone.set()

    pruning = asyncio.create_task(prune())
    longest = 0.0
    while not gone.is_set():
        began = time.perf_counter()
        await world.store.intake.enqueue(world.new_executions(job, 1), world.now)
        longest = max(longest, (time.perf_counter() - began) * 1000)
        await asyncio.sleep(0.005)
    await pruning
    meter.note("longest_enqueue_beside_retention", longest)
    meter.note("longest_retention_bite", meter.longest("retention_bite"))
    worker = await world.worker()
    while claimed := await world.claim(worker, 1000, of=[job]):
        await world.finish(worker, claimed)
    await world.store.liveness.retire(worker, world.now)


async def start_up(store: Scratch, node: Node, world: World, meter: Meter, rest: Rest, repeat: int) -> Figures:
    """A new server: when does it fire, how large is it, and how long do its lists take?"""
    world.clock.now = await node.store.health.store_now()
    pulse = (await world.job(every=SECOND, handler="growth.pulse")).id
    own = _literal(store.kind, pulse)
    figures: Figures = {}
    began = time.monotonic()
    with processes(store, ["server", "--port", "0"], DULY_ADMIN_KEY=KEY) as (server,):
        host, port = await asyncio.to_thread(server_url, server)
        figures["listens_after_ms"] = round((time.monotonic() - began) * 1000)
        async with asyncio.timeout(120):
            while not (await query(store, f"SELECT 1 FROM executions WHERE job_id = {own} LIMIT 1")):
                await asyncio.sleep(0.02)
        figures["fires_after_ms"] = round((time.monotonic() - began) * 1000)
        await raw(node.engine, f"UPDATE schedules SET paused = {'true' if store.kind == 'postgres' else 1} WHERE job_id = {own}")
        async with httpx.AsyncClient(base_url=f"http://{host}:{port}", headers={"Authorization": f"Bearer {KEY}"}, timeout=120) as client:
            await lists(client, meter, rest, repeat)
        figures["server_memory_mib"] = round(_peak_memory(server.pid) / 1024)
    await raw(node.engine, "DELETE FROM ready")
    return figures


async def lists(client: httpx.AsyncClient, meter: Meter, rest: Rest, repeat: int) -> None:
    """What the dashboard asks for."""
    busy = job_text(rest.busy.id)
    asked = {
        "jobs": "/v1/jobs?limit=50",
        "jobs_by_name": "/v1/jobs?name=rest-77",
        "jobs_paused": "/v1/jobs?state=PAUSED",
        "jobs_searched": "/v1/jobs?search=est-7777",
        "job": f"/v1/jobs/{busy}",
        "executions": "/v1/executions?limit=50",
        "executions_dead": "/v1/executions?state=DEAD&limit=50",
        "executions_succeeded": "/v1/executions?state=SUCCEEDED&limit=50",
        "executions_running": "/v1/executions?state=RUNNING&limit=50",
        "executions_of_job": f"/v1/jobs/{busy}/executions?limit=50",
        "executions_of_job_dead": f"/v1/executions?jobId={busy}&state=DEAD",
        "executions_by_name": "/v1/executions?jobName=rest-77",
        "dead_letters": "/v1/dead-letters",
        "upcoming": "/v1/upcoming",
        "stats": "/v1/stats",
        "pools": "/v1/pools",
        "workers": "/v1/workers",
        "audit": "/v1/audit",
    }
    for name, path in asked.items():
        for nth in range(repeat + 1):
            answer = await meter.timed(f"list_{name}", lambda path=path: client.get(path), keep=nth > 0)
            if answer.status_code != 200:
                raise RuntimeError(f"{path}: {answer.status_code} {answer.text[:200]}")
    for name in ("jobs", "executions", "executions_dead", "executions_of_job"):
        path = asked[name]
        cursor = (await client.get(path)).json()["nextCursor"]
        for _ in range(20):
            separator = "&" if "?" in path else "?"
            answer = await meter.timed(f"list_{name}_later", lambda at=f"{path}{separator}cursor={cursor}": client.get(at))
            cursor = answer.json()["nextCursor"]
            if cursor is None:
                break


def _peak_memory(pid: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) if found else 0


# ------------------------------------------------------------ the run


@contextlib.contextmanager
def watched(kind: str) -> Iterator[Scratch]:
    """A scratch store whose server counts what statements cost."""
    if kind == "sqlite":
        with scratch(kind) as store:
            yield store
        return
    settings = POSTGRES_SETTINGS | {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.max": "10000"}
    with tempfile.TemporaryDirectory(prefix="duly-bench-") as name, Postgres(settings) as server:
        yield Scratch(kind, server.create_database("bench"), Path(name))


async def growth(store: Scratch, steps: list[int], repeat: int) -> list[tuple[int, Figures]]:
    """Every step, smallest first."""
    found: list[tuple[int, Figures]] = []
    async with opened(store) as node, Meter.on(store) as meter:
        world = World(node.engine, await node.store.health.store_now())
        rest = await prepare(world)
        jobs = await world.jobs(BATCH, every=DAY, handler="growth.hot")
        done = 0
        for step in steps:
            seconds = await fill(store, rest, done, step, lambda words: print(f"filling: {words}", file=sys.stderr, flush=True))
            done = step
            meter.begin()
            await hot(world, meter, jobs, repeat)
            await roles(world, meter, repeat)
            first = await start_up(store, node, world, meter, rest, repeat)
            await oldest_day(world, meter, rest, jobs[0])
            if store.kind == "postgres":
                # The next step fills it again.
                await node.engine.fetch("create_partitions", {"from_us": rest.first, "to_us": rest.first + DAY})
            figures = {**meter.end(), **first}
            size = await _size(store)
            report("growth", store=store.kind, rows=step, filled_in_s=round(seconds), bytes_per_row=size // step, **figures)
            found.append((step, figures))
    return found


async def _size(store: Scratch) -> int:
    if store.kind == "sqlite":
        return (store.directory / "bench.db").stat().st_size
    return int((await query(store, "SELECT pg_database_size(current_database())"))[0][0])


def ratios(found: list[tuple[int, Figures]]) -> None:
    """Each step against the smallest, and what is not flat."""
    (smallest, first), *others = found
    for step, figures in others:
        compared = {name: round(value / first[name], 2) for name, value in figures.items() if first.get(name)}
        grown = {name: ratio for name, ratio in compared.items() if name.endswith("_pages") and ratio > FLAT}
        report("growth_ratios", rows=step, against=smallest, ratios=compared)
        report("growth_not_flat", rows=step, against=smallest, pages=grown)


def count(text: str) -> int:
    """`100k`, `10M`, or plain."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kM]?)", text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no count: 100k, 1M, 10M")
    return round(float(found[1]) * {"": 1, "k": 1_000, "M": 1_000_000}[found[2]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=STORES, default="postgres")
    parser.add_argument("--steps", help=f"how many of each, step by step (default: {STEPS})")
    parser.add_argument("--upto", type=count, help="one more step, the largest: 100M")
    parser.add_argument("--repeat", type=int, default=10)
    options = parser.parse_args()
    steps = sorted(
        {count(step) for step in (options.steps or STEPS[options.store]).split(",")} | ({options.upto} if options.upto else set())
    )
    try:
        print(demand_room(options.store, steps[-1], Path(tempfile.gettempdir())), file=sys.stderr)
    except NoRoom as error:
        sys.exit(str(error))
    with watched(options.store) as store:
        ratios(asyncio.run(growth(store, steps, options.repeat)))


if __name__ == "__main__":
    main()
