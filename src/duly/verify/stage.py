"""Everything that takes part in a test, put up in one directory: the store, the links, the sink, the fleet and the clients.

api-1, api-2            `duly api`
scheduler-1 to -3       `duly scheduler`: dispatcher, sweeper and pruner
worker-1 to -6          `duly worker`: on the store, as several processes, and over HTTP through each API node
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly.domain.errors import Unavailable
from duly.services.service import free_port
from duly.verify.fleet import APP, Fleet, Node, node_environment
from duly.verify.handlers import SINK_PORT
from duly.verify.history import SECOND, Fault, Timing
from duly.verify.links import Links, SinkProcess
from duly.verify.stores import StoreUnderTest
from duly.verify.workload import Plan, Workload

if TYPE_CHECKING:
    from duly.verify.engines.engine import Engine

STORE, API = "store", "api"
# How late a piece may come on a slow link, in seconds, on the average.
SLOWEST = 0.3
_START_TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class Size:
    """How many nodes of each kind. Of the workers, the last ones are remote, and the first with `several` runs as processes."""

    apis: int = 2
    schedulers: int = 3
    workers: int = 6
    remote: int = 2

    @classmethod
    def small(cls) -> Size:
        """For a machine that has other things to do."""
        return cls(apis=1, schedulers=2, workers=3, remote=1)


@dataclass(slots=True)
class Stage:
    """What is there while a test runs, and what was broken so far."""

    directory: Path
    store: StoreUnderTest
    links: Links
    sink: SinkProcess
    fleet: Fleet
    workload: Workload
    timing: Timing
    faults: list[Fault] = field(default_factory=list)
    # One fault of the store at a time.
    store_turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    # Set when everything is to be mended now.
    mend: asyncio.Event = field(default_factory=asyncio.Event)

    async def hold(self, seconds: float) -> None:
        """Leave something broken for so long, or until everything is to be mended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.mend.wait()

    @contextlib.asynccontextmanager
    async def broken(self, kind: str, nodes: list[str], **about: Any) -> AsyncIterator[Fault]:
        """Something is broken inside this block. What happens in it is noted, whether it worked or not."""
        fault = Fault(kind=kind, since=_now(), nodes=nodes, about=about)
        self.faults.append(fault)
        try:
            yield fault
        finally:
            fault.until = _now()

    def broken_now(self) -> list[Fault]:
        """What is broken at this moment."""
        return [fault for fault in self.faults if fault.until is None]

    def links_of(self, node: str) -> list[str]:
        """The links of one node."""
        return [name for name in self.links.names if name.startswith(f"{node}/")]


@contextlib.asynccontextmanager
async def put_up(directory: Path, store: StoreUnderTest, plan: Plan, size: Size, engines: Sequence[Engine] = ()) -> AsyncIterator[Stage]:
    """Put everything up, and take it down again."""
    key = f"duly_{secrets.token_hex(24)}"
    lease = round(plan.lease * 1000)
    environment = node_environment(DULY_ADMIN_KEY=key, DULY_KEY=key, DULY_WORKER_TTL=f"{lease}ms", DULY_GRACE="5s", DULY_CHILDREN="2")
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        await store.open()
        links = await Links.open(environment)
        stack.push_async_callback(links.close)
        sink = await SinkProcess.open(directory / "sink.jsonl", environment)
        stack.push_async_callback(sink.close)
        (directory / SINK_PORT).write_text(str(sink.port), encoding="ascii")
        for engine in engines:
            stack.push_async_callback(engine.close)
            await engine.open()
        makers = _Makers(directory, store, links, environment, engines)
        ports = [free_port() for _ in range(size.apis)]
        fleet = Fleet(await makers.nodes(size, ports))
        stack.push_async_callback(fleet.close)
        doors = {
            f"client-{n}": [await links.add(f"client-{n}", API, ("127.0.0.1", port)) for port in ports] for n in range(1, plan.clients + 1)
        }
        workload = Workload(plan, lambda name: list(doors[name]), key)
        stack.callback(workload.close)
        stage = Stage(directory, store, links, sink, fleet, workload, timing_of(plan.lease, store, 0))
        began = time.monotonic()
        fleet.start()
        await _until_ready(stage, size)
        stage.timing = timing_of(plan.lease, store, time.monotonic() - began)
        # The dispatchers have met, and share the shards out: that takes a lease of theirs at most.
        await asyncio.sleep(stage.timing.leader_ttl / SECOND)
        yield stage


def timing_of(lease: float, store: StoreUnderTest, start: float) -> Timing:
    """The parameters of the fleet, from which the bounds follow; `start` is how long it took to come up, in seconds."""
    ttl = round(lease * SECOND)
    # What has died needs as long again as this machine, busy as it is, needed for all of them.
    restart = max(Timing().restart, round(start * SECOND))
    return Timing(lease_ttl=ttl, heartbeat=ttl // 3, margin=ttl * 2 // 15, restart=restart, store_clock=store.clock)


class _Makers:
    """Makes the nodes, each with its own links."""

    def __init__(
        self, directory: Path, store: StoreUnderTest, links: Links, environment: dict[str, str], engines: Sequence[Engine]
    ) -> None:
        self._engines = engines
        self._directory = directory / "nodes"
        self._store = store
        self._links = links
        self._environment = environment

    async def nodes(self, size: Size, ports: list[int]) -> list[Node]:
        made = [await self._on_store(f"api-{n}", "api", ["api", "--port", str(port)]) for n, port in enumerate(ports, 1)]
        made += [await self._on_store(f"scheduler-{n}", "scheduler", ["scheduler"]) for n in range(1, size.schedulers + 1)]
        for n in range(1, size.workers + 1):
            if n > size.workers - size.remote:
                made.append(await self._remote(f"worker-{n}", ports[n % len(ports)]))
            else:
                several = ["--processes", "2"] if n == 2 else []
                made.append(await self._on_store(f"worker-{n}", "worker", ["worker", APP, "--slots", "20", *several]))
        return made

    async def _on_store(self, name: str, kind: str, words: list[str]) -> Node:
        address = self._store.address
        port = None if address is None else await self._links.add(name, STORE, address)
        environment = self._environment | {"DULY_STORE": self._store.url(name, port)}
        for engine in self._engines:
            environment |= await engine.settings(name, kind, self._links)
        return Node(name, kind, words, self._directory / name, environment)

    async def _remote(self, name: str, port: int) -> Node:
        door = await self._links.add(name, API, ("127.0.0.1", port))
        words = ["worker", APP, "--slots", "20", "--server", f"http://127.0.0.1:{door}"]
        return Node(name, "worker", words, self._directory / name, self._environment)


async def _until_ready(stage: Stage, size: Size) -> None:
    """Until every worker is registered: then the store has been reached from everywhere."""
    end = time.monotonic() + _START_TIMEOUT
    # The one of several processes counts as many.
    wanted = size.workers + (1 if size.workers - size.remote >= 2 else 0)
    while time.monotonic() < end:
        answer = await stage.workload.reader.read("/v1/workers")
        live = [worker for worker in (answer or {}).get("items", ()) if worker["state"] != "LOST"]
        if len(live) >= wanted and all(node.is_alive for node in stage.fleet.nodes.values()):
            return
        await asyncio.sleep(0.2)
    raise Unavailable(
        "DULY-E607",
        f"The nodes under test did not come up within {_START_TIMEOUT:.0f} s.",
        hint=f"Their logs are in {stage.directory / 'nodes'}.",
    )


def _now() -> int:
    return time.time_ns() // 1000
