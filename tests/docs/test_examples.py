"""Every example is executed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.chaos.fleet import ROOT, Fleet, eventually


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


def test_the_bank_moves_money_once_on_sqlite(fleet: Fleet, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "examples.db") as tables:
        tables.executescript((ROOT / "examples" / "bank" / "schema.sql").read_text(encoding="utf-8"))
    tables.close()
    fleet.start_api("up", "examples.bank.on_sqlite:app")
    payload = {"source": 1, "target": 2, "amount": 5}
    run = fleet.call("POST", f"/v1/jobs/{fleet.job('transfer')}/executions", {"payload": payload})["executionId"]

    eventually(lambda: fleet.call("GET", f"/v1/executions/{run}")["state"] == "SUCCEEDED", 30, "the money was moved")

    assert fleet.call("GET", f"/v1/executions/{run}")["result"] == {"moved": 5}
    with sqlite3.connect(tmp_path / "examples.db") as tables:
        assert tables.execute("SELECT id, balance FROM accounts WHERE balance <> 1000").fetchall() == [(1, 995), (2, 1005)]
        assert tables.execute("SELECT run FROM transfers").fetchall() == [(run,)]
    tables.close()


@pytest.fixture
def flows(tmp_path: Path):  # type: ignore[no-untyped-def]
    made = Fleet(f"sqlite:///{tmp_path / 'flows.db'}", tmp_path)
    yield made
    made.stop()


def _run(fleet: Fleet, name: str, payload: dict[str, object]) -> str:
    return str(fleet.call("POST", f"/v1/jobs/{fleet.job(name)}/executions", {"payload": payload})["executionId"])


def _ended(fleet: Fleet, run: str) -> dict[str, object]:
    final = ("SUCCEEDED", "DEAD", "CANCELLED")
    eventually(lambda: fleet.call("GET", f"/v1/executions/{run}")["state"] in final, 60, "the run ended")
    return fleet.call("GET", f"/v1/executions/{run}")  # type: ignore[no-any-return]


def _states(fleet: Fleet, run: str) -> dict[str, str | None]:
    return {step["name"]: step["state"] for step in fleet.call("GET", f"/v1/executions/{run}/steps")["steps"]}


def test_the_nightly_load_waits_for_its_approval(flows: Fleet) -> None:
    flows.start_api("up", "examples.workflows.etl:app")
    run = _run(flows, "etl", {"files": ["a", "bb", "ccc"]})

    eventually(lambda: _states(flows, run)["publish"] == "BLOCKED", 60, "all files are loaded")
    flows.call("POST", f"/v1/executions/{run}/approve", {"step": "publish"})

    assert _ended(flows, run)["result"] == {"publish": 6}
    assert _states(flows, run)["tell"] == "SKIPPED"


def test_an_order_that_fails_is_undone(flows: Fleet) -> None:
    flows.start_api("up", "examples.workflows.order:app")
    bad, good = _run(flows, "order", {"item": "book", "fails": True}), _run(flows, "order", {"item": "pen"})

    assert _ended(flows, bad)["state"] == "DEAD"
    assert _states(flows, bad) == {
        "reserve": "SUCCEEDED",
        "charge": "SUCCEEDED",
        "ship": "DEAD",
        "refund": "SUCCEEDED",
        "put_back": "SUCCEEDED",
    }
    assert _ended(flows, good)["result"] == {"ship": "shipped with receipt for pen"}
    assert _states(flows, good)["refund"] == "SKIPPED"


def test_a_training_runs_another_workflow_and_keeps_the_best(flows: Fleet) -> None:
    flows.start_api("up", "examples.workflows.training:app")

    ended = _ended(flows, _run(flows, "training", {}))

    assert (ended["state"], ended["result"]) == ("SUCCEEDED", {"keep": 5.4})
