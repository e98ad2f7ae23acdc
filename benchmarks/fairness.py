"""Does one tenant's flood slow another down? And do the shares follow the weights?

Tenant A submits at a steady pace, first alone, then while tenant B brings in a flood and the workers drain it. Both have the same
weight and the same handler, on the same workers. The figure is A's start delay (due to started), and by how much the flood lengthens it:
the p99 of every ten seconds, and the median of those, because a disk that stops for a tenth of a second makes any single p99.
The p99 of all is kept beside it. First the flood comes in, as fast as the database takes it, then it only waits: each is a figure of its
own, and the worse of both is the one that counts. Whoever brings it would be on another machine; here he has what is left of the same
processors, and the database's part of his work has no less than anybody's.

python -m benchmarks.fairness [--full]
"""

from __future__ import annotations

import asyncio
import statistics
from collections import defaultdict
from collections.abc import Awaitable, Callable

from benchmarks.figures import percentiles
from benchmarks.fleet import SERVER
from benchmarks.harness import PAGE, Scratch, on_demand_job, opened, processes, query
from benchmarks.producer import produced, producing
from benchmarks.question import Bound, Case, Question
from benchmarks.report import Failed, Figures
from benchmarks.run import main
from benchmarks.scale import Scale
from duly.compose import Node
from duly.domain.access import Actor, Role
from duly.domain.instants import SECOND
from duly.domain.job import Job
from duly.domain.tenants import Tenant
from duly.usecases.executions import Wanted

WEIGHTS = (1, 2, 5)
MOST_RATIO = 2.0
MOST_ERROR = 0.05
WINDOW = 10 * SECOND
RATE = 50
WORKERS = 2
WORK = 0.05
WARM_UP = 3.0
SHARES, FLOOD = "shares of weights 1:2:5", "beside a flood"


async def new_tenant(node: Node, name: str, weight: int = 100) -> Actor:
    """A tenant without quotas, and who acts for it."""
    made = await node.store.tenants.create(Tenant(number=0, name=name, weight=weight, created_at=node.clock.now()))
    assert made is not None
    return Actor(made.number, made.name, Role.ADMIN, "benchmark")


async def flood(store: Scratch, scale: Scale) -> Figures:
    """A's start delay alone and beside B's flood."""
    executions, quiet, warm = scale.flood, scale.quiet_seconds, min(WARM_UP, scale.quiet_seconds)
    payload = f'{{"seconds": {WORK}}}'
    async with opened(store) as node:
        a, b = await new_tenant(node, "a"), await new_tenant(node, "b")
        steady, flooding = await on_demand_job(node, "duly.sleep", actor=a), await on_demand_job(node, "duly.sleep", actor=b)
        with processes(store, SERVER, *[["worker"]] * WORKERS):
            # Until everybody is there, and warm.
            began = node.clock.now()
            await _submit(node, steady, payload, _for(node, warm))
            await _delays(store, a, began, node.clock.now())
            await _submit(node, steady, payload, _for(node, warm))
            began = node.clock.now()
            await _submit(node, steady, payload, _for(node, quiet))
            alone = await _delays(store, a, began, node.clock.now())

            began = node.clock.now()
            with producing(store, flooding, executions, "--tenant", str(b.tenant), "--payload", payload, aside=True) as brings:

                async def is_bringing() -> bool:
                    return brings.poll() is None

                await _submit(node, steady, payload, is_bringing)
                await produced(brings)
            brought = node.clock.now()
            # Not to its end: that it waits is what matters.
            await _submit(node, steady, payload, _for(node, quiet))
            ended = node.clock.now()
            coming, waiting = await _delays(store, a, began, brought), await _delays(store, a, brought, ended)
            ((left,),) = await query(store, f"SELECT count(*) FROM ready WHERE tenant = {b.tenant}")
    if left == 0:
        raise Failed("the flood is over: make it larger, or its work longer")
    return {
        "ratio_of_p99": max(beside["p99_of_a_window"] for beside in (coming, waiting)) / alone["p99_of_a_window"],
        "ratio_of_whole_p99": max(beside["p99"] for beside in (coming, waiting)) / alone["p99"],
        "alone_p99": alone["p99_of_a_window"],
        "coming_p99": coming["p99_of_a_window"],
        "waiting_p99": waiting["p99_of_a_window"],
        "alone_p50": alone["p50"],
        "coming_p50": coming["p50"],
        "waiting_p50": waiting["p50"],
        "brought_a_second": executions / ((brought - began) / SECOND),
        "left": left,
    }


async def shares(store: Scratch, scale: Scale) -> Figures:
    """What three tenants with a full queue get, by their weights."""
    each = scale.shared
    async with opened(store) as node:
        actors = [await new_tenant(node, f"w{weight}", weight) for weight in WEIGHTS]
        for actor in actors:
            job = await on_demand_job(node, "duly.echo", actor=actor)
            for _ in range(0, each, PAGE):
                await node.executions.enqueue_for(job, [Wanted()] * PAGE)
        # Counted before the first queue is empty: whoever has nothing left shares nothing.
        counted = each * sum(WEIGHTS) // max(WEIGHTS) * 8 // 10
        with processes(store, *[["worker"]] * WORKERS):
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
    return {"largest_error": max(errors), "counted": counted}


def _for(node: Node, seconds: float) -> Callable[[], Awaitable[bool]]:
    until = node.clock.now() + round(seconds * SECOND)

    async def goes_on() -> bool:
        return node.clock.now() < until

    return goes_on


async def _submit(node: Node, job: Job, payload: str, goes_on: Callable[[], Awaitable[bool]]) -> None:
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
        due += SECOND // RATE
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


QUESTION = Question(
    name="fairness",
    title="Tenants that share",
    about="how many times longer a tenant waits beside another's flood, and how far the shares are from the weights",
    cases=(Case(name=SHARES, ask=shares, stores=("postgres",)), Case(name=FLOOD, ask=flood, stores=("postgres",))),
    figures={
        "largest_error": "largest error of a share",
        "ratio_of_p99": "p99 beside the flood ÷ alone",
        "alone_p99": "alone p99 ms",
        "coming_p99": "while it comes in, p99 ms",
        "waiting_p99": "while it waits, p99 ms",
    },
    compared="ratio_of_p99",
    more_is_better=False,
    bounds=(
        Bound(case=FLOOD, figure="ratio_of_p99", bound=MOST_RATIO, unit="×", more_is_better=False),
        Bound(case=SHARES, figure="largest_error", bound=MOST_ERROR, unit="", more_is_better=False),
    ),
    is_long=True,
)


if __name__ == "__main__":
    main(QUESTION)
