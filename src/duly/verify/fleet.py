"""The nodes under test: `duly` itself as operating system processes, killed, paused, drained and started again.

Every node has a directory of its own, a link of its own to each thing it talks to, and its own name on the store. What has died is
started again after a moment, as an init system would.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import duly
from duly import config

APP = "duly.verify.handlers:app"
# How long what has died stays down.
RESTART = 1.0
_LOOK = 0.1


@dataclass(slots=True)
class Node:
    """One process of Duly: its name, its kind (api, scheduler, worker), its command line, and its links."""

    name: str
    kind: str
    words: list[str]
    directory: Path
    environment: dict[str, str]
    links: list[str] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None
    # Every process id it ever had.
    pids: list[int] = field(default_factory=list)
    starts: int = 0
    # Ends that nobody asked for, by exit status.
    deaths: dict[int, int] = field(default_factory=dict)
    died_at: float | None = None
    _expects_end: bool = False
    _log: IO[bytes] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether its process runs, or is paused."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start its process."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._log is None:
            self._log = (self.directory / "log").open("ab")
        # It must not outlive us, whatever ends us; and a Ctrl-C at the terminal is ours alone.
        setpriv = shutil.which("setpriv")
        before = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", "duly.cli.main", *self.words],
            env=self.environment,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            process_group=0,
        )
        self.pids.append(self.process.pid)
        self.starts += 1
        self.died_at = None
        self._expects_end = False

    def signal(self, number: int, *, whole: bool = True) -> None:
        """Signal it, and all processes that it started; or only it."""
        if self.process is None or self.process.poll() is not None:
            return
        if number in (signal.SIGKILL, signal.SIGTERM):
            self._expects_end = True
        for pid in [self.process.pid, *(descendants(self.process.pid) if whole else [])]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """End it without warning. What it started ends by itself, or does not: that is part of the test."""
        self.signal(signal.SIGKILL, whole=False)

    def notice(self, now: float) -> None:
        """See whether it has ended since the last look."""
        if self.process is None or self.died_at is not None or self.process.poll() is None:
            return
        self.died_at = now
        if not self._expects_end:
            status = self.process.returncode
            self.deaths[status] = self.deaths.get(status, 0) + 1

    def close(self) -> None:
        """End it and everything it started."""
        self.signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
        if self._log is not None:
            self._log.close()
            self._log = None


class Fleet:
    """All nodes, and who starts them again."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self._task: asyncio.Task[None] | None = None
        # Set after every look, and replaced.
        self._looked = asyncio.Event()

    def of(self, kind: str) -> list[Node]:
        """The nodes of one kind."""
        return [node for node in self.nodes.values() if node.kind == kind]

    def start(self) -> None:
        """Start all, and keep them running."""
        for node in self.nodes.values():
            node.start()
        self._task = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        while True:
            now = time.monotonic()
            for node in self.nodes.values():
                node.notice(now)
                if node.died_at is not None and now - node.died_at >= RESTART:
                    node.start()
            looked, self._looked = self._looked, asyncio.Event()
            looked.set()
            await asyncio.sleep(_LOOK)

    async def until_up(self, node: Node, starts: int) -> None:
        """Wait until it was started more often than that."""
        while node.starts <= starts:
            await self._looked.wait()

    async def close(self) -> None:
        """End all."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        for node in self.nodes.values():
            node.close()

    def by_pid(self) -> dict[int, str]:
        """Which node a process was."""
        return {pid: node.name for node in self.nodes.values() for pid in node.pids}


def node_environment(**settings: str) -> dict[str, str]:
    """The environment of a node: ours without what configures Duly or PostgreSQL, this very Duly, and these settings."""
    package = Path(duly.__file__).parents[1]
    clock = Path(__file__).parent / "node_clock"
    kept = config.environment_without("DULY_", "PG")
    path = os.pathsep.join(filter(None, [str(clock), str(package), kept.get("PYTHONPATH", "")]))
    return kept | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "DULY_LOG_FORMAT": "json"} | settings


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and those that they did; none where there is no /proc."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text(encoding="ascii").split():
                found += [int(child), *descendants(int(child))]
    return found
