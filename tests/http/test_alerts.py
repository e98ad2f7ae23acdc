"""Alerts over the API: rules, channels, incidents, previews, links, the audit of fires."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from duly.domain.instants import SECOND
from duly.domain.lifecycle import State
from duly.roles.alerter import Alerter, AlerterSettings
from duly.roles.auditor import Auditor, AuditorSettings
from tests.api import Silence
from tests.http.conftest import ADMIN, OPERATOR, STRANGER, VIEWER, Bench

HOOK = {"kind": "webhook", "url": "https://ops.example.com/hook/s3cret-path", "secret": "env:DULY_SECRET_OPS"}


async def put(client: httpx.AsyncClient, path: str, body: dict[str, Any], code: int = 200) -> dict[str, Any]:
    answer = await client.put(path, json=body)
    assert answer.status_code == code, answer.text
    found: dict[str, Any] = answer.json()
    return found


def alerter(bench: Bench) -> Alerter:
    store = bench.store
    return Alerter("a", store.alerts, store.figures, store.calendars, Silence(), lambda bits: 7, AlerterSettings())


async def died(bench: Bench, job: str) -> None:
    await bench.enqueue(job)
    await bench.finish(await bench.claim(), state=State.DEAD, error='{"type": "ValueError", "message": "boom"}')
    bench.clock.turn(SECOND)


async def test_rules_and_channels_are_read_as_they_were_set(bench: Bench) -> None:
    admin = bench.client(ADMIN)
    await put(admin, "/v1/alert-channels/ops", HOOK)
    sent = {
        "kind": "failures",
        "count": 4,
        "jobs": ["nightly"],
        "graceSec": 60.0,
        "recovery": {"runs": 2, "percent": None, "afterSec": 30.0},
        "groupBy": "all",
        "channels": ["ops"],
        "quietHours": [{"days": ["SAT", "SUN"], "from": "22:00", "to": "24:00"}],
        "timezone": "Europe/Berlin",
        "owner": "ada",
        "note": "see the runbook",
    }

    made = await put(admin, "/v1/alert-rules/nightly", sent)

    shown = await admin.get("/v1/alert-rules/nightly")
    assert shown.json() == made
    assert {name: made[name] for name in sent} == sent
    assert (await admin.get("/v1/alert-rules")).json()["items"] == [made]
    unchanged = await admin.get("/v1/alert-rules/nightly", headers={"if-none-match": shown.headers["etag"]})
    assert unchanged.status_code == 304
    stale = await admin.put("/v1/alert-rules/nightly", json=sent, headers={"if-match": '"v9"'})
    assert (stale.status_code, stale.json()["code"]) == (412, "DULY-E209")
    # What was read can be set again.
    again = await put(admin, "/v1/alert-rules/nightly", {name: made[name] for name in sent})
    assert again["version"] == 1
    trail = (await admin.get("/v1/audit")).json()["items"]
    assert [record["action"] for record in trail[:2]] == ["alert_rule.set", "alert_channel.set"]
    assert "s3cret-path" not in str(trail)


async def test_only_admins_see_the_whole_address_of_a_channel_and_nobody_sees_a_secret(bench: Bench) -> None:
    made = await put(bench.client(ADMIN), "/v1/alert-channels/ops", HOOK)
    seen = (await bench.client(VIEWER).get("/v1/alert-channels/ops")).json()
    assert (made["url"], seen["url"]) == (HOOK["url"], "https://ops.example.com/…")
    assert seen["secret"] == "env:DULY_SECRET_OPS"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"kind": "no_success", "afterSec": 60}, "jobs"),
        ({"kind": "late", "count": 3}, "count"),
        ({"kind": "failure_rate"}, "percent"),
        ({"kind": "pool_saturated", "jobs": ["a"]}, "jobs"),
        ({"kind": "failures", "groupBy": "cause", "recovery": {"percent": 10}}, "recovery.percent"),
        ({"kind": "worker_gone", "groupBy": "cause"}, "groupBy"),
    ],
)
async def test_a_rule_that_contradicts_itself_is_refused_by_its_field(bench: Bench, body: dict[str, Any], field: str) -> None:
    answer = await bench.client(ADMIN).put("/v1/alert-rules/x", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "DULY-E160")
    assert answer.json()["field"] == field
    assert (await bench.client(ADMIN).get("/v1/alert-rules")).json()["items"] == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"kind": "webhook"}, "DULY-E161"),
        ({"kind": "webhook", "url": "https://[::1/hook"}, "DULY-E161"),
        ({"kind": "webhook", "url": "https://example.com:0/hook"}, "DULY-E161"),
        ({"kind": "webhook", "url": "https://example.com:99999/hook"}, "DULY-E161"),
        ({"kind": "webhook", "url": "https:///hook"}, "DULY-E161"),
        ({"kind": "slack", "secret": "https://hooks.example.com/T0/B0/x7x7x7"}, "DULY-E141"),
        ({"kind": "email", "to": ["not an address"], "from": "a@example.com", "host": "mail.example.com"}, "DULY-E161"),
        ({"kind": "pagerduty", "secret": "env:KEY", "host": "x.example.com"}, "DULY-E161"),
        ({"kind": "email", "to": ["a@example.com\nBcc: b@example.com"], "from": "a@example.com", "host": "m.example.com"}, "DULY-E161"),
    ],
)
async def test_a_channel_that_cannot_be_told_is_refused(bench: Bench, body: dict[str, Any], code: str) -> None:
    answer = await bench.client(ADMIN).put("/v1/alert-channels/x", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert "x7x7x7" not in answer.text


async def test_a_channel_stays_while_a_rule_names_it(bench: Bench) -> None:
    admin = bench.client(ADMIN)
    missing = await admin.put("/v1/alert-rules/x", json={"kind": "final_failure", "channels": ["ops"]})
    assert (missing.status_code, missing.json()["code"]) == (404, "DULY-E255")
    await put(admin, "/v1/alert-channels/ops", HOOK)
    await put(admin, "/v1/alert-rules/x", {"kind": "final_failure", "channels": ["ops"]})
    used = await admin.delete("/v1/alert-channels/ops")
    assert (used.status_code, used.json()["code"]) == (409, "DULY-E256")
    assert (await admin.delete("/v1/alert-rules/x")).status_code == 200
    assert (await admin.delete("/v1/alert-channels/ops")).status_code == 200


async def test_an_incident_is_listed_shown_and_snoozed_by_its_own_tenant_only(bench: Bench) -> None:
    admin, operator = bench.client(ADMIN), bench.client(OPERATOR)
    await put(admin, "/v1/alert-rules/x", {"kind": "final_failure"})
    bench.clock.turn(SECOND)
    await died(bench, await bench.job(name="nightly", retryPolicy={"maxAttempts": 1}))
    await alerter(bench).step(bench.clock.now())

    (listed,) = (await admin.get("/v1/alerts?state=OPEN&rule=x")).json()["items"]
    assert (listed["title"], listed["state"], listed["jobs"]) == ("nightly failed for good", "OPEN", ["nightly"])
    path = f"/v1/alerts/{listed['incidentId']}"
    assert (await admin.get(path)).json()["deliveries"] == []
    assert (await admin.get("/v1/alerts?state=RESOLVED")).json()["items"] == []
    snoozed = await operator.post(f"{path}/snooze", json={"forSec": 3600})
    assert snoozed.json()["snoozedUntil"] is not None
    assert (await operator.post(f"{path}/snooze")).json()["snoozedUntil"] is None
    assert (await operator.post(f"{path}/snooze", json={"until": "2020-01-01T00:00:00Z"})).status_code == 422

    stranger = bench.client(STRANGER)
    assert (await stranger.get(path)).status_code == 404
    assert (await stranger.post(f"{path}/snooze", json={"forSec": 60})).status_code == 404
    for noun in ("alerts", "alert-rules", "alert-channels", "links"):
        assert (await stranger.get(f"/v1/{noun}")).json()["items"] == []


async def test_a_preview_counts_what_would_have_been(bench: Bench) -> None:
    job = await bench.job(name="nightly", retryPolicy={"maxAttempts": 1})
    for _ in range(3):
        await died(bench, job)
        bench.clock.turn(60 * SECOND)
    await bench.enqueue(job)
    await bench.finish(await bench.claim())
    bench.clock.turn(60 * SECOND)
    await died(bench, job)
    admin = bench.client(ADMIN)

    async def times(**rule: Any) -> tuple[int, str]:
        found = (await admin.post("/v1/alert-rules/preview", json={"rule": rule, "days": 30})).json()
        return found["times"], found["words"]

    assert await times(kind="final_failure") == (2, "This rule would have fired 2 times in the last 30 days.")
    assert await times(kind="failures", count=3, jobs=["nightly"]) == (1, "This rule would have fired once in the last 30 days.")
    assert await times(kind="failures", count=4) == (0, "This rule would not have fired in the last 30 days.")
    refused = await admin.post("/v1/alert-rules/preview", json={"rule": {"kind": "worker_gone"}})
    assert (refused.status_code, refused.json()["code"]) == (422, "DULY-E162")


async def test_a_preview_of_all_jobs_sees_what_was_late_and_is_over(bench: Bench) -> None:
    job = await bench.job(name="nightly")
    await bench.enqueue(job)
    bench.clock.turn(600 * SECOND)
    await bench.finish(await bench.claim())
    bench.clock.turn(60 * SECOND)
    await bench.enqueue(job)
    await bench.finish(await bench.claim())
    admin = bench.client(ADMIN)

    async def times(**rule: Any) -> int:
        found = (await admin.post("/v1/alert-rules/preview", json={"rule": rule, "days": 30})).json()
        return int(found["times"])

    assert await times(kind="late", afterSec=300) == await times(kind="late", afterSec=300, jobs=["nightly"]) == 1
    assert await times(kind="late", afterSec=900) == 0


async def test_a_link_opens_what_it_was_made_for_and_nothing_else(bench: Bench) -> None:
    admin, nobody = bench.client(ADMIN), bench.client(None)
    job, other = await bench.job(name="nightly", schedule="0 3 * * *"), await bench.job(name="other")
    made = (await admin.post("/v1/links", json={"kind": "badge", "jobId": job})).json()
    feed = (await admin.post("/v1/links", json={"kind": "calendar", "expiresInSec": 60})).json()

    badge = await nobody.get(made["path"])
    assert (badge.status_code, badge.headers["content-type"]) == (200, "image/svg+xml")
    assert "nightly: no runs" in badge.text
    calendar = await nobody.get(feed["path"])
    assert calendar.status_code == 200
    assert calendar.text.startswith("BEGIN:VCALENDAR\r\n")
    assert calendar.text.count("BEGIN:VEVENT") == 14
    assert "SUMMARY:nightly" in calendar.text

    token = made["path"].partition("?token=")[2]
    for path in (
        f"/v1/jobs/{other}/badge.svg?token={token}",  # another job
        f"/v1/upcoming.ics?token={token}",  # another kind
        f"/v1/jobs/{job}?token={token}",  # another route
        f"/v1/jobs?token={token}",
        f"/v1/jobs/{job}/badge.svg?token={token}x",
        f"/v1/jobs/{job}/badge.svg?token={token}&token={token}",
        f"/v1/jobs/{job}/badge.svg?token=",
        f"/v1/jobs/{job}/badge.svg",
    ):
        assert (await nobody.get(path)).status_code in (401, 404), path
    assert (await nobody.post(made["path"])).status_code == 401
    assert (await nobody.delete(f"/v1/links/{made['linkId']}?token={token}")).status_code == 401

    assert (await admin.delete(f"/v1/links/{made['linkId']}")).json()["revokedAt"] is not None
    assert (await nobody.get(made["path"])).status_code == 401
    bench.clock.turn(61 * SECOND)
    assert (await nobody.get(feed["path"])).status_code == 401
    listed = (await admin.get("/v1/links")).json()["items"]
    assert token not in str(listed)
    assert "other: no runs" in (await admin.get(f"/v1/jobs/{other}/badge.svg")).text
    # Whoever has a key is told as well that this is no token.
    assert (await admin.get("/v1/upcoming.ics?token=x")).json()["code"] == "DULY-E106"


async def test_missed_fires_and_expected_durations_are_on_the_pages(bench: Bench) -> None:
    admin = bench.client(ADMIN)
    auditor = Auditor("t", bench.store.fire_audit, AuditorSettings())
    await auditor.step(bench.clock.now())
    job = await bench.job(name="nightly", schedule="*/5 * * * *")
    bench.clock.turn(700 * SECOND)
    await auditor.step(bench.clock.now())

    found = (await admin.get("/v1/missed-fires?state=OPEN&limit=1")).json()
    assert (found["openCount"], len(found["items"]), found["items"][0]["flaw"]) == (2, 1, "MISSING")
    more = (await admin.get(f"/v1/missed-fires?state=OPEN&limit=1&cursor={found['nextCursor']}")).json()
    assert more["items"][0]["scheduledAt"] < found["items"][0]["scheduledAt"]
    assert more["nextCursor"] is None
    assert (await bench.client(STRANGER).get("/v1/missed-fires")).json()["items"] == []
    assert (await admin.get(f"/v1/jobs/{job}")).json()["expectedDuration"] is None
    assert (await admin.get("/v1/upcoming?limit=1")).json()["items"][0]["expectedSec"] is None


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"timezone": "Mars/Olympus"}, "DULY-E103"),
        ({"timezone": "Mars/Olympus", "quietHours": [{"days": ["SUN"], "from": "00:00", "to": "24:00"}]}, "DULY-E103"),
        ({"timezone": "Europe/Berlin"}, "DULY-E160"),
    ],
)
async def test_a_zone_is_one_and_goes_with_quiet_hours(bench: Bench, fields: dict[str, object], code: str) -> None:
    answer = await bench.client(ADMIN).put("/v1/alert-rules/late", json={"kind": "missed", "afterSec": 900, **fields})

    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, code, "timezone")
