"""A whole test: put everything up, let it run, break it, mend it, wait until it is quiet, read it, and judge.

setup   the store, the fleet, and the jobs that are there from the start
calm    nothing is broken: the baseline
faults  waves of faults, and calm between them
settle  everything is mended; what was held up must come in now
read    what clients see in the end, what the store recorded, what handlers did
check   the history against the guarantees
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import platform
import re
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from duly import config
from duly.domain.errors import Unavailable
from duly.services.directories import claim, remove
from duly.verify import machine, nemesis
from duly.verify.engines.engine import NAMES, engines_named
from duly.verify.handlers import EFFECTS, REFUSALS
from duly.verify.history import SECOND, Effect, Event, Final, History, Refusal, Stands, Timing, read_lines
from duly.verify.nemesis import Nemesis, Schedule
from duly.verify.stage import Size, Stage, put_up
from duly.verify.stores import store_named
from duly.verify.workload import Plan

PAGE = 200
CALM = 3 * SECOND
PREFIX = "duly-verify-"
_REFUSED = re.compile(r"refused (\d+) finished attempts")
_REBORN = re.compile(r"worker (\d+) was lost; starting again")
# How long after the last stroke schedules still fire: what recovers shows by firing on time.
AFTERWARDS = 5.0
# How long it waits, beyond what was promised, for the last run to end: what comes late is told better than what never came.
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    """What is asked for."""

    minutes: float = 2.0
    store: str = "sqlite"
    seed: int = 0
    only: str | None = None
    rate: float = 1.0
    ticks: int = 8
    lease: float = 2.0
    gap: float = 1.5
    size: Size = field(default_factory=Size)
    # Engines that take part, one after a comma.
    engines: str | None = None

    @property
    def calm(self) -> float:
        """How long nothing is broken at first, in seconds."""
        return min(60.0, max(8.0, self.minutes * 6))

    @property
    def faults(self) -> float:
        """How long things are broken, in seconds."""
        return max(self.minutes * 60 - self.calm, 5.0)


@dataclass(slots=True)
class Progress:
    """Where a test is, for who watches."""

    phase: str = "setup"
    began: float = field(default_factory=time.monotonic)
    left: float = 0.0
    fires: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


Watch = Callable[[Progress], None]


async def record(options: Options, watch: Watch) -> History:
    """Run a test to its end; what happened in it. Everything it started is gone afterwards."""
    directory, lock = claim(PREFIX)
    keep = False
    try:
        store = store_named(options.store, directory, minutes=options.minutes)
        engines = engines_named(options.engines)
        kinds = nemesis.chosen(options.only, store, [kind for engine in engines for kind in engine.kinds])
        recovery = options.lease + 15
        plan = Plan(
            seed=options.seed,
            # Set again when the fleet is up: the schedules end when the faults do.
            ends_at=0,
            lease=options.lease,
            seconds=options.minutes * 60,
            rate=options.rate,
            ticks=options.ticks,
        )
        progress = Progress(left=options.minutes * 60 + recovery)
        watch(progress)
        async with put_up(directory, store, plan, options.size, engines) as stage:
            drawn = nemesis.schedule(options.seed, options.faults, kinds, store, gap=options.gap)
            progress.skipped = drawn.skipped
            return await _Test(options, stage, drawn, progress, watch).run()
    except Unavailable:
        keep = True
        raise
    finally:
        lock.close()
        if not keep:
            remove(directory)


class _Test:
    """One test on a stage that stands."""

    def __init__(self, options: Options, stage: Stage, drawn: Schedule, progress: Progress, watch: Watch) -> None:
        self._options = options
        self._stage = stage
        self._drawn = drawn
        self._progress = progress
        self._watch = watch
        self._ends = 0.0

    async def run(self) -> History:
        options, stage = self._options, self._stage
        started_at = _now()
        began = time.monotonic()
        stage.workload.plan.ends_at = time.time() + options.calm + options.faults + AFTERWARDS
        self._ends = began + options.calm + options.faults + AFTERWARDS + stage.timing.recovery / SECOND
        await stage.workload.set_up()
        async with self._watched():
            stop = asyncio.Event()
            working = asyncio.create_task(stage.workload.run(stop))
            try:
                self._phase("calm")
                await _sleep_until(began + options.calm)
                self._phase("faults")
                striker = Nemesis(stage, self._drawn, options.lease)
                await striker.run(options.faults)
                self._ends = max(self._ends, time.monotonic() + AFTERWARDS + stage.timing.recovery / SECOND)
                self._phase("settle")
            finally:
                stop.set()
                await working
            await self._settle()
            self._phase("read")
            final = await self._read()
            return await self._history(started_at, final, striker.failures)

    async def _settle(self) -> None:
        """Until the schedules have ended, what they fired can have recovered, and nothing waits any more."""
        await _sleep_until(self._ends)
        end = time.monotonic() + self._stage.workload.plan.longest * 2 + self._stage.timing.recovery / SECOND + PATIENCE
        while time.monotonic() < end:
            stats = await self._stage.workload.reader.read("/v1/stats")
            if stats is not None and not any(stats["executions"].get(state) for state in ("SCHEDULED", "BLOCKED", "PENDING", "RUNNING")):
                return
            await asyncio.sleep(0.5)

    async def _read(self) -> Final:
        """What a client sees in the end: as of when it began to read, for reading takes a while."""
        began = _now()
        jobs = [job["jobId"] async for job in self._pages("/v1/jobs")]
        executions = [
            Stands(
                run=item["executionId"],
                job=item["jobId"],
                state=item["state"],
                attempt=item["attempt"],
                nominal=_micros(item["scheduledAt"]),
            )
            async for item in self._pages("/v1/executions")
        ]
        stats = await self._asked("/v1/stats")
        return Final(at=began, jobs=jobs, executions=executions, counts=stats["executions"])

    async def _pages(self, path: str) -> AsyncIterator[dict[str, Any]]:
        cursor = ""
        while True:
            page = await self._asked(f"{path}?limit={PAGE}{cursor}")
            for item in page["items"]:
                yield item
            if not page["nextCursor"]:
                return
            cursor = f"&cursor={page['nextCursor']}"

    async def _asked(self, path: str) -> dict[str, Any]:
        for _ in range(60):
            answer = await self._stage.workload.reader.read(path)
            if answer is not None:
                return answer
            await asyncio.sleep(0.5)
        raise Unavailable(
            "DULY-E608", "The fleet does not answer after everything was mended.", hint=f"Its logs are in {self._stage.directory}."
        )

    async def _history(self, started_at: int, final: Final, failures: list[str]) -> History:
        stage, options = self._stage, self._options
        events = await stage.store.events()
        effects = _lines(stage.directory / EFFECTS, Effect) + _lines(stage.directory / "sink.jsonl", Effect)
        return History(
            started_at=started_at,
            ended_at=_now(),
            timing=stage.timing,
            calls=stage.workload.calls,
            events=events,
            effects=sorted(effects, key=lambda effect: effect.at),
            refusals=sorted(self._refusals(), key=lambda refusal: refusal.at),
            faults=stage.faults,
            final=final,
            about={
                "store": stage.store.name,
                "engines": options.engines,
                "seed": options.seed,
                "minutes": options.minutes,
                # What is late on a calm day, on a machine as busy as this one.
                "epsilon": CALM * stage.timing.restart // Timing().restart,
                "duly": config.VERSION,
                "python": platform.python_version(),
                "machine": f"{platform.system()} {platform.machine()}",
                "nodes": sorted(stage.fleet.nodes),
                "owners": _owners(events, stage.fleet.by_pid()),
                "dispatchers": [node.name for node in stage.fleet.of("scheduler")],
                "deaths": {node.name: node.deaths for node in stage.fleet.nodes.values() if node.deaths},
                "hints": {kind: number for kind, number in nemesis.counts(stage).items() if kind.partition("-")[0] in NAMES},
                "skipped": self._drawn.skipped,
                "planned": Counter(stroke.kind for stroke in self._drawn.strokes),
                "failures": failures,
            },
        )

    def _refusals(self) -> list[Refusal]:
        """What the nodes were told, as they logged it, and what handlers were told themselves."""
        found: list[Refusal] = _lines(self._stage.directory / REFUSALS, Refusal)
        for node in self._stage.fleet.nodes.values():
            for line in (node.directory / "log").read_text(encoding="utf-8", errors="replace").splitlines():
                if line.startswith("{") and (refusal := _refusal(line, node.name)) is not None:
                    found.append(refusal)
        return found

    def _phase(self, name: str) -> None:
        self._progress.phase = name
        self._tell()

    def _tell(self) -> None:
        progress = self._progress
        progress.left = max(self._ends - time.monotonic(), 0)
        progress.faults = nemesis.counts(self._stage)
        progress.broken = [f"{fault.kind} {' '.join(fault.nodes)}".strip() for fault in self._stage.broken_now()]
        self._watch(progress)

    @contextlib.asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        """Tell where it is, every second; note what the machine does by itself."""

        counted = _Starts(self._stage.directory / EFFECTS)

        async def keep_telling() -> None:
            while True:
                self._tell()
                self._progress.fires = counted.more()
                await asyncio.sleep(1)

        telling = asyncio.create_task(keep_telling())
        try:
            with machine.watched(self._stage.faults):
                yield
        finally:
            telling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await telling


class _Starts:
    """How many handlers have started, counted from their log as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = self._found = 0

    def more(self) -> int:
        """All that there are now."""
        with contextlib.suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._read)
            text = file.read()
            whole = text.rfind(b"\n") + 1
            self._read += whole
            self._found += text[:whole].count(b'"phase":"start"')
        return self._found


def _refusal(line: str, node: str) -> Refusal | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    message = str(entry.get("message", ""))
    if found := _REFUSED.search(message):
        return Refusal(at=_micros(entry["at"]), what="finish", actor=node, count=int(found[1]))
    if found := _REBORN.search(message):
        return Refusal(at=_micros(entry["at"]), what="heartbeat", actor=node)
    return None


def _owners(events: list[Event], nodes: dict[int, str]) -> dict[str, str]:
    """Which node each dispatcher was: its name has the host, the process and a token."""
    host = socket.gethostname()
    found: dict[str, str] = {}
    for event in events:
        for owner in (event.data.get("owner"), event.data.get("before")):
            if isinstance(owner, str) and owner.startswith(f"{host}:"):
                node = nodes.get(int(owner.split(":")[-2]))
                if node is not None:
                    found[owner] = node
    return found


def _lines(path: Path, shape: type[Any]) -> list[Any]:
    return read_lines(path.read_text(encoding="utf-8"), shape) if path.exists() else []


def _micros(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return round(moment.timestamp() * 1000) * 1000 + moment.microsecond % 1000


def _now() -> int:
    return time.time_ns() // 1000


async def _sleep_until(moment: float) -> None:
    await asyncio.sleep(max(moment - time.monotonic(), 0))
