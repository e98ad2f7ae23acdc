"""What the benchmarks share: a scratch store, real worker and server processes on it, and a way to print."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.postgres import fresh_database, ripe_postgres
from benchmarks.variants import AS_IT_COMES, Kept, Variant
from duly import config
from duly.adapters.system.clock import system_entropy
from duly.compose import Node, open_node
from duly.domain.access import DEFAULT_TENANT, DEFAULT_TENANT_NUMBER, Actor, Role
from duly.domain.ids import new_id, new_ids
from duly.domain.job import Job, JobSpec, Target, Timing
from duly.services.postgres import Postgres

ACTOR = Actor(DEFAULT_TENANT_NUMBER, DEFAULT_TENANT, Role.ADMIN, "benchmark")
STORES = ("sqlite", "postgres")
ROOT = Path(__file__).parents[1]
PAGE = 1000
LOG = "processes.log"
Look = Callable[[str], Awaitable[list[tuple[Any, ...]]]]
KEY = "duly_benchmark_key"


@dataclass(frozen=True, slots=True)
class Scratch:
    """A store that is made for one measurement and removed after it."""

    kind: str
    url: str
    directory: Path
    server: Postgres | None = None
    variant: Variant = AS_IT_COMES

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of a process on this store."""
        # Nor what would let every process compile all it imports anew: that is a second of its processor.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DULY_") and name != "PYTHONDONTWRITEBYTECODE"}
        # One key asks for all that there is.
        own = {"DULY_STORE": self.url, "DULY_HOME": str(self.directory), "DULY_LOG_LEVEL": "warning", "DULY_RATE_LIMIT": "0"}
        return kept | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"} | own | dict(self.variant.settings) | more

    @property
    def database(self) -> Postgres:
        """The server; only for a store that has one."""
        assert self.server is not None, "a file has no server"
        return self.server


class Stores:
    """Makes scratch stores: a file, or a fresh database on a PostgreSQL server that serves a whole run, as what variants keep does."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._server: Postgres | None = None
        self._kept = Kept(self._stack)

    def __enter__(self) -> Stores:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def fresh(self, kind: str, variant: Variant = AS_IT_COMES) -> Iterator[Scratch]:
        """An empty store of this kind, with fsync on."""
        with tempfile.TemporaryDirectory(prefix="duly-bench-") as name, variant.put_up(self._kept) as variant:
            directory = Path(name)
            if kind == "sqlite":
                yield Scratch(kind, f"sqlite:///{directory / 'bench.db'}", directory, None, variant)
            else:
                if self._server is None:
                    self._server = self._stack.enter_context(ripe_postgres())
                yield Scratch(kind, fresh_database(self._server), directory, self._server, variant)


@contextlib.contextmanager
def scratch(kind: str) -> Iterator[Scratch]:
    """An empty store of this kind, on its own."""
    with Stores() as stores, stores.fresh(kind) as store:
        yield store


@contextlib.asynccontextmanager
async def opened(scratch: Scratch) -> AsyncIterator[Node]:
    """A node on the store."""
    node = await open_node(config.load(scratch.environment()))
    try:
        yield node
    finally:
        await node.close()


async def on_demand_job(node: Node, handler: str, name: str | None = None, actor: Actor = ACTOR, batch: int = 1) -> Job:
    """A job that is only enqueued."""
    now = node.clock.now()
    spec = JobSpec(name=name or f"bench-{secrets.token_hex(4)}", timing=Timing(), target=Target(handler=handler), batch=batch)
    return (await node.jobs.create_specs(actor, [(new_id(now, system_entropy), spec)], now))[0]


async def create_jobs(node: Node, count: int, spec_of: Callable[[int], JobSpec]) -> None:
    """So many jobs, the quickest way there is."""
    for start in range(0, count, PAGE):
        now = node.clock.now()
        wanted = range(start, min(start + PAGE, count))
        await node.jobs.create_specs(ACTOR, list(zip(new_ids(len(wanted), now, system_entropy), map(spec_of, wanted), strict=True)), now)


@contextlib.contextmanager
def processes(scratch: Scratch, *commands: Sequence[str], **environment: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Real `duly` processes on the store; stopped cleanly at the end."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            running.append(start(scratch, command, **environment))
        yield running
    finally:
        stop(running)


def start(scratch: Scratch, command: Sequence[str], **environment: str) -> subprocess.Popen[bytes]:
    """One of them. What it logs is kept beside the store."""
    with (scratch.directory / LOG).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "duly.cli.main", *command], env=scratch.environment(**environment), stdout=subprocess.PIPE, stderr=log
        )


def stop(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask all of them to end, then wait."""
    for process in running:
        process.send_signal(signal.SIGTERM)
    for process in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=30)
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def server_url(process: subprocess.Popen[bytes]) -> tuple[str, int]:
    """Where a server that was started on port 0 listens, as it says itself."""
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(rb"http://([0-9.]+):([0-9]+)", line)
        if found:
            return found[1].decode(), int(found[2])
    raise RuntimeError("the server ended before it listened")


@contextlib.asynccontextmanager
async def looking(scratch: Scratch) -> AsyncIterator[Look]:
    """Look at the store from outside, with plain SQL, as often as it takes."""
    if scratch.kind == "sqlite":
        with contextlib.closing(sqlite3.connect(scratch.directory / "bench.db")) as file:

            async def ask_file(sql: str) -> list[tuple[Any, ...]]:
                return file.execute(sql).fetchall()

            yield ask_file
        return
    connection = await asyncpg.connect(scratch.url, server_settings={"search_path": "duly", "jit": "off"})

    async def ask_server(sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await connection.fetch(sql)]

    try:
        yield ask_server
    finally:
        await connection.close()


async def query(scratch: Scratch, sql: str) -> list[tuple[Any, ...]]:
    """The same once."""
    async with looking(scratch) as look:
        return await look(sql)


def report(question: str, **figures: object) -> dict[str, object]:
    """One line of JSON per measurement, for people and for the table."""
    row = {"question": question, **figures}
    print(json.dumps(row), flush=True)
    return row
