"""Nodes: started again when they have died, with a wall clock that can be turned."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from duly.verify.fleet import Fleet, Node, descendants, node_environment

CLOCK = "import time; print(time.time()); print(time.time_ns()); print(time.clock_gettime(time.CLOCK_REALTIME)); print(time.monotonic())"


async def test_what_has_died_is_started_again_and_what_it_died_of_is_noted(tmp_path: Path) -> None:
    node = Node("worker-1", "worker", ["no-such-command"], tmp_path / "worker-1", node_environment())
    made = Fleet([node])

    made.start()
    try:
        async with asyncio.timeout(60):
            await made.until_up(node, 1)
    finally:
        await made.close()

    assert node.starts >= 2
    assert set(node.deaths) == {2}
    assert len(set(node.pids)) == node.starts
    assert made.by_pid()[node.pids[0]] == "worker-1"
    assert "no-such-command" in (tmp_path / "worker-1" / "log").read_text()


async def test_a_kill_is_no_death_of_its_own(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'duly.db'}"
    node = Node("scheduler-1", "scheduler", ["scheduler"], tmp_path / "scheduler-1", node_environment(DULY_STORE=store))
    made = Fleet([node])

    made.start()
    try:
        node.kill()
        async with asyncio.timeout(60):
            await made.until_up(node, 1)
    finally:
        await made.close()

    assert node.deaths == {}
    assert not node.is_alive


def test_descendants_are_children_and_theirs() -> None:
    script = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, process_group=0) as parent:
        assert parent.stdout is not None
        grandchild = int(parent.stdout.readline())

        found = descendants(os.getpid())

        assert {parent.pid, grandchild} <= set(found)
        assert found.index(parent.pid) < found.index(grandchild)
        os.killpg(parent.pid, signal.SIGKILL)


def test_a_turned_clock_shows_another_time_and_measures_the_same(tmp_path: Path) -> None:
    def clocks() -> list[float]:
        done = subprocess.run(
            [sys.executable, "-c", CLOCK], cwd=tmp_path, env=node_environment(), capture_output=True, text=True, check=True
        )
        return [float(line) for line in done.stdout.split()]

    wall, nanos, real, monotonic = clocks()
    assert abs(wall - real) < 5
    (tmp_path / "clock").write_text("-7200")
    turned, turned_nanos, still_real, still_monotonic = clocks()

    assert abs(turned - (time.time() - 7200)) < 30
    assert abs(turned_nanos / 1e9 - turned) < 5
    assert abs(nanos / 1e9 - wall) < 5
    assert abs(still_real - time.time()) < 30
    assert 0 <= still_monotonic - monotonic < 60
