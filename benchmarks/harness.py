"""What the benchmarks share: a scratch store, real worker and server processes on it, and a way to print."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import secrets
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from duly import config
from duly.adapters.system.clock import system_entropy
from duly.compose import Node, open_node
from duly.domain.access import DEFAULT_TENANT, DEFAULT_TENANT_NUMBER, Actor, Role
from duly.domain.ids import new_id
from duly.domain.job import Job, JobSpec, Target, Timing
from tests.services.postgres import Postgres

ACTOR = Actor(DEFAULT_TENANT_NUMBER, DEFAULT_TENANT, Role.ADMIN, "benchmark")
STORES = ("sqlite", "postgres")
KEY = "duly_benchmark_key"
# What anybody sets who gives a machine to PostgreSQL. Durability is as it comes: fsync and synchronous_commit are on.
POSTGRES_SETTINGS = {"shared_buffers": "2GB", "max_wal_size": "8GB", "min_wal_size": "2GB", "autovacuum_naptime": "1min"}
LOG_FILES = 64


@dataclass(frozen=True, slots=True)
class Scratch:
    """A store that is made for one measurement and removed after it."""

    kind: str
    url: str
    directory: Path

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of a process on this store."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}
        # One key asks for all that there is.
        own = {"DULY_STORE": self.url, "DULY_HOME": str(self.directory), "DULY_LOG_LEVEL": "warning", "DULY_RATE_LIMIT": "0"}
        return kept | own | more


@contextlib.contextmanager
def scratch(kind: str) -> Iterator[Scratch]:
    """An empty store of this kind: a file, or a PostgreSQL server of its own with fsync and synchronous_commit on."""
    with tempfile.TemporaryDirectory(prefix="duly-bench-") as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        if kind == "sqlite":
            url = f"sqlite:///{directory / 'bench.db'}"
        else:
            server = stack.enter_context(ripe_postgres())
            url = server.create_database("bench")
        yield Scratch(kind, url, directory)


@contextlib.contextmanager
def ripe_postgres() -> Iterator[Postgres]:
    """A server that has run for a while reuses the files of its log; a new one stops for tens of milliseconds to write each first."""
    with Postgres(POSTGRES_SETTINGS) as server:
        server.execute(f"SELECT pg_logical_emit_message(false, 'ripen', ''), pg_switch_wal() FROM generate_series(1, {LOG_FILES})")
        server.execute("CHECKPOINT")
        yield server


@contextlib.asynccontextmanager
async def opened(scratch: Scratch) -> AsyncIterator[Node]:
    """A node on the store."""
    node = await open_node(config.load(scratch.environment()))
    try:
        yield node
    finally:
        await node.close()


async def on_demand_job(node: Node, handler: str, name: str | None = None, actor: Actor = ACTOR) -> Job:
    """A job that is only enqueued."""
    now = node.clock.now()
    spec = JobSpec(name=name or f"bench-{secrets.token_hex(4)}", timing=Timing(), target=Target(handler=handler))
    return (await node.jobs.create_specs(actor, [(new_id(now, system_entropy), spec)], now))[0]


@contextlib.contextmanager
def processes(scratch: Scratch, *commands: Sequence[str], **environment: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Real `duly` processes on the store; stopped cleanly at the end."""
    running = [
        subprocess.Popen([sys.executable, "-m", "duly.cli.main", *command], env=scratch.environment(**environment), stdout=subprocess.PIPE)
        for command in commands
    ]
    try:
        yield running
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=30)
            process.kill()


def server_url(process: subprocess.Popen[bytes]) -> tuple[str, int]:
    """Where a server that was started on port 0 listens, as it says itself."""
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(rb"http://([0-9.]+):([0-9]+)", line)
        if found:
            return found[1].decode(), int(found[2])
    raise RuntimeError("the server ended before it listened")


async def query(scratch: Scratch, sql: str) -> list[tuple[Any, ...]]:
    """Look at the store from outside, with plain SQL."""
    if scratch.kind == "sqlite":
        with contextlib.closing(sqlite3.connect(scratch.directory / "bench.db")) as file:
            return file.execute(sql).fetchall()
    connection = await asyncpg.connect(scratch.url, server_settings={"search_path": "duly"})
    try:
        return [tuple(row) for row in await connection.fetch(sql)]
    finally:
        await connection.close()


def chosen_stores(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, tuple[str, ...]]:
    """The options of a benchmark, and the stores it was asked to measure: both unless it says otherwise."""
    parser.add_argument("--store", choices=STORES, action="append")
    options = parser.parse_args()
    return options, tuple(options.store or STORES)


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p99 and the largest."""
    ordered = sorted(values)
    return {"p50": statistics.median(ordered), "p99": ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))], "max": ordered[-1]}


def report(question: str, **figures: object) -> dict[str, object]:
    """One line of JSON per measurement, for people and for the table."""
    row = {"question": question, **figures}
    print(json.dumps(row), flush=True)
    return row
