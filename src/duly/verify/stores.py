"""The store under test: a SQLite file, a private PostgreSQL with a standby, or a database that the user names.

Each is brought up to date, found empty, and made to record what happens to it. `address` is where a proxy leads; None where
there is nothing to lead to.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from duly import compose, config
from duly.domain.access import DEFAULT_TENANT_NUMBER
from duly.domain.errors import Conflict, Invalid
from duly.ports.store import JobFilter
from duly.services import ServiceMissing
from duly.services.postgres import find_binaries
from duly.verify import recording
from duly.verify.history import Event
from duly.verify.servers import Duo

T = TypeVar("T")


class StoreUnderTest(ABC):
    """What every store under test can do."""

    name: str
    # How exact its clock is, in microseconds.
    clock: int = 0

    @abstractmethod
    async def open(self) -> None:
        """Make it ready, empty, and recording."""

    @abstractmethod
    def url(self, node: str, port: int | None) -> str:
        """What a node is given as its store: through the proxy's port, if there is one, and under the node's name."""

    @property
    def address(self) -> tuple[str, int] | None:
        """Where a proxy leads to."""
        return None

    @abstractmethod
    async def events(self) -> list[Event]:
        """What was recorded."""

    @abstractmethod
    async def close(self) -> None:
        """Let everything go."""


class SqliteStore(StoreUnderTest):
    """One file, in a directory of its own: a small disk of its own too, where this machine lets us make one."""

    name = "sqlite"
    clock = 1000

    def __init__(self, directory: Path, disk_mib: int) -> None:
        self.directory = directory
        self.path = directory / "duly.db"
        self._disk_mib = disk_mib
        self.has_own_disk = False

    async def open(self) -> None:
        self.directory.mkdir()
        self.has_own_disk = _mount(self.directory, self._disk_mib)
        await _prepare(self.url("setup", None))
        with contextlib.closing(sqlite3.connect(self.path, timeout=30)) as connection:
            recording.install_sqlite(connection)

    def url(self, node: str, port: int | None) -> str:
        return f"sqlite:///{quote(str(self.path))}"

    async def events(self) -> list[Event]:
        def read() -> list[Event]:
            with contextlib.closing(sqlite3.connect(self.path, timeout=30)) as connection:
                return recording.read_sqlite(connection)

        return await asyncio.to_thread(read)

    async def close(self) -> None:
        if self.has_own_disk:
            await asyncio.to_thread(subprocess.run, ["umount", "--lazy", str(self.directory)], capture_output=True, check=False)


class PostgresStore(StoreUnderTest):
    """A private server with a standby, which may be crashed and failed over."""

    name = "postgres"

    def __init__(self, *, standby: bool = True) -> None:
        try:
            find_binaries()
        except ServiceMissing as missing:
            raise Invalid(
                "DULY-E605",
                "This machine has no PostgreSQL server to test with.",
                hint="Install one (`apt install postgresql`), or use --store sqlite or the URL of an empty database.",
            ) from missing
        self.duo = Duo(standby=standby)
        # The kernel ends the servers with the thread that started them: one thread, which lasts as long as they do.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="verify-servers")

    async def open(self) -> None:
        await self.on_thread(self.duo.start)
        await _prepare(self.duo.dsn)
        await recording.install_postgres(self.duo.dsn)

    async def on_thread(self, work: Callable[[], T]) -> T:
        """Do something with the servers."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.duo.primary.port

    def url(self, node: str, port: int | None) -> str:
        return _through(self.duo.dsn, node, port)

    async def events(self) -> list[Event]:
        return await recording.read_postgres(self.duo.dsn)

    async def close(self) -> None:
        await self.on_thread(self.duo.close)
        self._thread.shutdown()


class NamedStore(StoreUnderTest):
    """An empty PostgreSQL database of the user's. Its server is left alone: nodes and their links are what breaks."""

    name = "postgres (yours)"

    def __init__(self, url: str) -> None:
        self.dsn = url

    async def open(self) -> None:
        await _prepare(self.dsn)
        await recording.install_postgres(self.dsn)

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.dsn)
        return parts.hostname or "127.0.0.1", parts.port or 5432

    def url(self, node: str, port: int | None) -> str:
        return _through(self.dsn, node, port)

    async def events(self) -> list[Event]:
        return await recording.read_postgres(self.dsn)

    async def close(self) -> None:
        await recording.remove_postgres(self.dsn)


def store_named(text: str, directory: Path, *, minutes: float) -> StoreUnderTest:
    """The store that `--store` names: sqlite, postgres, or a URL."""
    if text == "sqlite":
        # What a run writes, with room to spare: its rows, what is recorded of them, and the journal.
        return SqliteStore(directory / "store", disk_mib=256 + round(minutes * 64))
    if text == "postgres":
        return PostgresStore()
    if urlsplit(text).scheme in ("postgres", "postgresql"):
        return NamedStore(text)
    raise Invalid(
        "DULY-E604",
        f"{text!r} is no store to test.",
        field="--store",
        hint="sqlite and postgres are made for the test and removed after it; postgresql://… names an empty database of yours.",
    )


async def _prepare(url: str) -> None:
    """Bring its schema up to date, and refuse one in which somebody has jobs."""
    node = await compose.open_node(config.load(store=url))
    try:
        found = await node.jobs.find(JobFilter(tenant=DEFAULT_TENANT_NUMBER, limit=1))
    finally:
        await node.close()
    if found:
        raise Conflict(
            "DULY-E606",
            "This database has jobs in it.",
            hint="A test creates jobs, breaks what runs them and records every change with triggers: give it an empty database.",
        )


def _through(dsn: str, node: str, port: int | None) -> str:
    parts = urlsplit(dsn)
    query = urlencode({**dict(parse_qsl(parts.query)), "application_name": node})
    if port is None:
        return parts._replace(query=query).geturl()
    user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    return parts._replace(netloc=f"{user}127.0.0.1:{port}", query=query).geturl()


def _mount(directory: Path, mib: int) -> bool:
    """A small disk there, which can be filled; False where we may not or cannot."""
    mount = shutil.which("mount")
    if mount is None:
        return False
    done = subprocess.run([mount, "-t", "tmpfs", "-o", f"size={mib}m,mode=0700", "tmpfs", str(directory)], capture_output=True, check=False)
    return done.returncode == 0


def admin_url(store: StoreUnderTest) -> str | None:
    """How the nemesis itself reaches a PostgreSQL store; None for SQLite."""
    if isinstance(store, PostgresStore):
        return _through(store.duo.dsn, "nemesis", None)
    return _through(store.dsn, "nemesis", None) if isinstance(store, NamedStore) else None
