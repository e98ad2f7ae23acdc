"""What does the audit trail cost an enqueue? The same calls with and without a record, in turns, and how fast records are linked.

python -m benchmarks.audit [--store sqlite|postgres] [--seconds 1] [--rounds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from benchmarks.harness import ACTOR, chosen_stores, on_demand_job, opened, report, scratch
from benchmarks.submit import rate
from duly.domain.access import Actor
from duly.usecases.executions import Wanted

# How many executions a call asks for, and how many callers there are.
KINDS = {"single": (1, 1), "single_64_callers": (1, 64), "batch_100": (100, 4), "batch_1000": (1000, 1)}


async def audit(kind: str, seconds: float, rounds: int) -> None:
    """Every kind of call in turns, so that a busy machine is busy for both."""
    with scratch(kind) as store:
        async with opened(store) as node:
            job = await on_demand_job(node, "duly.echo")

            def asking(size: int, actor: Actor | None) -> Callable[[], Awaitable[int]]:
                async def ask() -> int:
                    return len(await node.executions.enqueue_for(job, [Wanted(payload="{}")] * size, actor=actor))

                return ask

            for name, (size, callers) in KINDS.items():
                without, recorded = asking(size, None), asking(size, ACTOR)
                await rate(recorded, seconds / 2, callers)
                pairs = [(await rate(without, seconds, callers), await rate(recorded, seconds, callers)) for _ in range(rounds)]
                cost = statistics.median(1 - slower / faster for faster, slower in pairs)
                plain, with_record = (round(statistics.median(rates)) for rates in zip(*pairs, strict=True))
                report(f"audit_{name}", store=kind, without=plain, recorded=with_record, cost_percent=round(100 * cost, 1))
            began, linked = time.perf_counter(), 0
            while more := await node.store.audit.link(500):
                linked += more
            report("audit_link", store=kind, records=linked, per_second=round(linked / (time.perf_counter() - began)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    options, stores = chosen_stores(parser)
    for kind in stores:
        asyncio.run(audit(kind, options.seconds, options.rounds))


if __name__ == "__main__":
    main()
