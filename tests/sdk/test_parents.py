"""What a step sees of the steps before it, in whatever way it runs: whole results, though payloads carry references to long ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.fleet import KEY, Fleet, eventually
from tests.sdk.ancestral import ITEMS, LONG, LONGER

APP = "tests.sdk.ancestral:app"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(f"sqlite:///{tmp_path / 'duly.db'}", tmp_path)
    yield made
    made.stop()


def _ended(fleet: Fleet, run: str) -> dict[str, Any]:
    final = ("SUCCEEDED", "DEAD", "CANCELLED")
    eventually(lambda: fleet.call("GET", f"/v1/executions/{run}")["state"] in final, 60, "the run ended")
    return fleet.call("GET", f"/v1/executions/{run}")  # type: ignore[no-any-return]


@pytest.mark.parametrize("is_remote", [False, True], ids=["in the server's process", "over HTTP"])
@pytest.mark.timeout(600)
def test_a_step_reads_whole_results_of_its_parents(fleet: Fleet, is_remote: bool) -> None:
    both = fleet.start_api("up", APP)
    eventually(lambda: bool(fleet.call("GET", "/v1/jobs?name=ancestral")["items"]), 30, "the application published its jobs")
    if is_remote:
        both.kill()
        fleet.start_api("server")
        fleet.start("worker", APP, "--server", fleet.url, DULY_KEY=KEY)

    run = fleet.call("POST", f"/v1/jobs/{fleet.job('ancestral')}/executions", {})["executionId"]
    alone = fleet.call("POST", f"/v1/jobs/{fleet.job('alone')}/executions", {})["executionId"]

    ended = _ended(fleet, run)
    assert ended["state"] == "SUCCEEDED", ended["error"]
    assert ended["result"] == {
        "awaiting": [LONG, ITEMS, LONGER, LONG, ITEMS],
        "plain": [LONG, ITEMS, 2],
        "apart": [LONG, LONG],
        "each": [nth + LONG for nth in range(ITEMS)],
    }
    assert _ended(fleet, alone)["result"] == 0
