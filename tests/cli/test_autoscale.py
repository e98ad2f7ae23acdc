"""`duly worker --autoscale`: real worker processes that come with the load and go without it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from duly.cli.supervisor import bounds
from duly.domain.errors import Invalid
from tests.cli.processes import Running

# What came within the last minute counts as the load, so calm is seen a minute after the last arrival, and a dead worker after its lease.
PATIENCE = 120.0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts commands on one home; all of them end with the test."""
    running: list[Running] = []

    def begin(*words: str) -> Running:
        running.append(Running.start(*words, home=tmp_path / "home"))
        return running[-1]

    yield begin
    for one in running:
        one.kill()


def eventually(look: Callable[[], Any], what: str) -> Any:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.2)
    raise AssertionError(f"never: {what}")


def get(server: Running, path: str) -> Any:
    key = (server.home / "admin.key").read_text().strip()
    return httpx.get(server.url + path, headers={"authorization": f"Bearer {key}"}, timeout=20).json()


def ask(server: Running, path: str, body: object) -> Any:
    key = (server.home / "admin.key").read_text().strip()
    answer = httpx.post(server.url + path, json=body, headers={"authorization": f"Bearer {key}"}, timeout=20)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def runs(server: Running) -> list[str]:
    return [run["state"] for run in get(server, "/v1/executions?limit=50")["items"]]


@pytest.mark.timeout(600)
def test_it_grows_with_the_load_replaces_the_dead_and_shrinks_when_it_is_calm(start: Callable[..., Running]) -> None:
    server = start("up", "--no-worker", "--port", "0").ready()
    scaled = start("worker", "--autoscale", "1..3", "--slots", "2", "--calm-for", "2s", "--grace", "20s")
    scaled.until("1 to 3 worker processes")

    def live() -> list[dict[str, Any]]:
        return [worker for worker in get(server, "/v1/workers")["items"] if worker["state"] == "LIVE"]

    eventually(lambda: len(live()) == 1, "one is there")
    job = ask(server, "/v1/jobs", {"name": "slow", "target": {"handler": "duly.sleep"}})["jobId"]
    ask(server, f"/v1/jobs/{job}/executions:batch", {"executions": [{"payload": {"seconds": 300}}] * 6})

    three = eventually(lambda: len(live()) == 3 and live(), "it has grown")
    victim = int(three[0]["pid"])
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: len(live()) >= 3 and victim not in {int(worker["pid"]) for worker in live()}, "another takes its place")

    eventually(lambda: runs(server).count("RUNNING") >= 4, "they work")
    ask(server, "/v1/executions:bulk", {"action": "cancel", "everything": True})
    eventually(lambda: len(live()) == 1, "it has shrunk")
    eventually(lambda: set(runs(server)) == {"CANCELLED"}, "all is over")
    scaled.process.send_signal(signal.SIGTERM)
    scaled.until("Stopped.")
    assert scaled.process.wait(20) == 0


@pytest.mark.parametrize("text", ["3", "3..1", "a..b", "0..0", "..", "1..2000"])
def test_bounds_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(Invalid):
        bounds(text)


def test_bounds_are_read() -> None:
    assert bounds("0..8") == (0, 8)
