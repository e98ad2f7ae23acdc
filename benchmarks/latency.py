"""How soon does it start? Pick-up: from the enqueue call to the handler. Lateness: from the due time to the handler.

python -m benchmarks.latency [--store sqlite|postgres] [--rate 50] [--seconds 10]
"""

from __future__ import annotations

import argparse
import asyncio

from benchmarks.harness import Scratch, chosen_stores, on_demand_job, opened, percentiles, processes, query, report, scratch
from duly.domain.instants import SECOND
from duly.usecases.executions import Wanted


async def latency(kind: str, rate: int, seconds: float) -> None:
    """A steady trickle, then executions spread over the time ahead, then many at one instant."""
    with scratch(kind) as store:
        async with opened(store) as node:
            job = await on_demand_job(node, "duly.echo")
            count = round(rate * seconds)
            with processes(store, ["server", "--port", "0"], ["worker"]):
                await node.executions.enqueue_for(job, [Wanted()])
                await _settled(store, 1)
                for _ in range(count):
                    await node.executions.enqueue_for(job, [Wanted()])
                    await asyncio.sleep(1 / rate)
                await _settled(store, 1 + count)
                report("pick_up_ms", store=kind, **await _delays(store, 1, count))

                ahead = node.clock.now() + 2 * SECOND
                await node.executions.enqueue_for(
                    job, [Wanted(run_at=ahead + round(nth * seconds * SECOND / count)) for nth in range(count)]
                )
                await _settled(store, 1 + 2 * count)
                report("lateness_spread_ms", store=kind, **await _delays(store, 1 + count, count))

                at = node.clock.now() + 2 * SECOND
                await node.executions.enqueue_for(job, [Wanted(run_at=at)] * 200)
                await _settled(store, 201 + 2 * count)
                report("lateness_same_second_ms", store=kind, **await _delays(store, 1 + 2 * count, 200))


async def _delays(store: Scratch, skip: int, count: int) -> dict[str, float]:
    rows = await query(
        store, f"SELECT o.started_at - e.due_at FROM executions e JOIN outcomes o ON o.id = e.id ORDER BY e.id LIMIT {count} OFFSET {skip}"
    )
    assert all(row[0] >= 0 for row in rows), "an execution started early"
    return {name: round(value, 1) for name, value in percentiles([row[0] / 1000 for row in rows]).items()}


async def _settled(store: Scratch, count: int) -> None:
    async with asyncio.timeout(120):
        while (await query(store, "SELECT count(*) FROM outcomes"))[0][0] < count:
            await asyncio.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10.0)
    options, stores = chosen_stores(parser)
    for kind in stores:
        asyncio.run(latency(kind, options.rate, options.seconds))


if __name__ == "__main__":
    main()
