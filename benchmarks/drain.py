"""How fast does a full queue of no-op executions drain? History kept, every outcome fenced and committed.

python -m benchmarks.drain [--store sqlite|postgres] [--executions 100000] [--workers 2]
"""

from __future__ import annotations

import argparse
import asyncio
import time

from benchmarks.harness import chosen_stores, on_demand_job, opened, processes, query, report, scratch
from duly.usecases.executions import Wanted

PAD = "x" * 48


async def drain(kind: str, executions: int, workers: int) -> dict[str, object]:
    """Fill, start the workers, wait until nothing is left."""
    with scratch(kind) as store:
        async with opened(store) as node:
            job = await on_demand_job(node, "duly.echo")
            began = time.perf_counter()
            for start in range(0, executions, 1000):
                await node.executions.enqueue_for(
                    job, [Wanted(payload=f'{{"i":{i},"pad":"{PAD}"}}') for i in range(start, min(start + 1000, executions))]
                )
            enqueued = executions / (time.perf_counter() - began)
            with processes(store, *[["worker"]] * workers):
                while (await query(store, "SELECT EXISTS (SELECT 1 FROM ready) OR EXISTS (SELECT 1 FROM leases)"))[0][0]:
                    await asyncio.sleep(0.2)
            (first, last, done), *_ = await query(store, "SELECT min(started_at), max(finished_at), count(*) FROM outcomes")
            assert done == executions, (done, executions)
            return report(
                "drain",
                store=kind,
                workers=workers,
                executions=executions,
                per_second=round(done / ((last - first) / 1e6)),
                bulk_enqueue_per_second=round(enqueued),
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executions", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=1)
    options, stores = chosen_stores(parser)
    for kind in stores:
        for _ in range(options.repeat):
            asyncio.run(drain(kind, options.executions, 1 if kind == "sqlite" else options.workers))


if __name__ == "__main__":
    main()
