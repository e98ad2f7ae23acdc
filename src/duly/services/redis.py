"""A real Redis, private to whoever started it: for `duly verify`, for tests and for benchmarks.

    with Redis() as server:
        server.ask("SET", "greeting", "hello")

It listens on 127.0.0.1 only, on a port that it keeps, and writes no file unless `keep_dump` asks it to: `start_from(dump)` brings it
back as it was then.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from duly.services import ServiceFailed, ServiceMissing
from duly.services.service import Service, options

DUMP = "dump.rdb"

SETTINGS: Mapping[str, str] = {
    "bind": "127.0.0.1",
    "daemonize": "no",
    # Nothing is written by itself: whatever is lost was only a hint.
    "save": "",
    "appendonly": "no",
    "enable-debug-command": "local",
}


def find_server() -> str:
    """The program `redis-server`. Raises ServiceMissing."""
    found = shutil.which("redis-server")
    if found is None:
        raise ServiceMissing("no redis-server found: run scripts/install-test-services, or `apt install redis-server`")
    return found


class Redis(Service):
    """One server; what it held is gone with it, unless a dump was kept."""

    name = "Redis"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._program = find_server()
        self._settings = {**SETTINGS, **(settings or {})}

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self, timeout: float | None = None) -> None:
        """Start, empty, and return once it answers."""
        if not self.is_running and self._directory is not None:
            (self.directory / DUMP).unlink(missing_ok=True)
        super().start(timeout)

    def start_from(self, dump: Path) -> None:
        """Start with what a dump has, however old it is."""
        if self.is_running:
            raise ServiceFailed("the server is running")
        shutil.copy(dump, self.directory / DUMP)
        self._start(self.patience)

    def keep_dump(self, name: str = "kept.rdb") -> Path:
        """Write down what it holds now, for a later `start_from`."""
        self.ask("SAVE")
        return Path(shutil.copy(self.directory / DUMP, self.directory / name))

    def ask(self, *words: str, timeout: float = 10.0) -> str | None:
        """One command and its answer, outside any event loop and without a client library. Raises ServiceFailed when it is refused."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection, connection.makefile("rb") as answers:
            parts = [f"*{len(words)}\r\n".encode()]
            for word in words:
                text = word.encode()
                parts.append(b"$%d\r\n%s\r\n" % (len(text), text))
            connection.sendall(b"".join(parts))
            return _answer(answers)

    def _command(self) -> list[str]:
        own = {"port": str(self.port), "dir": str(self.directory), "dbfilename": DUMP}
        return [self._program, *options({**self._settings, **own})]

    def _answers(self) -> bool:
        with contextlib.suppress(OSError, ServiceFailed):
            return self.ask("PING", timeout=1.0) is not None
        return False


def _answer(answers: IO[bytes]) -> str | None:
    """Of the kinds of answers, those that the commands here have: a word, an error, a number, a text, and how many there are of a list."""
    line = answers.readline().decode().rstrip("\r\n")
    if not line:
        raise ServiceFailed("Redis has ended the connection")
    kind, rest = line[0], line[1:]
    if kind == "-":
        raise ServiceFailed(rest)
    if kind != "$":
        return rest
    size = int(rest)
    return None if size < 0 else answers.read(size + 2)[:-2].decode()
