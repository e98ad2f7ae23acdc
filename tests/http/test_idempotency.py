"""The same key and body give the same answer for a day, whatever has become of the world since; another body is a conflict."""

from __future__ import annotations

import httpx
import pytest

from duly.domain.instants import HOUR, SECOND
from duly.domain.lifecycle import State
from duly.http.app import route_table
from duly.http.openapi import openapi
from tests.http.conftest import ADMIN, WORKER, Bench

KEY = {"idempotency-key": "once"}
TARGET = {"target": {"handler": "duly.echo"}}


async def test_a_repeat_answers_the_job_although_its_schedule_is_over(bench: Bench, admin: httpx.AsyncClient) -> None:
    sent = {"name": "short", "intervalSec": 1, "endAt": "2026-01-05T12:00:05Z", **TARGET}
    first = await admin.post("/v1/jobs", json=sent, headers=KEY)
    bench.clock.turn(10 * SECOND)

    again = await admin.post("/v1/jobs", json=sent, headers=KEY)
    new = await admin.post("/v1/jobs", json=sent | {"name": "other"})

    assert (first.status_code, again.status_code, new.status_code) == (201, 201, 422)
    assert again.json()["jobId"] == first.json()["jobId"]


async def test_a_repeated_batch_answers_its_jobs_although_a_calendar_is_gone(bench: Bench, admin: httpx.AsyncClient) -> None:
    await admin.put("/v1/calendars/days", json={"holidays": [{"date": "2026-12-25"}]})
    sent = {"jobs": [{"name": name, "schedule": "0 3 * * *", "calendars": ["days"], **TARGET} for name in ("one", "two")]}
    first = await admin.post("/v1/jobs:batch", json=sent, headers=KEY)
    for job in first.json()["items"]:
        await admin.delete(f"/v1/jobs/{job['jobId']}")
    assert (await admin.delete("/v1/calendars/days")).status_code == 200

    again = await admin.post("/v1/jobs:batch", json=sent, headers=KEY)

    assert (first.status_code, again.status_code) == (201, 201)
    assert [job["jobId"] for job in again.json()["items"]] == [job["jobId"] for job in first.json()["items"]]


@pytest.mark.parametrize("route", ["executions", "run", "executions:batch"])
async def test_a_repeat_answers_the_execution_although_its_job_is_cancelled(bench: Bench, admin: httpx.AsyncClient, route: str) -> None:
    job = await bench.job(name="gone")
    sent = {"executions": [{"payload": 1}, {"payload": 2}]} if route.endswith("batch") else {"payload": 1}
    first = await admin.post(f"/v1/jobs/{job}/{route}", json=sent, headers=KEY)
    await admin.delete(f"/v1/jobs/{job}")

    again = await admin.post(f"/v1/jobs/{job}/{route}", json=sent, headers=KEY)
    other = await admin.post(f"/v1/jobs/{job}/{route}", json={}, headers={"idempotency-key": "another"})

    assert (first.status_code, again.status_code) == (201, 201)
    assert other.status_code in (409, 422)
    assert again.json() == first.json()


async def test_a_repeated_batch_says_when_its_executions_are_due_and_where_they_stand(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(name="later")
    sent = {"executions": [{"delaySec": 60}, {}]}
    first = (await admin.post(f"/v1/jobs/{job}/executions:batch", json=sent, headers=KEY)).json()["items"]
    await bench.finish(await bench.claim())
    bench.clock.turn(30 * SECOND)

    again = (await admin.post(f"/v1/jobs/{job}/executions:batch", json=sent, headers=KEY)).json()["items"]

    assert [item["scheduledAt"] for item in again] == [item["scheduledAt"] for item in first]
    assert [(item["executionId"], item["state"]) for item in again] == [
        (first[0]["executionId"], "SCHEDULED"),
        (first[1]["executionId"], "SUCCEEDED"),
    ]


async def test_a_repeat_answers_the_replay_although_the_job_is_cancelled(bench: Bench, admin: httpx.AsyncClient) -> None:
    run = await bench.enqueue(job := await bench.job(name="again"))
    await bench.finish(await bench.claim())
    first = await admin.post(f"/v1/executions/{run}/replay", json={}, headers=KEY)
    await admin.delete(f"/v1/jobs/{job}")

    again = await admin.post(f"/v1/executions/{run}/replay", json={}, headers=KEY)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json()["executionId"] == first.json()["executionId"]


async def test_a_refused_repeat_with_another_body_or_past_its_day_stays_refused(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(name="once")
    await admin.post(f"/v1/jobs/{job}/executions", json={"payload": 1}, headers=KEY)
    await admin.delete(f"/v1/jobs/{job}")

    other = await admin.post(f"/v1/jobs/{job}/executions", json={"payload": 2}, headers=KEY)
    stranger = await bench.client("duly_stranger_key_for_tests").post(f"/v1/jobs/{job}/executions", json={"payload": 1}, headers=KEY)
    bench.clock.turn(25 * HOUR)
    late = await bench.client(ADMIN).post(f"/v1/jobs/{job}/executions", json={"payload": 1}, headers=KEY)

    assert [answer.json()["code"] for answer in (other, stranger, late)] == ["DULY-E210", "DULY-E204", "DULY-E210"]


async def test_a_dead_letter_is_retried_once_for_a_key(bench: Bench, admin: httpx.AsyncClient) -> None:
    dead = await bench.enqueue(await bench.job(name="broken"))
    await bench.finish(await bench.claim(), state=State.DEAD, error='{"type":"E"}')

    first, again = [await admin.post(f"/v1/executions/{dead}/retry", headers=KEY) for _ in range(2)]
    other = await admin.post(f"/v1/executions/{dead}/retry", headers={"idempotency-key": "another"})

    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json()["executionId"] == again.json()["executionId"] != dead
    assert other.json()["executionId"] not in (dead, first.json()["executionId"])


def test_every_create_takes_a_key_and_says_so() -> None:
    routes = [declared for declared in route_table().routes if declared.status == 201]
    document = openapi(routes)["paths"]

    for declared in routes:
        shown = document[declared.path][declared.method.lower()]
        assert declared.idempotent, declared.path
        assert "Idempotency-Key" in [parameter["name"] for parameter in shown["parameters"]]
        assert "DULY-E207" in shown["responses"]["409"]["description"]


async def test_a_repeated_worker_is_the_same_worker(bench: Bench) -> None:
    client = bench.client(WORKER)
    sent = {"name": "w", "handlers": ["duly.echo"]}

    first, again = [await client.post("/v1/workers", json=sent, headers=KEY) for _ in range(2)]
    other = await client.post("/v1/workers", json=sent | {"name": "v"}, headers=KEY)
    fresh = await client.post("/v1/workers", json=sent)

    assert (first.status_code, again.status_code, fresh.status_code) == (201, 201, 201)
    assert again.json() == first.json()
    assert fresh.json()["workerId"] != first.json()["workerId"]
    assert (other.status_code, other.json()["code"]) == (409, "DULY-E207")


async def test_a_repeated_tenant_is_named_without_its_secret(bench: Bench, admin: httpx.AsyncClient) -> None:
    sent = {"name": "acme"}
    taken = await admin.post("/v1/tenants", json={"name": "strangers"}, headers={"idempotency-key": "taken"})

    first, again = [await admin.post("/v1/tenants", json=sent, headers=KEY) for _ in range(2)]
    other = await admin.post("/v1/tenants", json={"name": "other"}, headers=KEY)

    assert (taken.status_code, taken.json()["code"]) == (409, "DULY-E261")
    assert first.status_code == 201
    assert (again.status_code, again.json()["code"]) == (409, "DULY-E213")
    assert "acme" in again.json()["detail"]
    assert first.json()["key"]["secret"] not in again.text
    assert (other.status_code, other.json()["code"]) == (409, "DULY-E207")
    retaken = await admin.post("/v1/tenants", json={"name": "strangers"}, headers={"idempotency-key": "taken"})
    assert retaken.json()["code"] == "DULY-E261", "what was refused has used no key"
    keys = (await bench.client(first.json()["key"]["secret"]).get("/v1/keys")).json()["items"]
    assert len(keys) == 1


async def test_a_repeated_rotation_makes_no_second_key(bench: Bench, admin: httpx.AsyncClient) -> None:
    key = (await admin.post("/v1/keys", json={"role": "VIEWER", "name": "v"})).json()["keyId"]
    path = f"/v1/keys/{key}/rotate"

    first, again = [await admin.post(path, json={"overlapSec": 60}, headers=KEY) for _ in range(2)]
    other = await admin.post(path, json={"overlapSec": 61}, headers=KEY)
    absent = await admin.post(f"/v1/keys/{'0' * 16}/rotate", json={}, headers={"idempotency-key": "absent"})

    assert (first.status_code, absent.status_code) == (201, 404)
    assert (again.status_code, again.json()["code"]) == (409, "DULY-E213")
    assert first.json()["keyId"] in again.json()["detail"]
    assert (other.status_code, other.json()["code"]) == (409, "DULY-E207")
    assert sum(item["name"] == "v" for item in (await admin.get("/v1/keys")).json()["items"]) == 2


async def test_a_repeated_login_link_is_no_second_one(admin: httpx.AsyncClient) -> None:
    first, again = [await admin.post("/v1/sessions/link", json={"role": "VIEWER"}, headers=KEY) for _ in range(2)]
    other = await admin.post("/v1/sessions/link", json={}, headers=KEY)

    assert first.status_code == 201
    assert (again.status_code, again.json()["code"]) == (409, "DULY-E213")
    assert (other.status_code, other.json()["code"]) == (409, "DULY-E207")
