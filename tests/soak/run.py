"""One soak from beginning to end: a store, a fleet, the load, the probe, the pin, the rolling days, the samples."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import asyncpg

from duly import config
from duly.compose import Node, open_node
from duly.domain.instants import SECOND
from tests.chaos.fleet import KEY, ROOT, Fleet, eventually
from tests.services.postgres import Postgres
from tests.soak.judge import Phases, phases_of
from tests.soak.roll import Roller, Rolls
from tests.soak.samples import PostgresSampler, SqliteSampler, StoreSampler, private_memory, sampled_processes, store_clock

APP = "tests.soak.app:app"
DATABASE = "soak"
EVERY = 1.0
SERVER = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "top",
    # Whoever waits longer than this for a lock is written to the server's log, with how long it was in the end. The product gives
    # up a lock on the history after 200 ms; a shorter time would make the server call that a deadlock.
    "log_lock_waits": "on",
    "deadlock_timeout": "250ms",
    "log_line_prefix": "%m [%p] %a ",
}
WAITED = re.compile(r"\[\d+\] (?P<who>\S+) LOG: .*acquired (?P<lock>\w+) on (?P<what>.+?) after (?P<ms>[\d.]+) ms")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for."""

    store: str
    seconds: float
    rate: int
    out: Path
    # An empty database of one's own, instead of a server that is started for the run.
    url: str | None = None
    # Nobody holds an old snapshot: as much as `rate` says, all the time, and nothing may drift.
    steady: bool = False

    @property
    def phases(self) -> Phases:
        return phases_of(self.seconds)

    @property
    def keep(self) -> float:
        """Retention in seconds: a small part of the run, so that it has something to do."""
        return min(max(self.seconds / 30, 5.0), 120.0)

    @property
    def roll_every(self) -> float:
        # Rarely enough that a claim which waits behind it is not one in a hundred.
        return min(max(self.seconds / 60, 2.0), 60.0)

    @property
    def read_history(self) -> tuple[float, float]:
        """When somebody else also reads the history in a transaction, as a dump does: partitions cannot be dropped meanwhile."""
        begin, end = self.phases.pinned
        return end - (end - begin) * 0.2, end - (end - begin) * 0.1


@dataclass(slots=True)
class Result:
    """What was seen."""

    samples: list[dict[str, Any]] = field(default_factory=list)
    rolls: Rolls = field(default_factory=Rolls)
    load: dict[str, int] = field(default_factory=dict)
    lock_waits: list[dict[str, Any]] = field(default_factory=list)


class Aside:
    """A process of the harness that prints a line of JSON every second and ends when its input does."""

    def __init__(self, module: str, *arguments: str, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=ROOT
        )
        assert self._process.stdout is not None
        self._lines: list[dict[str, Any]] = []
        self._reading = asyncio.create_task(asyncio.to_thread(self._read, self._process.stdout))

    def _read(self, lines: IO[bytes]) -> None:
        with lines:
            for line in lines:
                self._lines.append(json.loads(line))

    def news(self) -> list[dict[str, Any]]:
        """What it said since the last time."""
        lines, self._lines = self._lines, []
        return lines

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    async def stop(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            await asyncio.to_thread(self._process.wait, 20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        await self._reading


class Soak:
    """The run itself."""

    def __init__(self, plan: Plan, fleet: Fleet, server: Postgres | None, sampler: StoreSampler, node: Node) -> None:
        self._plan = plan
        self._fleet = fleet
        self._server = server
        self._sampler = sampler
        self._node = node
        self._pids: dict[str, int] = {}
        self._began = 0.0
        self._roller = Roller(node, round(plan.keep * SECOND), plan.roll_every)
        self.result = Result(rolls=self._roller.rolls)

    async def run(self) -> Result:
        """Start everything, let it run, stop everything. Raises when somebody died: then nothing was soaked."""
        self._start_fleet()
        stop = asyncio.Event()
        environment = self._fleet.environment
        load = Aside("tests.soak.load", self._fleet.url, KEY, "--rate", str(self._plan.rate), environment=environment)
        probe = Aside("tests.soak.probe", environment["DULY_STORE"], environment=environment)
        self._began = time.monotonic()
        others = [] if self._plan.steady else [self._pin(), self._read_history()]
        tasks = [asyncio.create_task(work) for work in (self._sample(load, probe), *others, self._roller.run(stop))]
        try:
            done, _ = await asyncio.wait(tasks, timeout=self._plan.seconds, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            stop.set()
            await load.stop()
            await probe.stop()
            # All but the one who rolls the days, who comes to an end by himself.
            for task in tasks[:-1]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._server is not None:
            self.result.lock_waits = list(lock_waits(self._server.log_path))
        return self.result

    def _start_fleet(self) -> None:
        fleet = self._fleet
        members = {"api": fleet.start_api("api"), "scheduler": fleet.start("scheduler")}
        members |= {f"worker-{n}": fleet.start("worker", APP) for n in (1, 2)}
        eventually(lambda: len(fleet.call("GET", "/v1/jobs?name=pick_up")["items"]) == 1, 60, "the application is published")
        self._pids = {name: member.process.pid for name, member in members.items()}

    @property
    def _at(self) -> float:
        return time.monotonic() - self._began

    async def _sample(self, load: Aside, probe: Aside) -> None:
        """Once a second, to the file as well; a line for people every ten."""
        shown_at = 0.0
        with (self._plan.out / "samples.jsonl").open("w", encoding="utf-8") as file:
            while True:
                for member in self._fleet.members:
                    if member.process.poll() is not None:
                        raise RuntimeError(f"{member.arguments} has ended: " + "".join(member.lines[-20:]))
                if load.has_ended or probe.has_ended:
                    raise RuntimeError("the load or the probe has ended before its time")
                try:
                    sample = await self._one(load, probe)
                except (asyncpg.PostgresError, sqlite3.OperationalError) as error:
                    # One look that was refused is one sample less.
                    print(f"not sampled: {error!r}", flush=True)
                    await asyncio.sleep(EVERY)
                    continue
                self.result.samples.append(sample)
                file.write(json.dumps(sample) + "\n")
                file.flush()
                if sample["t"] - shown_at >= 10:
                    shown_at = sample["t"]
                    print(line_of(sample, self._plan), flush=True)
                await asyncio.sleep(max(EVERY - (self._at - sample["t"]), 0.05))

    async def _one(self, load: Aside, probe: Aside) -> dict[str, Any]:
        at = round(self._at, 3)
        processes = await asyncio.to_thread(sampled_processes, self._pids)
        heard = probe.news()
        counts = load.news()
        if counts:
            self.result.load = counts[-1]
        sample: dict[str, Any] = {
            "t": at,
            "processes": processes,
            "claims": [round(ms, 3) for line in heard for ms in line["claims"]],
            "controls": [round(ms, 3) for line in heard for ms in line["controls"]],
            "enqueued": self.result.load.get("enqueued", 0),
            **await self._sampler.sample(store_clock()),
        }
        if self._server is not None and round(at) % 10 == 0:
            sample["server"] = await asyncio.to_thread(private_memory, self._server.pid)
        return sample

    async def _pin(self) -> None:
        """An old snapshot, held for half of the run, by somebody who locks nothing of ours."""
        begin, end = self._plan.phases.pinned
        await asyncio.sleep(begin - self._at)
        async with pinned(self._plan.store, self._fleet.environment["DULY_STORE"], "SELECT count(*) FROM duly_migrations"):
            await asyncio.sleep(end - self._at)

    async def _read_history(self) -> None:
        if self._plan.store == "sqlite":
            return
        begin, end = self._plan.read_history
        await asyncio.sleep(begin - self._at)
        async with pinned(self._plan.store, self._fleet.environment["DULY_STORE"], "SELECT id FROM execution_state LIMIT 1"):
            await asyncio.sleep(end - self._at)


@contextlib.asynccontextmanager
async def pinned(store: str, url: str, look: str) -> AsyncIterator[None]:
    """A transaction that has taken its snapshot and stays open."""
    if store == "sqlite":
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute(look).fetchall()
            yield
            reader.execute("ROLLBACK")
        return
    connection = await asyncpg.connect(url, server_settings={"search_path": "duly", "application_name": "soak-pin"})
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            await connection.fetch(look)
            yield
    finally:
        await connection.close()


def lock_waits(log: Path) -> Iterator[dict[str, Any]]:
    """Who waited for what lock, and how long, as the server wrote it down."""
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if found := WAITED.search(line):
            yield {"who": found["who"], "lock": found["lock"], "what": found["what"], "ms": float(found["ms"])}


def line_of(sample: dict[str, Any], plan: Plan) -> str:
    """A sample as a person reads it."""
    memory = " ".join(f"{name} {found['rss'] / (1 << 20):.0f}" for name, found in sorted(sample["processes"].items()))
    claims = sorted(sample["claims"]) or [0.0]
    begin, end = plan.phases.pinned
    parts = [
        f"{sample['t']:5.0f} s{' pinned' if begin <= sample['t'] < end and not plan.steady else ''}",
        f"MiB: {memory}",
        f"claim {claims[len(claims) // 2]:.1f}/{claims[-1]:.1f} ms",
        f"ready {sample['ready']}",
        f"late {max(sample['lateness'] or [0]):.0f} ms",
    ]
    if "tables" in sample:
        dead = sum(table["dead"] for table in sample["tables"].values())
        parts.append(f"dead {dead:,} (ready {sample['tables']['ready']['dead']:,})")
        parts.append(f"days {sample['days']}")
    else:
        parts.append(f"WAL {sample['wal'] / (1 << 20):.1f} MiB")
    return " · ".join(parts)


@contextlib.asynccontextmanager
async def _node(environment: dict[str, str]) -> AsyncIterator[Node]:
    node = await open_node(config.load(environment))
    try:
        yield node
    finally:
        await node.close()


async def soak(plan: Plan, directory: Path) -> Result:
    """Run a plan on a store of its own; its files are in `directory` meanwhile."""
    async with contextlib.AsyncExitStack() as stack:
        server: Postgres | None = None
        if plan.store == "sqlite":
            url = f"sqlite:///{directory / 'soak.db'}"
        elif plan.url is not None:
            url = plan.url
        else:
            # From this thread, which lasts as long as the server must.
            server = stack.enter_context(Postgres(SERVER))
            url = server.create_database(DATABASE)
        settings = {"DULY_RETENTION": f"{plan.keep:.0f}s", "DULY_LOG_LEVEL": "warning", "DULY_WORKER_TTL": "15s"}
        fleet = Fleet(url, directory, python=sys.executable, **settings)
        stack.callback(fleet.stop)
        node = await stack.enter_async_context(_node(fleet.environment))
        keep = round(plan.keep * SECOND)
        sampler: StoreSampler
        if plan.store == "sqlite":
            sampler = SqliteSampler(directory / "soak.db", keep)
        else:
            sampler = await PostgresSampler.open(url, keep)
        stack.push_async_callback(sampler.close)
        return await Soak(plan, fleet, server, sampler, node).run()


def rolls_summary(rolls: Rolls) -> dict[str, Any]:
    """What rolled, with the longest of each in milliseconds."""
    return {
        **rolls.counts,
        "slowestMakeMs": round(max(rolls.made, default=0.0), 1),
        "slowestPruneMs": round(max(rolls.dropped, default=0.0), 1),
    }


def phases_summary(phases: Phases) -> dict[str, Any]:
    return asdict(phases)
