"""Secrets over HTTP: shapes are checked wherever a payload comes in, values are refused, references are shown as they are."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.http.conftest import Bench

REFERENCE = {"a": [{"$secret": "env:DULY_SECRET_A"}]}
BAD = {
    "DULY-E141": {"a": {"$secret": "hunter2"}},
    "DULY-E142": {"a": {"$secret": {"value": "hunter2"}}},
    "DULY-E143": {"$sealed": {"data": "hunter2"}},
}


@pytest.mark.parametrize("code", BAD)
async def test_every_way_in_looks_at_the_payload(bench: Bench, admin: httpx.AsyncClient, code: str) -> None:
    job = await bench.job(name="mail")
    run = (await admin.post(f"/v1/jobs/{job}/executions")).json()["executionId"]
    await admin.post(f"/v1/executions/{run}/cancel")
    body: dict[str, Any] = {"payload": BAD[code]}
    past = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    target = {"target": {"handler": "duly.echo"}}

    answers = [
        await admin.post("/v1/jobs", json=target | body),
        await admin.post("/v1/jobs:batch", json={"jobs": [target | body]}),
        await admin.put(f"/v1/jobs/{job}", json=target | body),
        await admin.post(f"/v1/jobs/{job}/executions", json=body),
        await admin.post(f"/v1/jobs/{job}/executions", json=body, headers={"Idempotency-Key": "once"}),
        await admin.post(f"/v1/jobs/{job}/executions:batch", json={"executions": [{}, body]}),
        await admin.post(f"/v1/jobs/{job}/run", json=body),
        await admin.post(f"/v1/executions/{run}/replay", json=body),
        await admin.post("/v1/executions:bulk", json={"action": "replay", "match": {"jobId": job}} | body),
        await admin.post(f"/v1/jobs/{job}/backfill", json=past | body),
    ]

    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(422, code)] * len(answers)
    assert "hunter2" not in "".join(answer.text for answer in answers)
    assert len((await admin.get("/v1/executions")).json()["items"]) == 1, "nothing was written"


async def test_a_reference_is_shown_as_it_was_sent(bench: Bench, admin: httpx.AsyncClient) -> None:
    http = {"url": "https://example.com/", "headers": {"A": "${secret:file:a}"}, "body": REFERENCE}
    made = await admin.post("/v1/jobs", json={"name": "hook", "target": {"http": http}, "payload": REFERENCE})
    run = await admin.post(f"/v1/jobs/{made.json()['jobId']}/executions", json={"payload": REFERENCE})
    shell = {"shell": ["env"], "env": {"TOKEN": "${secret:env:DULY_SECRET_A}"}}
    command = await admin.post("/v1/jobs", json={"name": "command", "target": shell})

    assert made.json()["payload"] == REFERENCE
    assert made.json()["target"]["http"] == http | {"method": "POST"}
    assert (await admin.get(f"/v1/executions/{run.json()['executionId']}")).json()["payload"] == REFERENCE
    assert command.json()["target"]["env"] == shell["env"]


@pytest.mark.parametrize(
    "target",
    [
        {"http": {"url": "https://example.com/${secret:A}"}},
        {"http": {"url": "https://example.com/", "headers": {"A": "${secret:env:A"}}},
        {"http": {"url": "https://example.com/", "body": {"$secret": 7}}},
        {"shell": ["echo", "${secret:env:A}"]},
        {"shell": ["echo"], "env": {"A": "${secret:file:../../etc/passwd}"}},
    ],
)
async def test_a_target_is_looked_at_too(admin: httpx.AsyncClient, target: dict[str, Any]) -> None:
    refused = await admin.post("/v1/jobs", json={"target": target})

    assert (refused.status_code, refused.json()["code"]) == (422, "DULY-E141")


@pytest.mark.parametrize("env", [{"DULY_KEY": "x"}, {"A B": "x"}, {"": "x"}])
async def test_a_variable_has_a_name_of_its_own(admin: httpx.AsyncClient, env: dict[str, str]) -> None:
    refused = await admin.post("/v1/jobs", json={"target": {"shell": ["env"], "env": env}})

    assert refused.status_code == 422
