"""The worker in JavaScript: a real process against a real server, and against the checker of the protocol."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.fleet import KEY, Fleet, eventually
from tests.cli.processes import duly, environment

WORKER = Path(__file__).parents[2] / "examples" / "worker-node" / "worker.mjs"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed: the worker in JavaScript was not tried"),
]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(f"sqlite:///{tmp_path / 'duly.db'}", tmp_path)
    made.start_api("server")
    yield made
    made.stop()


@pytest.fixture
def node(fleet: Fleet, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A worker named n1 in the pool nodes, with a key of its own."""
    secret = fleet.call("POST", "/v1/keys", {"role": "WORKER", "name": "node"})["secret"]
    process = subprocess.Popen(
        ["node", str(WORKER), "n1", "nodes"],
        env={**environment(tmp_path), "DULY_URL": fleet.url, "DULY_KEY": secret},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def start(fleet: Fleet, handler: str, payload: object) -> str:
    job = fleet.call("POST", "/v1/jobs", {"target": {"pool": "nodes", "handler": handler}, "retryPolicy": {"initialDelayMs": 0}})["jobId"]
    return str(fleet.call("POST", f"/v1/jobs/{job}/executions", {"payload": payload})["executionId"])


def test_it_keeps_every_rule_of_the_protocol(fleet: Fleet, node: subprocess.Popen[str], tmp_path: Path) -> None:
    checked = duly("conformance", fleet.url, "--key", KEY, "--worker", "n1", env=environment(tmp_path))

    assert checked.out.endswith(" rules, 0 broken.\n"), checked.out


def test_a_second_attempt_goes_on_at_the_checkpoint_of_the_first(fleet: Fleet, node: subprocess.Popen[str]) -> None:
    run = start(fleet, "node.count", {"to": 5, "breakAt": 3})

    eventually(lambda: fleet.call("GET", f"/v1/executions/{run}")["state"] == "SUCCEEDED", 30, "it counted to the end")

    execution = fleet.call("GET", f"/v1/executions/{run}")
    assert (execution["result"], execution["attempt"]) == ({"counted": 5, "from": 4}, 2)
    lines = [line["message"] for line in fleet.call("GET", f"/v1/executions/{run}/logs")["items"]]
    assert lines == [f"counted to {n}" for n in range(1, 6)]


def test_it_drains_on_sigterm_and_lets_what_runs_end(fleet: Fleet, node: subprocess.Popen[str]) -> None:
    run = start(fleet, "duly.sleep", {"seconds": 2})
    eventually(lambda: fleet.call("GET", f"/v1/executions/{run}")["state"] == "RUNNING", 30, "it runs")

    node.send_signal(signal.SIGTERM)

    assert node.wait(timeout=90) == 0
    execution = fleet.call("GET", f"/v1/executions/{run}")
    assert (execution["state"], execution["attempt"]) == ("SUCCEEDED", 1)
    assert [worker["state"] for worker in fleet.call("GET", "/v1/workers")["items"]] == ["LOST"]
