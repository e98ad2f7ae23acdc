"""How late is the next fire when a dispatcher ends and others remain?

Servers share the shards. Jobs that fire every second, spread over it, make the fires of every shard frequent. One server is ended at a
random moment, by `kill -9` or in order; the figure of an end is the latest start of all that was due in the two seconds since. Then
it is started again, the shards are shared anew, and the next one is ended. Every fire must have run, once, whoever fired it. With etcd, a
real one tells the servers of one another.

python -m benchmarks.failover [--full] [--kills 10]
"""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import time
from functools import partial
from typing import Any

from benchmarks.fleet import SERVER, Fleet, none_early, served
from benchmarks.harness import Scratch, looking, on_demand_job, opened
from benchmarks.herd import created, every_second
from benchmarks.marks import Mark
from benchmarks.question import Bound, Case, Question
from benchmarks.report import Failed, Figures
from benchmarks.run import main
from benchmarks.scale import Scale
from benchmarks.targets import CLEAN_STOP_MS, FAILOVER_MS
from duly.domain.instants import SECOND
from duly.domain.overlap import Overlap, OverlapPolicy
from duly.services import ServiceMissing
from duly.services.etcd import Etcd

WATCHED = 2.0
LEAST_SHARDS = 8


async def failover(store: Scratch, scale: Scale, *, servers: int = 2, clean: bool = False, leases: str = "store") -> Figures:
    """So many ends, in turns."""
    if leases == "store":
        return await _ended_in_turns(store, scale, servers, clean, {})
    try:
        etcd = Etcd()
    except ServiceMissing as missing:
        raise Failed(str(missing)) from missing
    with etcd:
        return await _ended_in_turns(store, scale, servers, clean, {"DULY_LEASES": etcd.url})


async def _ended_in_turns(store: Scratch, scale: Scale, servers: int, clean: bool, environment: dict[str, str]) -> Figures:
    count = scale.kill_jobs
    names = ["server", *(f"server {nth}" for nth in range(2, servers + 1))]
    quiet: list[float] = []
    worst: list[float] = []
    async with opened(store) as node:
        with served(store, servers=servers, environment=environment) as fleet:
            await fleet.warm(node, await on_demand_job(node, "noop"))
            at, _ = await created(node, count, scale, every_second(count), Overlap(policy=OverlapPolicy.ALLOW))
            await asyncio.sleep(max(0.0, (at - node.clock.now()) / SECOND))
            for _, victim in zip(range(scale.kills), itertools.cycle(names), strict=False):
                await _all_at_work(fleet, servers, scale.limit)
                await asyncio.sleep(1.5 + random.random())
                ended = fleet.stop(victim) if clean else fleet.kill(victim)
                await asyncio.sleep(max(0.0, ended + WATCHED - time.time()))
                quiet.append(await _latest(fleet, ended - 1.5, ended - 0.5, count, scale.limit))
                worst.append(await _latest(fleet, ended, ended + WATCHED, count, scale.limit))
                fleet.start(victim, SERVER)
    return {
        "median": statistics.median(worst),
        "worst": max(worst),
        "least": min(worst),
        "quiet": statistics.median(quiet),
        "kills": len(worst),
    }


async def _all_at_work(fleet: Fleet, servers: int, limit: float) -> None:
    """Each of them holds its part of the shards."""
    async with looking(fleet.store) as look:

        async def is_so() -> bool:
            held = [shards for owner, shards in await look("SELECT owner, count(*) FROM shards GROUP BY owner") if owner is not None]
            return len(held) == servers and min(held) >= LEAST_SHARDS

        await fleet.wait("all servers had their shards", is_so, limit)


async def _latest(fleet: Fleet, since: float, until: float, count: int, limit: float) -> float:
    """The longest wait of all that was due in whole seconds from one time to another, in milliseconds, once all of it has started."""
    # Every job is due once a second, each at an instant of its own: what is due in a stretch can be counted.
    due = count * round(until - since)
    found: list[Mark] = []

    async def is_so() -> bool:
        nonlocal found
        found = [mark for mark in fleet.marks.read() if since <= mark.carried < until]
        return len(found) >= due

    await fleet.wait(f"all {due:,} fires of a stretch had started", is_so, limit, every=0.2)
    if len(found) != due or len({mark.carried for mark in found}) != due:
        raise Failed(f"{due:,} fires were due and {len(found):,} started")
    none_early(found)
    return max(1000 * mark.delay for mark in found)


_OF_THREE: dict[str, dict[str, Any]] = {
    "one of three, kill -9": {},
    "one of three, kill -9, etcd": {"leases": "etcd"},
    "one of three, SIGTERM": {"clean": True},
    "one of three, SIGTERM, etcd": {"clean": True, "leases": "etcd"},
}

QUESTION = Question(
    name="failover",
    title="A dispatcher ends",
    about="milliseconds that the latest fire is late",
    cases=(
        Case(name="one of two servers, kill -9", ask=failover, stores=("postgres",)),
        *(Case(name=name, ask=partial(failover, servers=3, **how), stores=("postgres",)) for name, how in _OF_THREE.items()),
    ),
    figures={
        "median": "median of the ends, ms",
        "worst": "worst ms",
        "least": "least ms",
        "quiet": "before it, ms",
        "kills": "ends",
    },
    compared="worst",
    more_is_better=False,
    bounds=(
        Bound(case="one of two servers, kill -9", figure="worst", bound=FAILOVER_MS, unit=" ms", more_is_better=False),
        *(
            Bound(case=name, figure="worst", bound=CLEAN_STOP_MS if "clean" in how else FAILOVER_MS, unit=" ms", more_is_better=False)
            for name, how in _OF_THREE.items()
        ),
    ),
    is_long=True,
)


if __name__ == "__main__":
    main(QUESTION)
