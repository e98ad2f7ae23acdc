"""The alert in a job's definition: it makes the rules of that job, changes them with it, and is gone with it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from duly.adapters.sql.engine import Engine
from duly.domain.alerts.of_job import BY_DEFINITION
from tests.conformance.test_audit_routes import bench_on
from tests.http.conftest import ADMIN, OPERATOR, Bench

HOOK = {"kind": "webhook", "url": "https://ops.example.com/hook"}
WATCHED: dict[str, Any] = {"missedAfterSec": 900, "failures": 3, "to": ["ops"], "owner": "ada"}


def body(**more: object) -> dict[str, Any]:
    return {"name": "nightly", "schedule": "0 3 * * *", "target": {"handler": "work"}, **more}


async def rules(client: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    return {rule["name"]: rule for rule in (await client.get("/v1/alert-rules")).json()["items"]}


async def create(client: httpx.AsyncClient, **more: object) -> dict[str, Any]:
    answer = await client.post("/v1/jobs", json=body(**more))
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture
async def bench(engine: Engine) -> Bench:
    return await bench_on(engine)


@pytest.fixture
async def admin(bench: Bench) -> httpx.AsyncClient:
    client = bench.client(ADMIN)
    assert (await client.put("/v1/alert-channels/ops", json=HOOK)).status_code == 200
    return client


async def test_each_condition_of_an_alert_is_a_rule_about_the_job(bench: Bench, admin: httpx.AsyncClient) -> None:
    made = await create(admin, alert=WATCHED)

    shown = (await bench.client(OPERATOR).get(f"/v1/jobs/{made['jobId']}")).json()
    assert {key: shown["alert"][key] for key in WATCHED} == WATCHED
    found = await rules(admin)
    assert found.keys() == {"nightly.missed", "nightly.failures"}
    missed = found["nightly.missed"]
    assert (missed["afterSec"], missed["jobs"], missed["channels"], missed["owner"]) == (900, ["nightly"], ["ops"], "ada")
    assert {rule["source"] for rule in found.values()} == {BY_DEFINITION}


async def test_rules_change_with_the_definition_and_keep_their_snooze(admin: httpx.AsyncClient) -> None:
    made = await create(admin, alert=WATCHED)
    await admin.post("/v1/alert-rules/nightly.missed/snooze", json={"forSec": 600})

    await admin.put(f"/v1/jobs/{made['jobId']}", json=body(alert={"missedAfterSec": 60, "to": ["ops"]}))

    found = await rules(admin)
    assert found.keys() == {"nightly.missed"}
    assert (found["nightly.missed"]["afterSec"], found["nightly.missed"]["version"]) == (60, 2)
    assert found["nightly.missed"]["snoozedUntil"] is not None
    # What does not touch the alert leaves its rules as they are, and so does the same again.
    await admin.put(f"/v1/jobs/{made['jobId']}", json=body(alert={"missedAfterSec": 60, "to": ["ops"]}, description="x"))
    assert (await rules(admin))["nightly.missed"]["version"] == 2


async def test_a_job_that_is_renamed_takes_its_rules_along(admin: httpx.AsyncClient) -> None:
    made = await create(admin, alert={"failed": True})

    await admin.put(f"/v1/jobs/{made['jobId']}", json=body(name="daily", alert={"failed": True}))

    found = await rules(admin)
    assert found.keys() == {"daily.final_failure"}
    assert found["daily.final_failure"]["jobs"] == ["daily"]


async def test_rules_go_with_the_alert_or_with_the_job_and_no_others_do(admin: httpx.AsyncClient) -> None:
    await admin.put("/v1/alert-rules/mine", json={"kind": "final_failure", "jobs": ["nightly"]})
    made = await create(admin, alert=WATCHED)
    await admin.put(f"/v1/jobs/{made['jobId']}", json=body())
    assert (await rules(admin)).keys() == {"mine"}

    await admin.put(f"/v1/jobs/{made['jobId']}", json=body(alert={"overrun": True}))
    assert (await rules(admin)).keys() == {"mine", "nightly.overrun"}
    await admin.delete(f"/v1/jobs/{made['jobId']}")
    assert (await rules(admin)).keys() == {"mine"}
    # The channel is nobody's now.
    assert (await admin.delete("/v1/alert-channels/ops")).status_code == 200


@pytest.mark.parametrize(
    ("alert", "status", "code", "field"),
    [
        ({}, 422, "DULY-E160", "alert"),
        ({"to": ["ops"]}, 422, "DULY-E160", "alert"),
        ({"failed": True, "to": ["ops", "ops"]}, 422, "DULY-E160", "alert.to"),
        ({"failed": True, "to": ["nobody"]}, 404, "DULY-E255", "alert.to"),
        ({"failures": 51}, 422, "DULY-E106", "alert.failures"),
        ({"lateAfterSec": 0}, 422, "DULY-E106", "alert.lateAfterSec"),
        ({"failed": True, "unknown": 1}, 422, "DULY-E106", "alert.unknown"),
    ],
)
async def test_an_alert_that_cannot_be_is_refused_and_nothing_is_made(
    admin: httpx.AsyncClient, alert: dict[str, Any], status: int, code: str, field: str
) -> None:
    answer = await admin.post("/v1/jobs", json=body(alert=alert))
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (status, code, field)
    assert (await admin.get("/v1/jobs")).json()["items"] == []
    assert await rules(admin) == {}
    made = await create(admin)
    changed = await admin.put(f"/v1/jobs/{made['jobId']}", json=body(alert=alert))
    assert (changed.status_code, changed.json()["code"]) == (status, code)
    assert (await admin.get(f"/v1/jobs/{made['jobId']}")).json()["version"] == 1


async def test_a_rule_that_somebody_made_is_not_taken_over_by_a_job(admin: httpx.AsyncClient) -> None:
    mine = {"kind": "missed", "jobs": ["nightly", "weekly"], "afterSec": 60, "note": "mine"}
    await admin.put("/v1/alert-rules/nightly.missed", json=mine)

    refused = await admin.post("/v1/jobs", json=body(alert=WATCHED))

    assert (refused.status_code, refused.json()["code"], refused.json()["field"]) == (409, "DULY-E260", "alert")
    assert "nightly.missed" in refused.json()["detail"]
    assert "duly alert delete-rule nightly.missed" in refused.json()["hint"]
    assert (await admin.get("/v1/jobs")).json()["items"] == []
    # Neither by a change, nor is it gone with one.
    made = await create(admin)
    changed = await admin.put(f"/v1/jobs/{made['jobId']}", json=body(alert=WATCHED))
    assert (changed.status_code, changed.json()["code"]) == (409, "DULY-E260")
    await admin.delete(f"/v1/jobs/{made['jobId']}")
    found = await rules(admin)
    assert found.keys() == {"nightly.missed"}
    assert (found["nightly.missed"]["note"], found["nightly.missed"]["version"]) == ("mine", 1)


async def test_a_rule_of_a_job_that_is_changed_by_hand_stays_the_job_s(admin: httpx.AsyncClient) -> None:
    made = await create(admin, alert={"missedAfterSec": 60})
    answer = await admin.put("/v1/alert-rules/nightly.missed", json={"kind": "missed", "jobs": ["nightly"], "afterSec": 600})
    assert answer.status_code == 200, answer.text
    assert ((await rules(admin))["nightly.missed"]["afterSec"], answer.json()["source"]) == (600, BY_DEFINITION)

    changed = await admin.put(f"/v1/jobs/{made['jobId']}", json=body(alert={"missedAfterSec": 120}))
    assert changed.status_code == 200, changed.text
    assert (await rules(admin))["nightly.missed"]["afterSec"] == 120
    await admin.delete(f"/v1/jobs/{made['jobId']}")
    assert await rules(admin) == {}


async def test_an_alert_is_in_the_record_of_the_change(admin: httpx.AsyncClient) -> None:
    made = await create(admin)
    await admin.put(f"/v1/jobs/{made['jobId']}", json=body(alert=WATCHED))

    record = (await admin.get("/v1/audit")).json()["items"][0]
    assert record["action"] == "job.change"
    assert record["after"]["alert"]["missedAfterSec"] == 900
