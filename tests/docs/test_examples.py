"""Every example is executed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.chaos.fleet import Fleet, eventually


@pytest.fixture
def fleet(tmp_path: Path):  # type: ignore[no-untyped-def]
    made = Fleet(f"sqlite:///{tmp_path / 'examples.db'}", tmp_path, DULY_SHELL_POOLS="default")
    yield made
    made.stop()


def test_plain_python_jobs_run(fleet: Fleet) -> None:
    fleet.start_api("up", "examples.plain:app")
    job = fleet.job("resize")
    run = fleet.call("POST", f"/v1/jobs/{job}/executions", {"payload": {"path": "cat.png", "width": 400}})["executionId"]

    eventually(lambda: fleet.call("GET", f"/v1/executions/{run}")["state"] == "SUCCEEDED", 30, "the handler ran in a thread")

    assert fleet.call("GET", f"/v1/executions/{run}")["result"] == "cat.png@400"
    [line] = fleet.call("GET", f"/v1/executions/{run}/logs")["items"]
    assert (line["message"], line["fields"]) == ("resizing", {"path": "cat.png", "width": 400})


def test_a_charge_is_booked_once_however_often_it_is_tried(tmp_path: Path) -> None:
    from examples.once_per_fence import charge

    booked = [charge(tmp_path / "c.db", "default/monthly_charge/2026-03-01T05:00:00Z", fence, 900) for fence in (7, 8, 9)]

    assert booked == [True, False, False]
    with sqlite3.connect(tmp_path / "c.db") as ledger:
        assert ledger.execute("SELECT count(*), sum(cents) FROM charges").fetchone() == (1, 900)
    ledger.close()


def test_a_shell_command_runs_from_a_crontab_like_job(fleet: Fleet) -> None:
    fleet.start_api("up")
    job = fleet.call("POST", "/v1/jobs", {"name": "disk-space", "target": {"shell": ["echo", "hello"]}})["jobId"]
    run = fleet.call("POST", f"/v1/jobs/{job}/run")["executionId"]

    eventually(lambda: fleet.call("GET", f"/v1/executions/{run}")["state"] == "SUCCEEDED", 30, "the command ran")

    assert fleet.call("GET", f"/v1/executions/{run}")["result"]["exitCode"] == 0
