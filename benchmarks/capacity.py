"""What does one fire, claim and finish cost here, and does `duly capacity` foretell what then happens?

python -m benchmarks.capacity [--store sqlite|postgres] [--costs-only] [--keep DIRECTORY] [--seconds 40] [--executions 20000]

The unit costs are printed as `duly capacity --costs FILE` reads them. Then a load is run in earnest: a steady schedule, a herd in one
second, and a pool with too few slots; and what was measured stands beside what was foretold. Exit status 1 when one of them is further
off than it may be. What others leave of the processors is measured first, so that a busy machine is taken for the small one that it is.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import percentiles
from benchmarks.harness import ACTOR, STORES, Scratch, opened, processes, query, report, scratch
from benchmarks.unit_costs import HISTORY, Meter, measure, sizes
from duly.adapters.system.clock import system_entropy
from duly.compose import Node
from duly.domain.capacity.costs import Fleet, PoolSize, UnitCosts
from duly.domain.capacity.forecast import Forecast, Question, forecast
from duly.domain.capacity.load import LoadClass
from duly.domain.capacity.spans import Span
from duly.domain.ids import new_id
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.job import JobSpec, JobType, Target, Timing
from duly.domain.schedule import IntervalSchedule
from duly.wire.capacity import costs_text, read_costs

# How far off a forecast may be: lateness and depth by a factor, or by so much that nobody plans with it; bytes by a share.
FACTOR = 2.0
CLOSE_ENOUGH: Micros = 50_000
FEW = 50
SHARE = 0.35


@dataclass(frozen=True, slots=True)
class Herd:
    """Jobs of one kind: in a pool of their own, every so often, all at once or spread over that time."""

    pool: str
    jobs: int
    every: Micros
    lasts: Micros
    size: PoolSize
    spread: bool = False

    def anchor(self, begin: Instant, nth: int) -> Instant:
        """When one of them fires first."""
        return begin + (nth * self.every // self.jobs if self.spread else 0)

    def classes(self, begin: Instant) -> list[LoadClass]:
        """The same for the forecast."""
        span = Span(self.lasts, self.lasts)
        return [
            LoadClass(name=f"{self.pool}-{nth}", pool=self.pool, schedule=IntervalSchedule(self.every, self.anchor(begin, nth)), span=span)
            for nth in range(self.jobs)
        ]


MIX = (
    Herd("steady", jobs=200, every=5 * SECOND, lasts=50_000, size=PoolSize(1, 50), spread=True),
    Herd("herd", jobs=1000, every=20 * SECOND, lasts=0, size=PoolSize(1, 50)),
    Herd("scarce", jobs=100, every=20 * SECOND, lasts=SECOND, size=PoolSize(1, 20)),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run came to: lateness and deepest queue by pool, executions, bytes of log and disk."""

    late: dict[str, list[Micros]]
    deepest: dict[str, int]
    executions: int
    log: float
    disk: float


def cores_to_be_had(seconds: float = 2.0) -> float:
    """How many processors one gets here who wants all of them."""
    spin = f"import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    spinning = [subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE, text=True) for _ in range(os.cpu_count() or 1)]
    return max(sum(float(process.communicate()[0]) for process in spinning) / seconds, 0.05)


def foretell(costs: UnitCosts, mix: Sequence[Herd], cores: float, begin: Instant, lasts: Micros) -> Forecast:
    """What `duly capacity` says to this load on a machine with so many processors."""
    fleet = Fleet(pools={herd.pool: herd.size for herd in mix}, database_cores=cores, worker_cores=cores, one_machine=True)
    classes = [load for herd in mix for load in herd.classes(begin)]
    return forecast(Question(classes=classes, fleet=fleet, costs=costs, begin=begin, horizon=lasts))


async def run(store: Scratch, node: Node, mix: Sequence[Herd], lasts: Micros) -> Seen:
    """The load in earnest, with real processes."""
    commands = [["worker", "--pool", herd.pool, "--slots", str(herd.size.slots)] for herd in mix for _ in range(herd.size.workers)]
    with processes(store, ["server", "--port", "0"], *commands) as running:
        while (await query(store, "SELECT count(*) FROM workers"))[0][0] < len(commands):
            await asyncio.sleep(0.1)
        begin = node.clock.now() + 5 * SECOND + sum(herd.jobs for herd in mix) * 2000
        end = begin + lasts
        for herd in mix:
            await _create(node, herd, begin, end)
        meters = [Meter(store, running[0].pid, process.pid) for process in running[1:]]
        while node.clock.now() < begin:
            await asyncio.sleep(0.05)
        empty, before = await sizes(store, HISTORY), await _log(store, meters)
        deepest = await _watch(store, node, end)
        log = await _log(store, meters) - before
        await _settled(store, end)
        disk = await sizes(store, HISTORY) - empty
    rows = await query(
        store,
        "SELECT r.pool, o.started_at - e.due_at FROM executions e JOIN outcomes o ON o.id = e.id JOIN routes r ON r.route = e.route"
        " WHERE o.started_at IS NOT NULL",
    )
    late: dict[str, list[Micros]] = {herd.pool: [] for herd in mix}
    for pool, micros in rows:
        late[pool].append(int(micros))
    return Seen(late, deepest, (await query(store, "SELECT count(*) FROM executions"))[0][0], log, disk)


async def _log(store: Scratch, meters: list[Meter]) -> float:
    """On SQLite every process writes its own part; ours and the server's are in every meter, and count once."""
    first, *others = [await meter.read() for meter in meters]
    if store.kind != "sqlite":
        return first.log
    shared = (await Meter(store, meters[0].server).read()).log
    return first.log + sum(other.log - shared for other in others)


async def _create(node: Node, herd: Herd, begin: Instant, end: Instant) -> None:
    now = node.clock.now()
    handler, payload = ("duly.sleep", f'{{"seconds":{herd.lasts / SECOND}}}') if herd.lasts else ("duly.echo", None)
    specs = [
        JobSpec(
            name=f"{herd.pool}-{nth}",
            timing=Timing(type=JobType.INTERVAL, every=herd.every, anchor=at, start_at=at, end_at=end - 1),
            target=Target(handler=handler, pool=herd.pool),
            payload=payload,
        )
        for nth in range(herd.jobs)
        for at in [herd.anchor(begin, nth)]
    ]
    for start in range(0, len(specs), 500):
        await node.jobs.create_specs(ACTOR, [(new_id(now, system_entropy), spec) for spec in specs[start : start + 500]], now)


async def _watch(store: Scratch, node: Node, end: Instant) -> dict[str, int]:
    deepest: dict[str, int] = {}
    while node.clock.now() < end:
        for pool, count in await query(store, "SELECT o.pool, count(*) FROM ready r JOIN routes o ON o.route = r.route GROUP BY o.pool"):
            deepest[pool] = max(deepest.get(pool, 0), int(count))
        await asyncio.sleep(0.02)
    return deepest


async def _settled(store: Scratch, end: Instant) -> None:
    """Everything was fired that was due, and has ended."""
    left = (f"schedules WHERE next_fire_at < {end}", "ready", "leases")
    async with asyncio.timeout(120):
        while (await query(store, "SELECT " + " OR ".join(f"EXISTS (SELECT 1 FROM {rows})" for rows in left)))[0][0]:
            await asyncio.sleep(0.2)


def compare(kind: str, foretold: Forecast, seen: Seen, executions_disk: float) -> bool:
    """Each figure beside the other; whether all are near enough."""
    fine = _told(kind, "executions", foretold.due, seen.executions, abs(foretold.due - seen.executions) <= 0.02 * seen.executions)
    for pool in foretold.pools:
        real = percentiles(seen.late[pool.pool]) if seen.late[pool.pool] else {"p50": 0.0, "p99": 0.0}
        for name, micros in (("p50", pool.p50), ("p99", pool.p99)):
            fine &= _told(kind, f"{pool.pool}: lateness {name} µs", micros, real[name], _is_near(micros, real[name], CLOSE_ENOUGH))
        depth = seen.deepest.get(pool.pool, 0)
        fine &= _told(kind, f"{pool.pool}: peak queue", pool.deepest, depth, _is_near(pool.deepest, depth, FEW))
    seconds = (foretold.end - foretold.begin) / SECOND
    log, disk = foretold.log * seconds, foretold.due * executions_disk
    fine &= _told(kind, "bytes of log", log, seen.log, abs(log - seen.log) <= SHARE * seen.log)
    fine &= _told(kind, "bytes of disk", disk, seen.disk, abs(disk - seen.disk) <= SHARE * seen.disk)
    return fine


def _is_near(foretold: float, measured: float, by: float) -> bool:
    return abs(foretold - measured) <= by or measured / FACTOR <= foretold <= measured * FACTOR


def _told(kind: str, what: str, foretold: float, measured: float, is_near: bool) -> bool:
    ratio = round(foretold / measured, 2) if measured else None
    report("capacity", store=kind, figure=what, foretold=round(foretold), measured=round(measured), ratio=ratio, near=is_near)
    return is_near


async def validate(kind: str, costs: UnitCosts, seconds: int) -> bool:
    """Foretell, run, compare."""
    cores = cores_to_be_had()
    report("capacity", store=kind, cores=round(cores, 2))
    with scratch(kind) as store:
        async with opened(store) as node:
            seen = await run(store, node, MIX, seconds * SECOND)
    foretold = foretell(costs, MIX, cores, node.clock.now() // SECOND * SECOND, seconds * SECOND)
    return compare(kind, foretold, seen, costs.execution_disk)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executions", type=int, default=20_000, help="how many are run to measure the unit costs")
    parser.add_argument("--seconds", type=int, default=40, help="how long the load is run in earnest")
    parser.add_argument("--costs", type=Path, help="take these unit costs instead of measuring them")
    parser.add_argument("--costs-only", action="store_true")
    parser.add_argument("--keep", type=Path, help="a directory for the unit costs, as ENGINE.json")
    parser.add_argument("--store", choices=STORES, action="append")
    options = parser.parse_args()
    stores = options.store or STORES
    fine = True
    for kind in stores:
        costs = read_costs(options.costs.read_bytes()) if options.costs else asyncio.run(measure(kind, options.executions))
        print(costs_text(costs), flush=True)
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            (options.keep / f"{kind}.json").write_text(costs_text(costs) + "\n")
        if not options.costs_only:
            fine &= asyncio.run(validate(kind, costs, options.seconds))
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
