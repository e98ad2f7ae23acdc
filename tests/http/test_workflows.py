"""Workflows over HTTP: create, look at the steps, approve, reject, signal, pause, do again."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from duly.domain.execution import Finished
from duly.domain.ids import parse_execution_id
from duly.domain.lifecycle import Outcome, State
from tests.http.conftest import ADMIN, OPERATOR, STRANGER, Bench

ECHO = {"handler": "duly.echo"}


@pytest.fixture
def store_kind() -> str:
    """The store's side is judged by its own suite, on every engine."""
    return "sqlite"


async def _run(bench: Bench, *steps: dict[str, Any], name: str = "flow") -> str:
    job = await bench.client(ADMIN).post("/v1/jobs", json={"name": name, "steps": list(steps)})
    assert job.status_code == 201, job.text
    run = await bench.enqueue(job.json()["jobId"])
    await bench.services.workflows._conductor.begin(bench.clock.now(), 10)
    return run


async def _work(bench: Bench, *, fails: bool = False, result: str | None = "1") -> None:
    """A worker runs what is ready."""
    claimed = await bench.claim()
    now = bench.clock.now()
    ended = [
        Finished(
            id,
            claimed.lease,
            Outcome.FAILED if fails else Outcome.SUCCEEDED,
            State.DEAD if fails else State.SUCCEEDED,
            now,
            now,
            id,
            0,
            False,
            result=None if fails else result,
            error='{"message":"no"}' if fails else None,
            is_step=True,
        )
        for id in claimed.ids
    ]
    await bench.services.workers._store.outcomes.finish(bench.worker, ended, [claimed.lease], now)


def _states(answer: httpx.Response) -> dict[str, str | None]:
    assert answer.status_code == 200, answer.text
    return {step["name"]: step["state"] for step in answer.json()["steps"]}


async def test_a_workflow_is_created_read_back_and_its_run_shown_with_its_steps(bench: Bench) -> None:
    steps = ({"name": "a", "target": ECHO}, {"name": "b", "dependsOn": ["a"], "target": ECHO, "inputs": {"x": "a"}})
    run = await _run(bench, *steps)

    shown = await bench.client(ADMIN).get(f"/v1/executions/{run}/steps")
    assert _states(shown) == {"a": "PENDING", "b": None}
    assert shown.json()["steps"][1]["dependsOn"] == ["a"]
    await _work(bench)
    assert _states(await bench.client(ADMIN).get(f"/v1/executions/{run}/steps")) == {"a": "SUCCEEDED", "b": "PENDING"}
    await _work(bench)

    ended = (await bench.client(ADMIN).get(f"/v1/executions/{run}")).json()
    assert (ended["state"], ended["result"]) == ("SUCCEEDED", {"b": 1})
    step = (await bench.client(ADMIN).get(f"/v1/executions/{shown.json()['steps'][0]['executionId']}")).json()
    assert (step["runId"], step["step"], step["trigger"], step["jobName"]) == (run, "a", "step", "flow")


async def test_a_job_that_is_read_can_be_sent_back(bench: Bench) -> None:
    made = await bench.client(ADMIN).post(
        "/v1/jobs", json={"name": "flow", "steps": [{"name": "a", "target": ECHO, "approval": {"by": ["x"]}}]}
    )
    body = {key: made.json()[key] for key in ("name", "steps", "target")}

    again = await bench.client(ADMIN).put(f"/v1/jobs/{made.json()['jobId']}", json=body)

    assert again.status_code == 200, again.text
    assert again.json()["steps"] == made.json()["steps"]


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([{"name": "a", "dependsOn": ["b"], "target": ECHO}], "DULY-E151"),
        ([{"name": "a", "dependsOn": ["b"], "target": ECHO}, {"name": "b", "dependsOn": ["a"], "target": ECHO}], "DULY-E152"),
        ([{"name": "a", "when": "x(", "target": ECHO}], "DULY-E154"),
        ([{"name": "a"}], "DULY-E156"),
        ([{"name": "a", "target": {"handler": "duly.workflow"}}], "DULY-E106"),
    ],
)
async def test_a_workflow_that_makes_no_sense_is_refused(bench: Bench, steps: list[dict[str, Any]], code: str) -> None:
    answer = await bench.client(ADMIN).post("/v1/jobs", json={"steps": steps})

    assert (answer.status_code, answer.json()["code"]) == (422, code)


async def test_a_job_needs_a_target_or_steps(bench: Bench) -> None:
    answer = await bench.client(ADMIN).post("/v1/jobs", json={"name": "nothing"})

    assert (answer.status_code, answer.json()["code"]) == (422, "DULY-E106")


async def test_who_may_approves_and_others_are_told_for_whom_it_waits(bench: Bench) -> None:
    run = await _run(bench, {"name": "publish", "target": ECHO, "approval": {"by": ["admin"]}})
    path = f"/v1/executions/{run}/approve"

    refused = await bench.client(OPERATOR).post(path, json={})
    assert (refused.status_code, refused.json()["code"]) == (403, "DULY-E291")
    assert (await bench.client(STRANGER).post(path, json={})).status_code == 404
    assert (await bench.client(ADMIN).post(path, json={"step": "nobody"})).json()["code"] == "DULY-E292"
    yes = await bench.client(ADMIN).post(path, json={"step": "publish", "reason": "checked"})
    assert _states(yes) == {"publish": "PENDING"}
    again = await bench.client(ADMIN).post(path, json={})
    assert (again.status_code, again.json()["code"]) == (409, "DULY-E290")

    await _work(bench)
    late = await bench.client(ADMIN).post(path, json={})
    assert (late.status_code, late.json()["code"]) == (409, "DULY-E294")


async def test_a_refusal_breaks_the_path(bench: Bench) -> None:
    run = await _run(bench, {"name": "ask", "approval": {}}, {"name": "go", "dependsOn": ["ask"], "target": ECHO})

    no = await bench.client(ADMIN).post(f"/v1/executions/{run}/reject", json={"reason": "not today"})

    assert _states(no) == {"ask": "CANCELLED", "go": "SKIPPED"}
    assert no.json()["steps"][1]["skipReason"] == "upstream"
    assert no.json()["state"] == "DEAD"


async def test_a_signal_reaches_the_run(bench: Bench) -> None:
    run = await _run(bench, {"name": "paid", "signal": {"name": "payment"}})

    told = await bench.client(ADMIN).post(f"/v1/executions/{run}/signal", json={"name": "payment", "payload": {"amount": 5}})

    assert _states(told) == {"paid": "SUCCEEDED"}
    assert told.json()["steps"][0]["result"] == {"amount": 5}
    again = await bench.client(ADMIN).post(f"/v1/executions/{run}/signal", json={"name": "payment"})
    assert again.json()["code"] == "DULY-E294"


async def test_a_paused_run_goes_on_when_it_is_resumed(bench: Bench) -> None:
    run = await _run(bench, {"name": "a", "target": ECHO}, {"name": "b", "dependsOn": ["a"], "target": ECHO})
    assert (await bench.client(ADMIN).post(f"/v1/executions/{run}/pause", json={})).json()["isPaused"]
    await _work(bench)
    assert _states(await bench.client(ADMIN).get(f"/v1/executions/{run}/steps"))["b"] is None

    assert _states(await bench.client(ADMIN).post(f"/v1/executions/{run}/resume", json={}))["b"] == "PENDING"


async def test_a_run_is_done_again_from_what_failed(bench: Bench) -> None:
    run = await _run(bench, {"name": "a", "target": ECHO}, {"name": "b", "dependsOn": ["a"], "target": ECHO})
    early = await bench.client(ADMIN).post(f"/v1/executions/{run}/rerun", json={})
    assert (early.status_code, early.json()["code"]) == (409, "DULY-E212")
    await _work(bench)
    await _work(bench, fails=True)

    again = await bench.client(ADMIN).post(f"/v1/executions/{run}/rerun", json={})
    assert again.status_code == 201, again.text
    await bench.services.workflows._conductor.begin(bench.clock.now(), 10)

    assert _states(await bench.client(ADMIN).get(f"/v1/executions/{again.json()['executionId']}/steps")) == {
        "a": "SUCCEEDED",
        "b": "PENDING",
    }
    replayed = await bench.client(ADMIN).post(
        f"/v1/executions/{(await bench.client(ADMIN).get(f'/v1/executions/{run}/steps')).json()['steps'][1]['executionId']}/replay", json={}
    )
    assert replayed.json()["code"] == "DULY-E293"


async def test_what_has_no_steps_is_no_run(bench: Bench) -> None:
    run = await bench.enqueue(await bench.job())

    answer = await bench.client(ADMIN).get(f"/v1/executions/{run}/steps")

    assert (answer.status_code, answer.json()["code"]) == (409, "DULY-E293")
    assert parse_execution_id(run)


async def test_why_says_for_whom_a_step_waits_and_why_one_was_skipped(bench: Bench) -> None:
    run = await _run(
        bench,
        {"name": "ask", "approval": {"by": ["admin"], "timeoutSec": 60}},
        {"name": "paid", "signal": {"name": "payment"}},
        {"name": "go", "dependsOn": ["ask"], "target": ECHO},
    )
    steps = {one["name"]: one["executionId"] for one in (await bench.client(ADMIN).get(f"/v1/executions/{run}/steps")).json()["steps"]}

    async def why(id: str) -> list[str]:
        answer = await bench.client(ADMIN).get(f"/v1/executions/{id}/why")
        assert answer.status_code == 200, answer.text
        return [reason["code"] for reason in answer.json()["reasons"]]

    first, *others = await why(run)
    assert (first, sorted(others)) == ("STEPS_UNDER_WAY", ["APPROVAL_WAIT", "SIGNAL_WAIT"])
    assert await why(steps["ask"]) == ["APPROVAL_WAIT"]
    assert await why(steps["paid"]) == ["SIGNAL_WAIT"]
    await bench.client(ADMIN).post(f"/v1/executions/{run}/reject", json={})
    assert await why(steps["go"]) == ["SKIPPED_STEP"]


@pytest.mark.parametrize(
    "step",
    [
        {"map": "a"},
        {"dependsOn": ["a"], "inputs": {"all": "a"}},
    ],
)
async def test_what_a_step_is_given_is_within_the_quota_or_the_step_fails(bench: Bench, step: dict[str, Any]) -> None:
    await bench.client(ADMIN).put("/v1/tenants/default", json={"quotas": {"maxPayloadBytes": 20}})
    run = await _run(bench, {"name": "a", "target": ECHO}, {"name": "b", "target": ECHO, **step})

    await _work(bench, result=f'[1, 2, "{"x" * 30}"]')

    shown = await bench.client(ADMIN).get(f"/v1/executions/{run}/steps")
    assert _states(shown) == {"a": "SUCCEEDED", "b": "DEAD"}
    assert "maxPayloadBytes" in shown.json()["steps"][1]["error"]["message"]
    assert (await bench.client(ADMIN).get(f"/v1/executions/{run}")).json()["state"] == "DEAD"
    assert (await bench.client(ADMIN).get("/v1/executions?state=PENDING")).json()["items"] == []


async def test_a_signal_is_within_the_quota(bench: Bench) -> None:
    await bench.client(ADMIN).put("/v1/tenants/default", json={"quotas": {"maxPayloadBytes": 20}})
    run = await _run(bench, {"name": "a", "signal": {"name": "paid"}})

    refused = await bench.client(OPERATOR).post(f"/v1/executions/{run}/signal", json={"name": "paid", "payload": "x" * 30})

    assert (refused.status_code, refused.json()["code"]) == (413, "DULY-E404")
    assert (await bench.client(ADMIN).get(f"/v1/executions/{run}")).json()["state"] != "SUCCEEDED"


async def test_a_workflow_has_a_pool_that_is_one(bench: Bench) -> None:
    steps = [{"name": "a", "target": ECHO}]

    refused = await bench.client(ADMIN).post("/v1/jobs", json={"steps": steps, "target": {"pool": "not a pool"}})
    taken = await bench.client(ADMIN).post("/v1/jobs", json={"steps": steps, "target": {"pool": "etl"}})

    assert (refused.status_code, refused.json()["code"], refused.json()["field"]) == (422, "DULY-E114", "target.pool")
    assert taken.json()["target"]["pool"] == "etl"
