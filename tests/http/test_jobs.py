"""Jobs over HTTP: created once, changed by version, listed by page."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import msgspec
import pytest

from duly.domain.instants import HOUR, to_rfc3339
from duly.wire.comparison import changes
from duly.wire.jobs import JobShape, JobView
from tests.http.conftest import ADMIN, STRANGER, Bench

ECHO = {"handler": "duly.echo"}
JOB_KEYS = frozenset(JobShape.__struct_encode_fields__)


async def test_a_job_is_created_and_found_where_it_says(admin: httpx.AsyncClient) -> None:
    created = await admin.post(
        "/v1/jobs",
        json={
            "name": "daily-invoice-gen",
            "type": "CRON",
            "schedule": "0 3 * * *",
            "timezone": "America/Los_Angeles",
            "target": {"pool": "batch-etl", "handler": "generate_invoices", "requires": {"region": "eu"}},
            "payload": {"tenantId": "acme", "dateRange": "yesterday"},
            "retryPolicy": {"maxAttempts": 3, "backoff": "EXPONENTIAL", "initialDelayMs": 30000},
            "timeoutSec": 600,
            "priority": "NORMAL",
            "overlap": "skip",
            "catchUp": "latest",
        },
    )
    shown = await admin.get(created.headers["location"])

    assert created.status_code == 201
    assert created.headers["etag"] == '"v1"'
    assert shown.headers["etag"].startswith('"v1-')
    assert created.json()["nextFireAt"] == "2026-01-06T11:00:00Z"
    assert created.json()["state"] == "ACTIVE"
    assert created.json()["words"]
    assert shown.json().items() >= created.json().items()
    assert shown.json()["nextFires"] == [f"2026-01-{day:02}T11:00:00Z" for day in range(6, 11)]
    assert shown.json()["latestExecutions"] == []


async def test_words_are_kept_as_the_expression_that_they_mean(admin: httpx.AsyncClient) -> None:
    body = {"name": "early", "schedule": "every weekday at 07:30", "timezone": "Europe/Berlin", "target": ECHO}

    created = await admin.post("/v1/jobs", json=body)
    shown = (await admin.get(created.headers["location"])).json()
    same = {key: value for key, value in shown.items() if key in JOB_KEYS and value is not None}
    again = [await admin.put(created.headers["location"], json=sent) for sent in (same, body)]
    refused = await admin.post("/v1/jobs", json={**body, "schedule": "every 7 minutes"})
    previewed = (await admin.post("/v1/schedules/preview", json={"schedule": body["schedule"], "timezone": "Europe/Berlin"})).json()

    assert (shown["schedule"], shown["words"]) == ("30 7 * * 1-5", "At 07:30 on weekdays, Berlin time")
    assert [(one.status_code, one.json()["schedule"], one.json()["nextFireAt"]) for one in again] == [
        (200, "30 7 * * 1-5", shown["nextFireAt"])
    ] * 2
    assert (refused.status_code, refused.json()["code"]) == (422, "DULY-E101")
    assert previewed["words"] == shown["words"]
    # What `duly plan` compares a file with.
    assert changes(msgspec.convert(shown, JobView), msgspec.convert(body, JobShape), 0) == []


async def test_limits_rules_and_batches_are_read_as_they_were_sent(admin: httpx.AsyncClient) -> None:
    sent = {
        "executionTimeoutSec": 3600.0,
        "heartbeatTimeoutSec": 30.0,
        "stopGraceSec": 2.5,
        "batch": 100,
        "retryPolicy": {
            "maxAttempts": 5,
            "rules": [{"error": "ValueError", "retry": False}, {"error": "RateLimited", "delayMs": 60000, "maxAttempts": 10}],
        },
    }
    shown = (await admin.get((await admin.post("/v1/jobs", json={"target": ECHO, **sent})).headers["location"])).json()

    assert {key: shown[key] for key in sent if key != "retryPolicy"} == {key: sent[key] for key in sent if key != "retryPolicy"}
    assert shown["retryPolicy"]["rules"] == [
        {"error": "ValueError", "retry": False, "delayMs": None, "maxAttempts": None},
        {"error": "RateLimited", "retry": True, "delayMs": 60000, "maxAttempts": 10},
    ]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"stopGraceSec": -1}, "stopGraceSec"),
        ({"heartbeatTimeoutSec": 0.5}, "heartbeatTimeoutSec"),
        ({"executionTimeoutSec": 0}, "executionTimeoutSec"),
        ({"batch": 0}, "batch"),
        ({"retryPolicy": {"rules": [{"error": "not a name"}]}}, "retryPolicy.rules"),
        ({"retryPolicy": {"rules": [{"error": "X", "retry": False, "delayMs": 1}]}}, "retryPolicy.rules"),
    ],
)
async def test_limits_that_make_no_sense_are_refused(admin: httpx.AsyncClient, wrong: dict[str, Any], field: str) -> None:
    answer = await admin.post("/v1/jobs", json={"target": ECHO, **wrong})

    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, "DULY-E106", field)


@pytest.mark.parametrize(
    "payload", [None, [], {}, 0, "", {"n": 2**64}, {"n": -(2**70)}, {"x": 0.1}, {"text": "Zürich 🎉 \\u0000"}, {"deep": [[[[1]]]]}]
)
async def test_a_payload_survives_exactly(admin: httpx.AsyncClient, payload: Any) -> None:
    created = await admin.post("/v1/jobs", json={"target": ECHO, "payload": payload})
    shown = await admin.get(created.headers["location"])

    assert created.status_code == 201
    assert shown.json()["payload"] == payload


async def test_a_webhook_keeps_its_body_exactly(admin: httpx.AsyncClient) -> None:
    http = {"url": "https://example.com/x", "method": "PUT", "headers": {"x-a": "b"}, "body": {"n": 2**80, "x": [1.5, None]}}

    created = await admin.post("/v1/jobs", json={"target": {"http": http}})

    assert created.json()["target"]["http"] == http


async def test_the_same_key_and_body_give_the_same_job(bench: Bench, admin: httpx.AsyncClient) -> None:
    body = {"name": "once", "target": ECHO}
    first = await admin.post("/v1/jobs", json=body, headers={"idempotency-key": "k1"})
    again = await admin.post("/v1/jobs", json=body, headers={"idempotency-key": "k1"})
    other = await admin.post("/v1/jobs", json={**body, "name": "twice"}, headers={"idempotency-key": "k1"})
    elsewhere = await admin.post("/v1/jobs:batch", json={"jobs": [body]}, headers={"idempotency-key": "k1"})
    foreign = await bench.client(STRANGER).post("/v1/jobs", json=body, headers={"idempotency-key": "k1"})
    bench.clock.turn(25 * HOUR)
    expired = await admin.post("/v1/jobs", json={**body, "name": "later"}, headers={"idempotency-key": "k1"})

    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    assert (other.status_code, other.json()["code"]) == (409, "DULY-E207")
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (409, "DULY-E207")
    assert (foreign.status_code, expired.status_code) == (201, 201)
    assert foreign.json()["jobId"] != first.json()["jobId"]


async def test_concurrent_creates_with_one_key_make_one_job(admin: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(admin.post("/v1/jobs", json={"target": ECHO}, headers={"idempotency-key": "k"}) for _ in range(8)))

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["jobId"] for answer in answers}) == 1


async def test_a_name_is_taken_by_one_live_job(admin: httpx.AsyncClient) -> None:
    first = await admin.post("/v1/jobs", json={"name": "mine", "target": ECHO})
    taken = await admin.post("/v1/jobs", json={"name": "mine", "target": ECHO})
    await admin.delete(first.headers["location"])
    free = await admin.post("/v1/jobs", json={"name": "mine", "target": ECHO})

    assert (taken.status_code, taken.json()["code"]) == (409, "DULY-E208")
    assert free.status_code == 201


async def test_a_batch_is_created_whole_or_not_at_all(admin: httpx.AsyncClient) -> None:
    good = await admin.post("/v1/jobs:batch", json={"jobs": [{"name": f"j{n}", "target": ECHO} for n in range(3)]})
    bad = await admin.post("/v1/jobs:batch", json={"jobs": [{"name": "j3", "target": ECHO}, {"target": {**ECHO, "pool": "no pool"}}]})
    worse = await admin.post("/v1/jobs:batch", json={"jobs": [{"name": "j3", "target": ECHO}, {"target": ECHO, "schedule": "x"}]})
    twice = await admin.post("/v1/jobs:batch", json={"jobs": [{"name": "j3", "target": ECHO}, {"name": "j3", "target": ECHO}]})
    empty = await admin.post("/v1/jobs:batch", json={"jobs": []})
    listed = await admin.get("/v1/jobs")

    assert good.status_code == 201
    assert [item["name"] for item in good.json()["items"]] == ["j0", "j1", "j2"]
    assert (bad.status_code, bad.json()["field"]) == (422, "jobs[1].target.pool")
    assert (worse.status_code, worse.json()["code"], worse.json()["field"]) == (422, "DULY-E101", "jobs[1].schedule")
    assert (twice.status_code, empty.status_code) == (409, 422)
    assert len(listed.json()["items"]) == 3


async def test_pages_follow_one_another_without_gap_or_overlap(bench: Bench, admin: httpx.AsyncClient) -> None:
    made = [await bench.job(name=f"j{n}") for n in range(7)]
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(4):
        page = (await admin.get("/v1/jobs", params={"limit": 2, **({"cursor": cursor} if cursor else {})})).json()
        seen += [item["jobId"] for item in page["items"]]
        cursor = page["nextCursor"]

    assert cursor is None
    assert seen == made[::-1]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("name=alpha", {"alpha"}),
        ("name=alph", set()),
        ("search=alph", {"alpha"}),
        ("search=ALPH", {"alpha"}),
        ("search=%25", set()),
        ("pool=gpu", {"beta"}),
        ("handler=h2", {"beta"}),
        ("state=PAUSED", {"alpha"}),
        ("state=ACTIVE", {"beta", "gamma"}),
        ("state=CANCELLED", set()),
        ("state=ACTIVE&pool=gpu", {"beta"}),
        ("name=null", set()),
        ("limit=200", {"alpha", "beta", "gamma"}),
    ],
)
async def test_filters_narrow_the_list(bench: Bench, admin: httpx.AsyncClient, query: str, names: set[str]) -> None:
    alpha = await bench.job(name="alpha", schedule="0 3 * * *")
    await bench.job(name="beta", target={"handler": "h2", "pool": "gpu"})
    await bench.job(name="gamma")
    await admin.post(f"/v1/jobs/{alpha}/pause")

    answer = await admin.get(f"/v1/jobs?{query}")

    assert answer.status_code == 200
    assert {item["name"] for item in answer.json()["items"]} == names


async def test_a_change_makes_a_version_and_a_stale_one_is_refused(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(name="j", schedule="0 3 * * *")
    path = f"/v1/jobs/{job}"
    body = {"target": ECHO, "schedule": "0 4 * * *"}
    changed = await admin.put(path, json=body, headers={"if-match": '"v1"'})
    stale = await admin.put(path, json=body, headers={"if-match": '"v1"'})
    foreign = await admin.put(path, json=body, headers={"if-match": 'W/"whatever"'})
    malformed = await admin.put(path, json=body, headers={"if-match": "v1"})
    anyhow = await admin.put(path, json={**body, "name": "renamed"}, headers={"if-match": "*"})
    bare = await admin.put(path, json=body)

    assert (changed.status_code, changed.headers["etag"], changed.json()["version"], changed.json()["name"]) == (200, '"v2"', 2, "j")
    assert changed.json()["nextFireAt"] == "2026-01-06T04:00:00Z"
    assert (stale.status_code, stale.json()["code"]) == (412, "DULY-E209")
    assert (foreign.status_code, malformed.status_code) == (412, 422)
    assert (anyhow.json()["version"], anyhow.json()["name"]) == (3, "renamed")
    assert (bare.json()["version"], bare.json()["name"]) == (4, "renamed")


async def test_pause_resume_and_cancel_can_be_repeated(bench: Bench, admin: httpx.AsyncClient) -> None:
    path = f"/v1/jobs/{await bench.job(schedule='0 * * * *')}"
    paused = await admin.post(f"{path}/pause", json={"reason": "holidays"})
    again = await admin.post(f"{path}/pause")
    bench.clock.turn(5 * HOUR)
    resumed = await admin.post(f"{path}/resume")
    active = await admin.post(f"{path}/resume", json={})
    cancelled = await admin.delete(path)
    gone = await admin.delete(path)
    refused = [await admin.post(f"{path}/{verb}") for verb in ("pause", "resume", "run")] + [await admin.put(path, json={"target": ECHO})]
    kept = await admin.get(path)

    assert (paused.json()["state"], paused.json()["pauseReason"]) == ("PAUSED", "holidays")
    assert again.json()["pausedAt"] == paused.json()["pausedAt"]
    assert (resumed.json()["state"], active.json()["state"]) == ("ACTIVE", "ACTIVE")
    assert resumed.json()["nextFireAt"] == to_rfc3339(bench.clock.now() + HOUR)
    assert (cancelled.status_code, gone.status_code) == (200, 200)
    assert cancelled.json()["state"] == gone.json()["state"] == kept.json()["state"] == "CANCELLED"
    assert kept.json()["nextFires"] == []
    assert {(answer.status_code, answer.json()["code"]) for answer in refused} == {(409, "DULY-E210")}


async def test_an_admin_sees_only_their_tenant(bench: Bench) -> None:
    await bench.job(name="mine")

    assert (await bench.client(STRANGER).get("/v1/jobs")).json()["items"] == []
    assert len((await bench.client(ADMIN).get("/v1/jobs")).json()["items"]) == 1


async def test_a_delayed_job_can_be_sent_back_as_it_was_read(bench: Bench, admin: httpx.AsyncClient) -> None:
    created = await admin.post("/v1/jobs", json={"name": "soon", "target": ECHO, "delaySec": 60})
    read = created.json()
    bench.clock.turn(HOUR)
    sent_back = {key: read[key] for key in ("name", "type", "runAt", "target", "payload", "priority", "overlap", "catchUp", "retryPolicy")}
    changed = await admin.put(created.headers["location"], json={**sent_back, "description": "with care"})
    both = await admin.put(created.headers["location"], json={**sent_back, "delaySec": 5})

    assert (read["type"], read["runAt"]) == ("DELAYED", "2026-01-05T12:01:00Z")
    assert (changed.status_code, changed.json()["runAt"]) == (200, read["runAt"])
    assert both.status_code == 422


@pytest.mark.parametrize(
    "timing",
    [
        {},
        {"schedule": "0 3 * * *", "timezone": "Europe/Berlin"},
        {"intervalSec": 90, "jitterSec": 1.5},
        {"intervalSec": 1.5},
        {"runAt": "2030-01-01T00:00:00Z"},
        {"delaySec": 60},
        {"type": "RRULE", "schedule": "FREQ=DAILY"},
    ],
    ids=["on demand", "cron", "interval", "fractions", "one time", "delayed", "rule"],
)
async def test_what_is_read_can_be_sent_back(bench: Bench, admin: httpx.AsyncClient, timing: dict[str, object]) -> None:
    job = await bench.job(name="there-and-back", **timing)
    read = (await admin.get(f"/v1/jobs/{job}")).json()

    answer = await admin.put(f"/v1/jobs/{job}", json={key: value for key, value in read.items() if key in JOB_KEYS})

    assert answer.status_code == 200, answer.text
    changed = answer.json()
    assert {key: changed[key] for key in JOB_KEYS & read.keys()} == {key: read[key] for key in JOB_KEYS & read.keys()}
    assert changed["nextFireAt"] == read["nextFireAt"]
