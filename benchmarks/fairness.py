"""Does one tenant's flood slow another down? And do the shares follow the weights?

Tenant A submits at a steady pace, first alone, then while tenant B brings in a flood and the workers drain it. Both have the same
weight and the same handler, on the same workers. The figure is A's start delay (due to started), and by how much the flood lengthens it:
the p99 of every ten seconds, and the median of those, because a disk that stops for a tenth of a second makes any single p99.
The p99 of all is shown beside it.

python -m benchmarks.fairness [--executions 1000000] [--short] [--rate 50] [--workers 2] [--work-ms 50]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable

from benchmarks.harness import Scratch, on_demand_job, opened, percentiles, processes, query, report, scratch
from duly.compose import Node
from duly.domain.access import Actor, Role
from duly.domain.ids import parse_job_id
from duly.domain.instants import SECOND
from duly.domain.job import Job
from duly.domain.tenants import Tenant
from duly.usecases.executions import Wanted

WEIGHTS = (1, 2, 5)
MOST_RATIO = 2.0
MOST_ERROR = 0.05
PAGE = 1000
WINDOW = 10 * SECOND


# Executions of the flood, seconds of quiet, executions of each who shares.
SHORT = (100_000, 30.0, 10_000)


def fairness(executions: int, quiet: float, each: int, rate: int = 50, workers: int = 2, work: float = 0.05) -> bool:
    """Both questions, each on a store of its own; whether both bounds hold."""
    with scratch("postgres") as store:
        equal = asyncio.run(shares(store, each, workers))
    with scratch("postgres") as store:
        calm = asyncio.run(flood(store, executions, quiet, rate, workers, work))
    return equal and calm


async def new_tenant(node: Node, name: str, weight: int = 100) -> Actor:
    """A tenant without quotas, and who acts for it."""
    made = await node.store.tenants.create(Tenant(number=0, name=name, weight=weight, created_at=node.clock.now()))
    assert made is not None
    return Actor(made.number, made.name, Role.ADMIN, "benchmark")


async def flood(store: Scratch, executions: int, quiet: float, rate: int, workers: int, work: float) -> bool:
    """A's start delay alone and beside B's flood; whether the bound holds."""
    async with opened(store) as node:
        a, b = await new_tenant(node, "a"), await new_tenant(node, "b")
        steady, flooding = await on_demand_job(node, "duly.sleep", actor=a), await on_demand_job(node, "duly.sleep", actor=b)
        payload = f'{{"seconds": {work}}}'
        with processes(store, ["server", "--port", "0"], *[["worker"]] * workers):
            # Until everybody is there, and warm.
            began = node.clock.now()
            await _submit(node, steady, payload, rate, _for(node, 3.0))
            await _delays(store, a, began, node.clock.now())
            await _submit(node, steady, payload, rate, _for(node, 3.0))
            began = node.clock.now()
            await _submit(node, steady, payload, rate, _for(node, quiet))
            alone = await _delays(store, a, began, node.clock.now())
            report("fairness_quiet_ms", rate=rate, **alone)

            began = node.clock.now()
            arguments = ["--bring", str(executions), "--job", flooding.id.hex, "--tenant", str(b.tenant), "--work-ms", str(work * 1000)]
            brings = subprocess.Popen([sys.executable, "-m", "benchmarks.fairness", *arguments], env=store.environment())

            async def is_bringing() -> bool:
                return brings.poll() is None

            await _submit(node, steady, payload, rate, is_bringing)
            brought = node.clock.now()
            during = await _delays(store, a, began, brought)
            report("fairness_flood_comes_in_ms", brought_per_second=round(executions / ((brought - began) / SECOND)), **during)

            # Not to its end: that it waits is what matters.
            await _submit(node, steady, payload, rate, _for(node, quiet))
            ended = node.clock.now()
            drained = await _delays(store, a, brought, ended)
            left, done = (await query(store, f"SELECT count(*), {executions} - count(*) FROM ready WHERE tenant = {b.tenant}"))[0]
            assert left > 0, "the flood is over: make it larger, or its work longer"
            report("fairness_flood_drains_ms", drained_per_second=round(done / ((ended - began) / SECOND)), left=left, **drained)

            beside = await _delays(store, a, began, ended)
            ratio = beside["p99_of_a_window"] / alone["p99_of_a_window"]
            whole = round(beside["p99"] / alone["p99"], 2)
            report("fairness", executions=executions, ratio_of_p99=round(ratio, 2), ratio_of_whole_p99=whole, holds=ratio <= MOST_RATIO)
            return ratio <= MOST_RATIO


async def shares(store: Scratch, each: int, workers: int) -> bool:
    """What three tenants with a full queue get, by their weights; whether all are within the bound."""
    async with opened(store) as node:
        actors = [await new_tenant(node, f"w{weight}", weight) for weight in WEIGHTS]
        for actor in actors:
            job = await on_demand_job(node, "duly.echo", actor=actor)
            for _ in range(0, each, PAGE):
                await node.executions.enqueue_for(job, [Wanted()] * PAGE)
        # Counted before the first queue is empty: whoever has nothing left shares nothing.
        counted = each * sum(WEIGHTS) // max(WEIGHTS) * 8 // 10
        with processes(store, *[["worker"]] * workers):
            async with asyncio.timeout(300):
                while (await query(store, "SELECT count(*) FROM outcomes"))[0][0] < counted:
                    await asyncio.sleep(0.1)
        numbers = ", ".join(str(actor.tenant) for actor in actors)
        rows = await query(
            store,
            f"""SELECT tenant, count(*)
                FROM (SELECT e.tenant FROM outcomes o JOIN executions e ON e.id = o.id WHERE e.tenant IN ({numbers})
                      ORDER BY o.started_at LIMIT {counted}) first
                GROUP BY tenant""",
        )
        got = {tenant: n / counted for tenant, n in rows}
        errors = [abs(got[actor.tenant] * sum(WEIGHTS) / weight - 1) for actor, weight in zip(actors, WEIGHTS, strict=True)]
        found = {str(weight): round(got[actor.tenant], 4) for actor, weight in zip(actors, WEIGHTS, strict=True)}
        report("shares", weights="1:2:5", of=counted, shares=found, largest_error=round(max(errors), 4), holds=max(errors) <= MOST_ERROR)
        return max(errors) <= MOST_ERROR


async def bring(executions: int, job: str, tenant: int, work: float) -> None:
    """The flood itself, from a process of its own: as fast as the store takes it."""
    from duly import config
    from duly.compose import open_node

    node = await open_node(config.load())
    try:
        actor = Actor(tenant, "b", Role.ADMIN, "benchmark")
        found: Job = await node.jobs.show(actor, parse_job_id(f"job_{job}"))
        payload = f'{{"seconds": {work}}}'
        for start in range(0, executions, PAGE):
            await node.executions.enqueue_for(found, [Wanted(payload)] * min(PAGE, executions - start))
    finally:
        await node.close()


def _for(node: Node, seconds: float) -> Callable[[], Awaitable[bool]]:
    until = node.clock.now() + round(seconds * SECOND)

    async def goes_on() -> bool:
        return node.clock.now() < until

    return goes_on


async def _submit(node: Node, job: Job, payload: str, rate: int, goes_on: Callable[[], Awaitable[bool]]) -> None:
    """A steady pace, whatever a single submit takes."""
    submits: set[asyncio.Task[object]] = set()
    due = node.clock.now()
    asking = asyncio.ensure_future(goes_on())
    while not asking.done() or asking.result():
        if asking.done():
            asking = asyncio.ensure_future(goes_on())
        submit = asyncio.create_task(node.executions.enqueue_for(job, [Wanted(payload)]))
        submits.add(submit)
        submit.add_done_callback(submits.discard)
        due += SECOND // rate
        await asyncio.sleep(max(0.0, (due - node.clock.now()) / SECOND))
    await asyncio.gather(*submits)


async def _delays(store: Scratch, actor: Actor, since: int, until: int) -> dict[str, float]:
    """Start delays of what the tenant submitted in this time, in milliseconds. All of it must have started."""
    sql = f"""SELECT e.due_at, o.started_at - e.due_at FROM executions e LEFT JOIN outcomes o ON o.id = e.id
              WHERE e.tenant = {actor.tenant} AND e.created_at >= {since} AND e.created_at < {until}"""
    async with asyncio.timeout(60):
        rows = await query(store, sql)
        while any(delay is None for _, delay in rows):
            await asyncio.sleep(0.2)
            rows = await query(store, sql)
    windows: dict[int, list[float]] = defaultdict(list)
    for due, delay in rows:
        windows[(due - since) // WINDOW].append(delay / 1000)
    of_all = percentiles([delay for window in windows.values() for delay in window])
    # What is left over at the end is a window only if it is the only one.
    full = [window for nth, window in windows.items() if since + (nth + 1) * WINDOW <= until] or list(windows.values())
    found = {**of_all, "p99_of_a_window": statistics.median(percentiles(window)["p99"] for window in full)}
    return {"count": len(rows)} | {name: round(value, 1) for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--short", action="store_true", help="100,000 executions")
    parser.add_argument("--rate", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work-ms", type=float, default=50.0)
    parser.add_argument("--bring", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--tenant", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    work = options.work_ms / 1000
    if options.bring is not None:
        asyncio.run(bring(options.bring, options.job, options.tenant, work))
        return
    executions, quiet, each = SHORT if options.short else (options.executions, 60.0, 50_000)
    sys.exit(0 if fairness(executions, quiet, each, options.rate, options.workers, work) else 1)


if __name__ == "__main__":
    main()
