"""The processes of a system: its program, asked for one thing, and its workers, while they run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.marks import Marks
from benchmarks.peers.servers import Servers
from benchmarks.peers.system import ROOT, Place, Setting, System
from benchmarks.report import Failed
from benchmarks.usage import processor_seconds

# How long a process may take to get ready, and how long nothing may happen before it counts as stuck.
START = 60.0
STALL = 30.0
STOP = 10.0
ASK = 600.0


class Used(NamedTuple):
    """Processor seconds at a moment, of the workers and of the server, and how many handlers had started until then."""

    starts: int
    workers: float | None
    server: float | None


class Running:
    """A system on a fresh store, with or without workers."""

    def __init__(self, system: System, setting: Setting, place: Place, marks: Marks) -> None:
        self.system, self.setting, self.place, self.marks = system, setting, place, marks
        self._environment = system.environment(place, setting)
        self._log = place.directory / "workers.log"
        self._workers: list[subprocess.Popen[str]] = []

    def ask(self, command: str, *words: object, text: str = "") -> dict[str, Any]:
        """Let the program do one thing. A system whose producer is inside is asked there while it runs."""
        if self._workers and self.system.is_inside:
            return self._ask_inside(command, words, text)
        full = [*self.system.program(self.place), command, *map(str, words)]
        done = subprocess.run(full, env=self._environment, cwd=ROOT, input=text, capture_output=True, text=True, timeout=ASK, check=False)
        for line in done.stdout.splitlines():
            if line.startswith("RESULT "):
                return _object(line)
        raise Failed(f"{command} failed: {_last_words(done.stderr + done.stdout)}")

    @contextlib.contextmanager
    def workers(self) -> Iterator[None]:
        """Its workers, for as long as the block lasts. The first one is asked, where the producer is inside."""
        with self._log.open("wb") as log:
            for command in self.system.workers(self.place, self.setting):
                is_asked = self.system.is_inside and not self._workers
                self._workers.append(
                    subprocess.Popen(
                        command,
                        env=self._environment,
                        cwd=ROOT,
                        stdin=subprocess.PIPE if is_asked else subprocess.DEVNULL,
                        stdout=subprocess.PIPE if is_asked else log,
                        stderr=log,
                        text=True,
                        # A group of its own, so that nothing of it is left behind.
                        start_new_session=True,
                    )
                )
        try:
            yield
        finally:
            self._stop()

    def wait(self, count: int, limit: float) -> bool:
        """Wait until so many handlers have started; whether they have, within the limit from the first one on."""
        seen, changed, first = self.marks.count(), time.monotonic(), 0.0
        while seen < count:
            time.sleep(0.02)
            now = time.monotonic()
            if (more := self.marks.count()) != seen:
                seen, changed = more, now
                first = first or now
            self._check()
            if now - changed > (STALL if first else START) or (first and now - first > limit):
                return False
        return True

    def warm(self, count: int = 20) -> None:
        """Wait until the workers really run jobs."""
        before = self.marks.count()
        self.ask("paced", count, 50)
        if not self.wait(before + count, START):
            raise Failed(f"of {count} jobs to warm up with, {self.marks.count() - before} ran: {self.last_words()}")
        self.settle()

    def settle(self, limit: float = 60.0) -> float | None:
        """Wait until the store says that nothing is left; when it said so."""
        until = time.monotonic() + limit
        while time.monotonic() < until:
            if self.system.is_settled(self.place):
                return time.time()
            time.sleep(0.01)
        return None

    def used(self) -> Used:
        """What it has used so far."""
        pids = self.place.servers.pids(self.system.store)
        return Used(self.marks.count(), processor_seconds(worker.pid for worker in self._workers), processor_seconds(pids))

    def last_words(self) -> str:
        """The end of the workers' log."""
        return _last_words(self._log.read_text(errors="replace") if self._log.exists() else "")

    def _ask_inside(self, command: str, words: Sequence[object], text: str) -> dict[str, Any]:
        worker = self._workers[0]
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            worker.stdin.write(json.dumps([command, [str(word) for word in words], text]) + "\n")
            worker.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"it ended: {self.last_words()}") from None
        # Who never answers is ended, and so are its lines.
        patience = threading.Timer(ASK, worker.kill)
        patience.start()
        try:
            for line in worker.stdout:
                if line.startswith("RESULT "):
                    return _object(line)
        finally:
            patience.cancel()
        raise Failed(f"{command} failed: {self.last_words()}")

    def _check(self) -> None:
        for worker in self._workers:
            if worker.poll() is not None:
                raise Failed(f"a worker ended with {worker.returncode}: {self.last_words()}")

    def _stop(self) -> None:
        for worker in self._workers:
            worker.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP
        for worker in self._workers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(max(0.1, deadline - time.monotonic()))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
            for pipe in (worker.stdin, worker.stdout):
                if pipe is not None:
                    pipe.close()
        self._workers.clear()


@contextlib.contextmanager
def on_fresh_store(system: System, setting: Setting, work: str, servers: Servers, home: Path) -> Iterator[Running]:
    """The system with an empty store and its schema in it."""
    with Marks() as marks, tempfile.TemporaryDirectory(prefix="duly-peers-") as directory:
        place = Place(
            servers=servers,
            home=home,
            directory=Path(directory),
            marks=marks.path,
            work=work,
            dsn=servers.fresh_postgres() if system.store == "postgres" else "",
            redis=servers.fresh_redis() if system.store == "redis" else "",
        )
        running = Running(system, setting, place, marks)
        running.ask("setup")
        yield running


def _object(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
    return found


def _last_words(text: str, lines: int = 12) -> str:
    return "\n".join(text.strip().splitlines()[-lines:]) or "(it said nothing)"
