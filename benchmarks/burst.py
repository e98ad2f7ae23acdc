"""What does a burst cost workers that have idled on an empty store?

Their plans were made, and kept, while nothing was there. Then 200,000 executions come at once. A claim that fell for a plan made for an
empty table would take longer with every row that waits; the slowest claim and the pages of one say whether it does.

python -m benchmarks.burst [--executions 200000] [--idle 20] [--workers 2]
"""

from __future__ import annotations

import argparse
import asyncio
import time

import asyncpg

from benchmarks.growth import watched
from benchmarks.harness import Scratch, on_demand_job, opened, processes, query, report
from duly.adapters.sql.statements import statements
from duly.usecases.executions import Wanted

PAGE = 1000
# Claims are told apart from all else by how their text begins.
CLAIM = statements("postgres")["claim"].text[:60] + "%"


async def burst(store: Scratch, executions: int, idle: float, workers: int) -> None:
    """Idle, burst, drain; one line of figures."""
    async with opened(store) as node:
        job = await on_demand_job(node, "duly.echo")
        await node.store.retention.prepare(node.clock.now(), 0)
        connection = await asyncpg.connect(store.url)
        await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public")
        try:
            with processes(store, *[["worker"]] * workers):
                # One of each, so that every worker has had something and knows its statements; then nothing.
                await node.executions.enqueue_for(job, [Wanted()] * workers)
                await asyncio.sleep(idle)
                await connection.execute("SELECT public.pg_stat_statements_reset()")
                began = time.monotonic()
                for start in range(0, executions, PAGE):
                    await node.executions.enqueue_for(job, [Wanted()] * min(PAGE, executions - start))
                brought = time.monotonic() - began
                async with asyncio.timeout(600):
                    while (await query(store, "SELECT count(*) FROM outcomes"))[0][0] < executions + workers:
                        await asyncio.sleep(0.2)
                drained = time.monotonic() - began
            row = await connection.fetchrow(
                "SELECT sum(calls)::bigint AS calls, sum(total_exec_time) / sum(calls) AS mean, max(max_exec_time) AS slowest,"
                " sum(shared_blks_hit + shared_blks_read) / sum(calls) AS pages, sum(rows) AS rows"
                " FROM public.pg_stat_statements WHERE query LIKE $1",
                CLAIM,
            )
        finally:
            await connection.close()
    report(
        "burst",
        executions=executions,
        brought_in_s=round(brought, 2),
        drained_in_s=round(drained, 2),
        per_second=round(executions / drained),
        claims=row["calls"],
        claim_ms=round(row["mean"], 2),
        slowest_claim_ms=round(row["slowest"], 1),
        pages_per_claim=round(row["pages"]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executions", type=int, default=200_000)
    parser.add_argument("--idle", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with watched("postgres") as store:
        asyncio.run(burst(store, options.executions, options.idle, options.workers))


if __name__ == "__main__":
    main()
