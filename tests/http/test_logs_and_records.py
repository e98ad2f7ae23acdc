"""Logs are looked through and finished executions read over the API: bounded, by cursor, and a tenant's own only."""

from __future__ import annotations

import httpx
import pytest

from duly.domain.instants import HOUR
from duly.wire.records import record_of, record_view
from tests.analytics.records import history
from tests.http.conftest import STRANGER, Bench


async def spoke(bench: Bench, job: str, *messages: str) -> str:
    run = await bench.enqueue(job)
    claimed = await bench.claim()
    await bench.log(claimed, *messages)
    await bench.finish(claimed)
    bench.clock.turn(HOUR)
    return run


async def test_lines_of_an_execution_are_filtered(bench: Bench, admin: httpx.AsyncClient) -> None:
    run = await spoke(bench, await bench.job(), "one", "two", "twofold")
    path = f"/v1/executions/{run}/logs"

    found = (await admin.get(path, params={"contains": "TWO"})).json()
    quiet = (await admin.get(path, params={"level": "warning"})).json()
    followed = await admin.get(path, params={"contains": "fold"}, headers={"accept": "text/event-stream"})

    assert [line["message"] for line in found["items"]] == ["two", "twofold"]
    assert (quiet["items"], quiet["nextCursor"]) == ([], None)
    assert followed.text.count("event: log") == 1
    assert followed.text.endswith('event: end\ndata: {"state":"SUCCEEDED"}\n\n')


async def test_a_job_s_executions_are_looked_through_page_by_page(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job()
    first = await spoke(bench, job, "boom 1", "quiet", "boom 2")
    last = await spoke(bench, job, "boom 3")
    path, cursor, found = f"/v1/jobs/{job}/logs", None, []

    while True:
        page = (await admin.get(path, params={"contains": "boom", "limit": "1"} | ({} if cursor is None else {"cursor": cursor}))).json()
        found += [(line["executionId"], line["message"]) for line in page["items"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    recent = (await admin.get(path, params={"since": "2026-01-05T12:30:00Z"})).json()

    assert found == [(last, "boom 3"), (first, "boom 1"), (first, "boom 2")]
    assert [line["executionId"] for line in recent["items"]] == [last]
    assert (await bench.client(STRANGER).get(path)).status_code == 404


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v1/executions/{run}/logs?level=loud", "DULY-E106"),
        ("/v1/executions/{run}/logs?contains=", "DULY-E106"),
        ("/v1/executions/{run}/logs?attempt=99999999", "DULY-E106"),
        ("/v1/jobs/{job}/logs?cursor=x", "DULY-E112"),
        ("/v1/jobs/{job}/logs?since=yesterday", "DULY-E105"),
        ("/v1/executions:finished?cursor=x", "DULY-E112"),
        ("/v1/executions:finished?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "DULY-E106"),
        ("/v1/executions:finished?limit=0", "DULY-E106"),
    ],
)
async def test_what_cannot_be_asked_is_refused(bench: Bench, admin: httpx.AsyncClient, path: str, code: str) -> None:
    job = await bench.job()
    run = await bench.enqueue(job)

    answer = await admin.get(path.format(job=job, run=run))

    assert answer.json()["code"] == code, answer.text


async def test_finished_executions_are_read_by_the_stretch_and_are_the_tenant_s_own(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job()
    runs = [await spoke(bench, job) for _ in range(3)]
    waiting = await bench.enqueue(job, delaySec=3600)

    first = (await admin.get("/v1/executions:finished?limit=2")).json()
    rest = (await admin.get("/v1/executions:finished", params={"limit": "2", "cursor": first["nextCursor"]})).json()
    counted = (await admin.get("/v1/executions:finished?only=count")).json()
    part = (await admin.get("/v1/executions:finished", params={"since": "2026-01-05T13:00:00Z", "until": "2026-01-05T14:00:00Z"})).json()
    theirs = (await bench.client(STRANGER).get("/v1/executions:finished")).json()

    assert [item["executionId"] for item in first["items"] + rest["items"]] == runs
    assert waiting not in str(first) + str(rest)
    assert (first["items"][0]["tenant"], first["items"][0]["handler"], first["items"][0]["attempts"]) == ("default", "duly.echo", 1)
    assert counted == {"items": [], "finished": 3, "unfinished": 1, "nextCursor": None}
    assert [item["executionId"] for item in part["items"]] == [runs[1]]
    assert theirs == {"items": [], "finished": 0, "unfinished": 0, "nextCursor": None}


def test_a_record_comes_back_from_the_wire_as_it_went() -> None:
    records = history(200)

    assert [record_of(record_view(record)) for record in records] == records
