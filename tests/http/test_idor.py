"""Two tenants: whatever id of the one the other names, in the path, the query or the body, it is not there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly.http.routing import Route
from duly.usecases.access import key_id
from tests.http.conftest import ADMIN, STRANGER, VIEWER, WORKER, Bench
from tests.http.test_routing import CLOSED, body_for, filled, named

ECHO = {"handler": "duly.echo"}


async def all_ids(bench: Bench) -> dict[str, str]:
    """One of each thing that the first tenant can have."""
    job = await bench.job(name="ours", payload={"secret": "ours alone"})
    run = await bench.enqueue(job)
    worker = (await bench.client(WORKER).post("/v1/workers", json={"name": "w", "handlers": ["duly.echo"]})).json()["workerId"]
    await bench.client(ADMIN).put("/v1/calendars/ours", json={"rules": []})
    return {"jobId": job, "executionId": run, "workerId": worker, "keyId": key_id(VIEWER), "batchId": await bench.batch(), "name": "ours"}


async def everything(bench: Bench) -> list[Any]:
    """What the first tenant sees of its own."""
    client = bench.client(ADMIN)
    paths = ("/v1/jobs", "/v1/executions", "/v1/keys", "/v1/calendars", "/v1/dead-letters")
    return [(await client.get(path)).json() for path in paths]


@pytest.mark.parametrize("declared", [declared for declared in CLOSED if "Id}" in declared.path], ids=named)
async def test_an_id_of_another_tenant_is_not_there(bench: Bench, declared: Route) -> None:
    ids = await all_ids(bench)
    before = await everything(bench)

    answer = await bench.client(STRANGER).request(declared.method, filled(declared.path, **ids), json=body_for(declared, ids["workerId"]))

    assert answer.status_code == 404
    assert "ours alone" not in answer.text
    assert await everything(bench) == before


@pytest.mark.parametrize("query", ["jobId={jobId}", "jobId={jobId}&state=PENDING", "state=PENDING", "limit=200"])
async def test_filters_find_nothing_of_another_tenant(bench: Bench, query: str) -> None:
    ids = await all_ids(bench)

    answer = await bench.client(STRANGER).get(f"/v1/executions?{query.format(**ids)}")

    assert answer.json()["items"] == []


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/executions", "/v1/dead-letters", "/v1/calendars", "/v1/workers"])
async def test_lists_have_nothing_of_another_tenant(bench: Bench, path: str) -> None:
    await all_ids(bench)

    answer = await bench.client(STRANGER).get(path)

    assert answer.json()["items"] == []


@pytest.mark.parametrize("action", ["cancel", "retry", "replay", "discard"])
async def test_bulk_actions_touch_nothing_of_another_tenant(bench: Bench, action: str) -> None:
    ids = await all_ids(bench)
    before = await everything(bench)

    for wanted in ({"everything": True}, {"match": {"jobId": ids["jobId"]}}, {"match": {"ids": [ids["executionId"]]}}):
        answer = await bench.client(STRANGER).post("/v1/executions:bulk", json={"action": action, **wanted})
        assert answer.status_code in (200, 404), answer.text
        assert answer.json().get("matched", 0) == 0

    assert await everything(bench) == before


async def test_a_job_cannot_use_another_tenants_calendar(bench: Bench) -> None:
    await all_ids(bench)

    answer = await bench.client(STRANGER).post("/v1/jobs", json={"schedule": "0 3 * * *", "calendars": ["ours"], "target": ECHO})

    assert answer.status_code == 404


@pytest.mark.parametrize("claim", [{"tenant": "default"}, {"tenantId": 1}, {"tenant": 1}])
async def test_no_tenant_is_taken_from_the_body_the_query_or_a_header(bench: Bench, claim: dict[str, object]) -> None:
    stranger = bench.client(STRANGER)
    name, value = next(iter(claim.items()))
    await all_ids(bench)

    assert (await stranger.post("/v1/jobs", json={"target": ECHO, **claim})).status_code == 422
    assert (await stranger.get(f"/v1/jobs?{name}={value}")).status_code == 422
    headers = {"x-tenant": "default", "duly-tenant": "1", "x-duly-tenant": "default"}
    assert (await stranger.get("/v1/jobs", headers=headers)).json()["items"] == []


async def test_tenants_that_submit_at_once_share_a_commit_and_no_wall(bench: Bench) -> None:
    """Whoever comes first does not decide for whom the shared commit is made."""
    ours, theirs = bench.client(ADMIN), bench.client(STRANGER)
    paths = []
    for client in (ours, theirs):
        job = (await client.post("/v1/jobs", json={"target": ECHO})).json()["jobId"]
        paths.append((client, f"/v1/jobs/{job}/executions"))

    answers = await asyncio.gather(*(client.post(path) for client, path in paths * 5))

    assert [answer.status_code for answer in answers] == [201] * 10
    for client, path in paths:
        assert len((await client.get(path)).json()["items"]) == 5
