"""The servers that all systems share in a run: a PostgreSQL and a Redis of our own, in temporary directories, on free ports."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.postgres import fresh_database, ripe_postgres
from duly.services.service import free_port
from tests.services.postgres import Postgres

REDIS_SETTINGS = {"appendonly": "yes", "appendfsync": "everysec", "save": ""}
"""What an answer of Redis promises: the last second may be lost."""


class RedisMissing(Exception):
    """This machine has no Redis server; the text says how to get one."""


class Redis:
    """One server, one owner."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self.port = self.pid = 0

    def __enter__(self) -> Redis:
        binary = shutil.which("redis-server")
        if binary is None:
            raise RedisMissing("no redis-server found: run python -m benchmarks.peers.install")
        directory = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="duly-redis-"))
        self.port = free_port()
        options = [word for name, value in REDIS_SETTINGS.items() for word in (f"--{name}", value)]
        # It dies with us, by whatever death.
        setpriv = [found, "--pdeathsig", "KILL", "--"] if (found := shutil.which("setpriv")) else []
        command = [*setpriv, binary, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", directory, *options]
        with Path(directory, "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, process_group=0)
        self._stack.callback(_end, process)
        self.pid = process.pid
        deadline = time.monotonic() + 30
        while self.ask("PING") != "PONG":
            if process.poll() is not None or time.monotonic() > deadline:
                raise RedisMissing(f"redis-server did not start:\n{Path(directory, 'log').read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"redis://127.0.0.1:{self.port}/0"

    def ask(self, *words: str) -> str:
        """One command, and its answer as text."""
        done = subprocess.run(["redis-cli", "-p", str(self.port), *words], capture_output=True, text=True, check=False)
        return done.stdout.strip()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


class Servers:
    """What is needed of them, started when it is first needed. `fresh` empties both."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._postgres: Postgres | None = None
        self._redis: Redis | None = None

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    @property
    def postgres(self) -> Postgres:
        """The one for all systems on PostgreSQL."""
        if self._postgres is None:
            self._postgres = self._stack.enter_context(ripe_postgres())
        return self._postgres

    @property
    def redis(self) -> Redis:
        """The one for all systems on Redis."""
        if self._redis is None:
            self._redis = self._stack.enter_context(Redis())
        return self._redis

    def pids(self, store: str) -> list[int]:
        """The server of such a store; none where there is no server."""
        if store == "postgres":
            return [self.postgres.pid]
        return [self.redis.pid] if store == "redis" else []

    def fresh_postgres(self) -> str:
        """An empty database."""
        return fresh_database(self.postgres)

    def fresh_redis(self) -> str:
        """An empty Redis."""
        self.redis.ask("FLUSHALL")
        return self.redis.url
