"""Real processes: a worker is killed, the database stands still. The right alert arrives once, outside, and that it is over."""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import Running
from tests.services.missing import service_missing
from tests.services.postgres import Postgres, ServiceMissing

pytestmark = pytest.mark.slow

# What docs/how-to/alerts.md promises, for these settings, with room for a machine that is busy.
PATIENCE = 90.0


class Receiver:
    """Keeps what it was sent. On a machine that stands still for seconds a worker may fall silent that nobody has killed, and that is told
    too: so what is asked here is whether something is open, not what came next."""

    def __init__(self, port: int, told: queue.Queue[dict[str, Any]]) -> None:
        self.port = port
        self._coming = told
        self.told: list[dict[str, Any]] = []

    def until_open(self, kind: str) -> str:
        """Waits until an incident of this kind is open; its title."""
        self._wait(lambda: bool(self._open(kind)))
        (found,) = [alert for alert in self.told if alert["event"] == "alert.opened" and alert["incidentId"] in self._open(kind)]
        return str(found["title"])

    def until_over(self, kind: str) -> str:
        """Waits until none is open any more; what was said of the last one."""
        self._wait(lambda: not self._open(kind))
        return str([alert["title"] for alert in self.told if alert["kind"] == kind][-1])

    def _open(self, kind: str) -> set[str]:
        opened, over = ({alert["incidentId"] for alert in self.told if self._is(alert, kind, event)} for event in ("opened", "resolved"))
        return opened - over

    @staticmethod
    def _is(alert: dict[str, Any], kind: str, event: str) -> bool:
        return (alert["kind"], alert["event"]) == (kind, f"alert.{event}")

    def _wait(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self.told.append(self._coming.get(timeout=PATIENCE))


@contextmanager
def receiver() -> Iterator[Receiver]:
    told: queue.Queue[dict[str, Any]] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            return None

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Receiver(server.server_port, told)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_killed_worker_and_a_database_that_stands_still_are_told_once_each(tmp_path: Path) -> None:
    with a_postgres() as postgres, receiver() as outside:
        common = {"DULY_STORE": postgres.create_database("alerts"), "DULY_WORKER_TTL": "3s", "DULY_PORT": "0"}
        server = Running.start("server", home=tmp_path, DULY_WEBHOOK_ALLOW=f"127.0.0.1:{outside.port}", **common).ready()
        try:
            hook = json.dumps({"kind": "webhook", "url": f"http://127.0.0.1:{outside.port}/"})
            assert server.duly("alert", "set-channel", "outside", "-", stdin=hook).code == 0
            for kind, more in (("worker_gone", {}), ("store_unhealthy", {"graceSec": 2})):
                rule = json.dumps({"kind": kind, "channels": ["outside"], **more})
                assert server.duly("alert", "set-rule", kind, "-", stdin=rule).code == 0

            assert server.duly("job", "create", "--name", "hello", "--handler", "duly.echo").code == 0
            first = Running.start("worker", home=tmp_path, **common).ready()
            # It has run something: so it is known.
            assert server.duly("run", "hello", "--wait").code == 0
            first.kill()
            assert outside.until_open("worker_gone").startswith("a worker of pool default is gone")

            second = Running.start("worker", home=tmp_path, **common).ready()
            try:
                assert outside.until_over("worker_gone").startswith("Recovered: a worker of pool default is gone")

                with stopped(postgres):
                    assert outside.until_open("store_unhealthy").startswith("the store does not answer since")
                over = outside.until_over("store_unhealthy")
                assert over.startswith("Recovered: the store does not answer since")
                assert ", after " in over
                # Whatever was told, each of it was told once.
                told = [(alert["event"], alert["incidentId"]) for alert in outside.told]
                assert len(set(told)) == len(told)
            finally:
                second.kill()
        finally:
            server.kill()


@contextmanager
def a_postgres() -> Iterator[Postgres]:
    """One to stop."""
    try:
        server = Postgres()
        server.start()
    except ServiceMissing as missing:
        service_missing("PostgreSQL", str(missing))
    try:
        yield server
    finally:
        server.close()


@contextmanager
def stopped(postgres: Postgres) -> Iterator[None]:
    """Every process of the server stands still, as on a machine that is out of memory."""
    # Its own first: it starts no others then.
    pids = [postgres.pid]
    os.kill(postgres.pid, signal.SIGSTOP)
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == postgres.pid:
            pids.append(int(status.parent.name))
    for pid in pids[1:]:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)
