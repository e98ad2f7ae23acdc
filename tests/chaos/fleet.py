"""A fleet of real `duly` processes on one store, to be killed, paused and started again."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.services.warm import Warm

KEY = "duly_chaos_key_0123456789"
APP = "tests.chaos.effects:app"
ROOT = Path(__file__).parents[2]
# Seconds. What takes longer than this does not happen.
PATIENCE = 90.0


class Refused(Exception):
    """The API said no: its status, its Retry-After, its problem document."""

    def __init__(self, status: int, retry_after: str | None, problem: Any) -> None:
        super().__init__(status, problem)
        self.status = status
        self.retry_after = retry_after


class Member:
    """One process. Its lines are read by a thread, so that waiting for one never blocks the process."""

    def __init__(self, arguments: list[str], environment: dict[str, str], directory: Path, python: str | None = None) -> None:
        """`python`: started anew by that interpreter; otherwise it has imported what it needs before it begins."""
        self.arguments = arguments
        self.process: Warm | subprocess.Popen[str] = (
            Warm(arguments, environment, directory)
            if python is None
            else subprocess.Popen(
                [python, "-m", "duly.cli.main", *arguments],
                env=environment,
                cwd=directory,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        self.lines: list[str] = []
        self._news: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.lines.append(line)
                self._news.put(line)
        self._news.put(None)

    def wait_for(self, pattern: str, timeout: float = PATIENCE) -> re.Match[str]:
        """The first line that matches, from the ones that nobody has waited for yet."""
        end = time.monotonic() + timeout
        while True:
            try:
                line = self._news.get(timeout=max(end - time.monotonic(), 0.01))
            except queue.Empty:
                line = None
            if line is None:
                raise AssertionError(f"{self.arguments} never said {pattern!r}:\n{''.join(self.lines)}")
            if found := re.search(pattern, line):
                return found

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait until it is gone, paused or not."""
        self.signal(signal.SIGKILL)
        self.process.wait()
        self._reader.join()


class Fleet:
    """The members, the API, and what the handlers wrote down."""

    def __init__(self, store: str, directory: Path, *, python: str | None = None, **settings: str) -> None:
        self.directory = directory
        self._python = python
        self.members: list[Member] = []
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}
        self.environment = kept | {
            "DULY_STORE": store,
            "DULY_HOME": str(directory / "home"),
            "DULY_ADMIN_KEY": KEY,
            "DULY_WORKER_TTL": "2s",
            "DULY_LOG_LEVEL": "info",
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
            "PYTHONUNBUFFERED": "1",
            **settings,
        }
        self.url = ""

    def start(self, *arguments: str, **settings: str) -> Member:
        member = Member(list(arguments), self.environment | settings, self.directory, self._python)
        self.members.append(member)
        return member

    def start_api(self, *arguments: str) -> Member:
        member = self.start(*(arguments or ("server",)), "--port", "0")
        self.url = member.wait_for(r"(http://127\.0\.0\.1:\d+)")[1]
        return member

    def replace(self, member: Member) -> Member:
        """Kill it without warning and start another in its place."""
        member.kill()
        self.members.remove(member)
        return self.start(*member.arguments)

    def stop(self) -> None:
        for member in self.members:
            member.kill()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One API call; raises Refused for anything but a success."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=60)
        with contextlib.closing(connection):
            connection.request(
                method,
                path,
                body=None if body is None else json.dumps(body),
                headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            content = json.loads(answer.read())
        if answer.status >= 300:
            raise Refused(answer.status, answer.headers["Retry-After"], content)
        return content

    def job(self, name: str) -> str:
        return str(self.call("GET", f"/v1/jobs?name={name}")["items"][0]["jobId"])

    def executions(self, path: str = "/v1/executions") -> Iterator[dict[str, Any]]:
        """Every execution, page by page."""
        cursor = ""
        separator = "&" if "?" in path else "?"
        while True:
            page = self.call("GET", f"{path}{separator}limit=200{cursor}")
            yield from page["items"]
            if not page["nextCursor"]:
                return
            cursor = f"&cursor={page['nextCursor']}"

    def effects(self) -> list[dict[str, Any]]:
        file = self.directory / "effects.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def eventually(true: Callable[[], bool], timeout: float, what: str) -> None:
    """Look until it is true: the only way to wait for other processes. Fails with `what` when it never is, on a busy machine too."""
    timeout = max(timeout, PATIENCE)
    end = time.monotonic() + timeout
    while True:
        with contextlib.suppress(Refused, http.client.HTTPException, OSError):
            if true():
                return
        if time.monotonic() > end:
            raise AssertionError(f"after {timeout:.0f} s, still not: {what}")
        time.sleep(0.1)
