"""Lists are filtered by the names of fields; what is no filter is refused, never ignored; a cursor belongs to its filter."""

from __future__ import annotations

import httpx
import pytest

from tests.http.conftest import STRANGER, Bench


async def ids(client: httpx.AsyncClient, query: str) -> list[str]:
    answer = await client.get(f"/v1/executions?{query}")
    assert answer.status_code == 200, answer.text
    return [item["executionId"] for item in answer.json()["items"]]


async def test_executions_are_found_by_what_they_are(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(name="mail")
    done = await bench.enqueue(job, payload={"customer": {"id": 42}, "kind": "welcome mail"})
    claimed = await bench.claim()
    await bench.finish(claimed)
    other = await bench.enqueue(await bench.job(name="other"), payload={"customer": {"id": 43}}, delaySec=3600)

    for query, found in [
        ("payload.customer.id=42", [done]),
        ("payload[customer.id]=42", [done]),
        ("payload.customer.id=42&payload.kind=welcome+mail", [done]),
        ("payload.customer.id=42&payload.kind=other", []),
        ("jobName=mail", [done]),
        (f"jobId={job}&state=SUCCEEDED", [done]),
        (f"jobId={job}&jobName=other", []),
        ("trigger=enqueue", [other, done]),
        ("trigger=schedule", []),
        ("handler=duly.echo&pool=default", [other, done]),
        ("pool=elsewhere", []),
        ("lastOutcome=SUCCEEDED", [done]),
        (f"workerId={bench.worker}", [done]),
        ("since=2026-01-05T12:30:00Z", [other]),
        ("until=2026-01-05T12:30:00%2B00:00", [done]),
        ("batchId=batch_" + "0" * 32, []),
    ]:
        assert await ids(admin, query) == found, query
        assert await ids(bench.client(STRANGER), query) == []


@pytest.mark.parametrize(
    ("query", "code", "field"),
    [
        ("colour=red", "DULY-E106", "colour"),
        ("state=succeeded", "DULY-E106", "state"),
        ("state=DEAD&state=DEAD", "DULY-E106", "state"),
        ("trigger=SCHEDULE", "DULY-E106", "trigger"),
        ("jobId=42", "DULY-E111", "jobId"),
        ("batchId=run_" + "0" * 32, "DULY-E111", "batchId"),
        ("workerId=me", "DULY-E111", "workerId"),
        ("since=yesterday", "DULY-E105", "since"),
        ("since=2026-01-05T12:00:00", "DULY-E105", "since"),
        ("pool=", "DULY-E106", "pool"),
        ("payload=42", "DULY-E106", "payload"),
        ("payload.=42", "DULY-E106", "payload."),
        ("payload.a.b.c.d.e.f=1", "DULY-E119", "payload.a.b.c.d.e.f"),
        ("payload.0=1", "DULY-E119", "payload.0"),
        ("payload.a%22b=1", "DULY-E119", 'payload.a"b'),
        ("payload.a%00=1", "DULY-E110", "payload.a"),
        ("payload.a=%00", "DULY-E110", "payload.a"),
        ("payload.a=1&payload[a]=1", "DULY-E106", "payload[a]"),
        ("payload.a=1&payload.b=1&payload.c=1&payload.d=1&payload.e=1", "DULY-E106", "payload"),
        ("payload.a=" + "x" * 257, "DULY-E106", "payload"),
        ("state.x=DEAD", "DULY-E106", "state.x"),
        ("limit=0", "DULY-E106", "limit"),
        ("limit=ten", "DULY-E106", "limit"),
    ],
)
async def test_bad_filters_are_refused(admin: httpx.AsyncClient, query: str, code: str, field: str) -> None:
    answer = await admin.get(f"/v1/executions?{query}")

    assert (answer.status_code, answer.json()["code"]) == (422, code), answer.text
    assert answer.json()["field"].startswith(field)


async def test_a_cursor_goes_on_with_its_own_filter_only(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job()
    runs = [await bench.enqueue(job, payload={"n": 1}) for _ in range(3)]
    first = (await admin.get("/v1/executions?payload.n=1&state=PENDING&limit=2")).json()
    cursor = first["nextCursor"]

    assert await ids(admin, f"state=PENDING&limit=1&payload.n=1&cursor={cursor}") == [runs[0]]
    for other in ("", "state=PENDING", "payload.n=2&state=PENDING", "payload.n=1&state=DEAD", f"payload.n=1&state=PENDING&jobId={job}"):
        answer = await admin.get(f"/v1/executions?{other}&cursor={cursor}".replace("?&", "?"))
        assert (answer.status_code, answer.json()["code"]) == (422, "DULY-E120"), other
    for elsewhere in ("/v1/jobs", "/v1/dead-letters/open", f"/v1/jobs/{job}/executions"):
        assert (await admin.get(f"{elsewhere}?cursor={cursor}")).json()["code"] == "DULY-E120"


async def test_jobs_are_found_by_type_and_next_fire(bench: Bench, admin: httpx.AsyncClient) -> None:
    for name, fields in {
        "cron": {"schedule": "0 3 * * *"},
        "every": {"intervalSec": 60},
        "once": {"runAt": "2026-02-01T00:00:00Z"},
        "asked": {},
    }.items():
        await bench.job(name=name, **fields)
    paused = await bench.job(name="paused", schedule="0 3 * * *")
    await admin.post(f"/v1/jobs/{paused}/pause")

    for query, names in [
        ("type=CRON", {"cron", "paused"}),
        ("type=ON_DEMAND", {"asked"}),
        ("nextFireBefore=2026-01-05T13:00:00Z", {"every"}),
        ("nextFireAfter=2026-01-05T13:00:00Z", {"cron", "once"}),
        ("nextFireAfter=2026-01-05T13:00:00Z&nextFireBefore=2026-01-07T00:00:00Z", {"cron"}),
        ("type=CRON&state=PAUSED", {"paused"}),
    ]:
        answer = (await admin.get(f"/v1/jobs?{query}")).json()
        assert {job["name"] for job in answer["items"]} == names, query
    for bad in ("type=cron", "nextFireBefore=now", "nextFire=1"):
        assert (await admin.get(f"/v1/jobs?{bad}")).status_code == 422
