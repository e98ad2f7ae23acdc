"""Does a dispatcher mind a million schedules? How soon it starts, what it holds, how fast and how late it fires: beside fifty thousand.

The schedules are made by SQL: daily crons, each a job with a version of its own. For each size and each hot index a new
`duly scheduler` is started, and asked the same:

    starts_s      from its start to its first fire
    rss_mib       the most memory that it held, start and herds included
    cold_per_s    a herd of schedules that it has never seen: every version is read and decoded; in the middle of several, each of others
    warm_per_s    the same herd again
    cold_us …     what such a fire costs of the processor, in the dispatcher and in PostgreSQL together: neighbours change it less
    p50_ms …      how late schedules fire that are due one by one, and how late the latest

python -m benchmarks.million [--sizes 50k,1M] [--indexes memory,redis] [--herd 9000] [--turns 5]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import asyncpg

from benchmarks.growth import _peak_memory, count
from benchmarks.harness import Scratch, opened, processes, query, report, scratch
from benchmarks.rest import CHUNK, Rest, _run_postgres, prepare, statements
from benchmarks.usage import processor_seconds
from duly.domain.instants import SECOND
from duly.services.redis import Redis
from tests.conformance.world import World

# What is due one by one, and over how many seconds.
SINGLE, OVER = 300, 6
# How long before an instant it is put in: a hydrator needs no more to find it.
AHEAD = 8
STARTS_IN, HOLDS_MIB = 10.0, 500


async def fill(store: Scratch, rest: Rest, done: int, upto: int) -> float:
    """Jobs, versions and schedules from `done` to `upto`; answers the seconds."""
    began = time.monotonic()
    for start in range(done, upto, CHUNK // 4):
        last = min(start + CHUNK // 4, upto)
        await _run_postgres(store.url, statements(rest, store.kind, start + 1, last, done, upto)[:3])
        print(f"filling: {last:,} of {upto:,} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
    await _run_postgres(store.url, ["VACUUM (ANALYZE)", "CHECKPOINT"])
    return time.monotonic() - began


async def move(connection: asyncpg.Connection[asyncpg.Record], first: int, upto: int, at: int, step: int = 0) -> None:
    """Schedules `first` to `upto`, in the order of their jobs, are due at this instant, or so many microseconds apart from it on."""
    await connection.execute(
        "UPDATE schedules s SET next_fire_at = $3 + n.nth * $4"
        " FROM (SELECT job_id, row_number() OVER (ORDER BY job_id) - 1 AS nth"
        " FROM (SELECT job_id FROM schedules ORDER BY job_id LIMIT $2 OFFSET $1) x) n WHERE s.job_id = n.job_id",
        first,
        upto - first,
        at,
        step,
    )


class Herd(NamedTuple):
    """How many a second, from the instant to the last execution that is there, and the microseconds of the processor that each cost."""

    per_second: float
    cost: float


async def herd(connection: asyncpg.Connection[asyncpg.Record], first: int, size: int, pids: list[int]) -> Herd:
    """A herd of schedules from the `first` on. What was fired before is gone, so that looking for it costs the same in each turn."""
    await connection.execute("TRUNCATE executions, ready")
    at = int(await connection.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")) + AHEAD * SECOND
    await move(connection, first, first + size, at)
    await asyncio.sleep(AHEAD - 1)
    spent = processor_seconds(pids) or 0.0
    async with asyncio.timeout(300):
        while await connection.fetchval("SELECT count(*) FROM executions WHERE due_at = $1", at) < size:
            await asyncio.sleep(0.02)
    ended = int(await connection.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"))
    spent = (processor_seconds(pids) or 0.0) - spent
    return Herd(size / ((ended - at) / SECOND), spent / size * SECOND)


async def single(connection: asyncpg.Connection[asyncpg.Record], herd_size: int) -> dict[str, float]:
    """How late those are that are due one by one."""
    at = int(await connection.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")) + AHEAD * SECOND
    step = OVER * SECOND // SINGLE
    await move(connection, herd_size, herd_size + SINGLE, at, step)
    await asyncio.sleep(AHEAD + OVER)
    async with asyncio.timeout(60):
        while True:
            # Of the herds some have a fire of their own just now, at a full minute.
            rows = await connection.fetch(
                "SELECT created_at - due_at AS late FROM executions WHERE due_at >= $1 AND due_at < $2 AND (due_at - $1) % $3 = 0",
                at,
                at + OVER * SECOND,
                step,
            )
            if len(rows) >= SINGLE:
                break
            await asyncio.sleep(0.05)
    late = sorted(row["late"] / 1000 for row in rows)
    if late[0] < 0 or len(late) != SINGLE:
        raise RuntimeError(f"{len(late)} fires of {SINGLE}, the earliest {late[0]} ms after its time")
    return {
        "p50_ms": round(statistics.median(late), 1),
        "p99_ms": round(late[int(len(late) * 0.99)], 1),
        "worst_ms": round(late[-1], 1),
    }


async def measure(store: Scratch, rows: int, index: str, url: str, herd_size: int, turns: int) -> dict[str, object]:
    """One dispatcher on what is there."""
    moved = herd_size * turns
    connection = await asyncpg.connect(store.url, server_settings={"search_path": "duly", "application_name": "million"})
    try:
        # What the last dispatcher left: its leases, and what it fired.
        await connection.execute("UPDATE shards SET owner = NULL, lease_until = 0")
        await connection.execute("TRUNCATE executions, ready")
        now = int(await connection.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"))
        await move(connection, moved + SINGLE, moved + SINGLE + 1, now)
        began = time.monotonic()
        with processes(store, ["scheduler"], DULY_HOT_INDEX=url) as (dispatcher,):
            async with asyncio.timeout(120):
                while not await connection.fetchval("SELECT count(*) FROM executions"):
                    await asyncio.sleep(0.02)
            starts = time.monotonic() - began
            pids = [dispatcher.pid, *([] if store.server is None else [store.server.pid])]
            cold, warm = [], []
            for turn in range(turns):
                cold.append(await herd(connection, turn * herd_size, herd_size, pids))
                warm.append(await herd(connection, turn * herd_size, herd_size, pids))
            await connection.execute("TRUNCATE executions, ready")
            late = await single(connection, moved)
            memory = _peak_memory(dispatcher.pid) / 1024
        found: dict[str, Any] = {
            "rows": rows,
            "index": index,
            "starts_s": round(starts, 2),
            "rss_mib": round(memory),
            "cold_per_s": round(statistics.median(one.per_second for one in cold)),
            "warm_per_s": round(statistics.median(one.per_second for one in warm)),
            "cold_us": round(statistics.median(one.cost for one in cold)),
            "warm_us": round(statistics.median(one.cost for one in warm)),
            **late,
        }
        return report("million", **found, holds=starts < STARTS_IN and memory < HOLDS_MIB)
    finally:
        await connection.close()


@contextlib.contextmanager
def index_url(index: str) -> Iterator[str]:
    """The hot index of this name, if need be a Redis of its own."""
    if index == "memory":
        yield index
        return
    with Redis() as server:
        yield server.url


async def run(store: Scratch, sizes: list[int], indexes: list[str], herd_size: int, turns: int) -> None:
    async with opened(store) as node:
        world = World(node.engine, await node.store.health.store_now())
        rest = await prepare(world)
    done = 0
    for size in sizes:
        await fill(store, rest, done, size)
        done = size
        for index in indexes:
            with index_url(index) as url:
                await measure(store, size, index, url, min(herd_size, (size - SINGLE - 1) // turns), turns)
    [(schedules,)] = await query(store, "SELECT count(*) FROM schedules")
    if schedules < done:
        raise RuntimeError(f"{schedules} schedules of {done}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="50k,1M")
    parser.add_argument("--indexes", default="memory,redis")
    parser.add_argument("--herd", type=int, default=9_000)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    sizes = sorted(count(size) for size in options.sizes.split(","))
    with scratch("postgres") as store:
        asyncio.run(run(store, sizes, options.indexes.split(","), options.herd, options.turns))


if __name__ == "__main__":
    main()
