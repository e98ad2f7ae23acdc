"""The worker protocol over HTTP: what a poll waits for, what is said to whom, and keys for workers."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.types import Message

from duly.domain.ids import parse_execution_id
from duly.domain.instants import SECOND
from tests.http.conftest import ADMIN, VIEWER, WORKER, Bench


async def register(bench: Bench, **more: Any) -> str:
    answer = await bench.client(WORKER).post("/v1/workers", json={"name": "w", "handlers": ["duly.echo"], **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["workerId"])


async def post(bench: Bench, path: str, **body: Any) -> httpx.Response:
    return await bench.client(WORKER).post(path, json=body)


async def test_a_worker_key_does_all_that_a_worker_does(bench: Bench) -> None:
    run = await bench.enqueue(await bench.job(payload={"own": True}))
    worker = await register(bench, labels={"gpu": ""}, slots=3, ttlSec=30)

    lease = (await post(bench, f"/v1/workers/{worker}/lease", max=5)).json()
    told = {"workerId": worker, "fence": lease["leaseId"]}
    lines = [{"message": "hello token=hunter22", "agoSec": 1}]
    assert (await post(bench, f"/v1/executions/{run}/log", **told, lines=lines)).json() == {"linesKept": 1, "linesDropped": 0}
    assert (await post(bench, f"/v1/executions/{run}/progress", **told, progress={"done": 1})).status_code == 200
    done = await post(bench, f"/v1/executions/{run}/complete", **told, result=[1])

    assert lease["executions"][0]["payload"] == {"own": True}
    assert done.json() == {"executionId": run, "state": "SUCCEEDED", "nextAttemptAt": None}
    shown = (await bench.client(ADMIN).get(f"/v1/executions/{run}")).json()
    assert (shown["result"], shown["workerId"], shown["fence"]) == ([1], worker, lease["leaseId"])
    [line] = (await bench.client(ADMIN).get(f"/v1/executions/{run}/logs")).json()["items"]
    assert line["at"] < shown["finishedAt"]


async def test_an_empty_answer_has_no_body_and_says_so_in_no_header(bench: Bench) -> None:
    answer = await post(bench, f"/v1/workers/{await register(bench)}/lease")

    assert (answer.status_code, answer.content) == (204, b"")
    assert "content-length" not in answer.headers
    assert "content-type" not in answer.headers


async def test_a_poll_waits_as_long_as_it_was_told(bench: Bench) -> None:
    worker = await register(bench, ttlSec=60)
    began = bench.clock.now()

    answer = await post(bench, f"/v1/workers/{worker}/lease", waitSec=20)

    assert answer.status_code == 204
    assert bench.clock.now() - began == 20 * SECOND


async def test_a_poll_ends_when_the_server_stops(bench: Bench) -> None:
    worker = await register(bench, ttlSec=60)
    bench.api.close()
    began = bench.clock.now()

    answer = await post(bench, f"/v1/workers/{worker}/lease", waitSec=30)

    assert answer.status_code == 204
    assert bench.clock.now() - began <= SECOND


async def test_whoever_has_hung_up_is_given_nothing(bench: Bench) -> None:
    """The request is there, the caller is not: what becomes ready after that is for others."""
    worker = await register(bench, ttlSec=60)
    job = await bench.job()
    messages: list[Message] = [
        {"type": "http.request", "body": b'{"waitSec": 30}', "more_body": False},
        {"type": "http.disconnect"},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return messages.pop(0) if messages else await asyncio.Future()

    async def send(message: Message) -> None:
        sent.append(message)

    path = f"/v1/workers/{worker}/lease"
    headers = [(b"authorization", f"Bearer {WORKER}".encode()), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers}
    await bench.api(scope, receive, send)
    run = await bench.enqueue(job)

    assert sent[0]["status"] == 204
    assert (await bench.client(ADMIN).get(f"/v1/executions/{run}")).json()["state"] == "PENDING"


async def test_a_heartbeat_may_wait_for_a_stop_that_is_news(bench: Bench) -> None:
    run = await bench.enqueue(await bench.job())
    worker = await register(bench, ttlSec=60)
    await post(bench, f"/v1/workers/{worker}/lease")
    began = bench.clock.now()
    quiet = await post(bench, f"/v1/workers/{worker}/heartbeat", ttlSec=60, waitSec=10)
    waited = bench.clock.now() - began
    await bench.client(ADMIN).post(f"/v1/executions/{run}/cancel")

    news = await post(bench, f"/v1/workers/{worker}/heartbeat", ttlSec=60, waitSec=10)
    heard = await post(bench, f"/v1/workers/{worker}/heartbeat", ttlSec=60, waitSec=10, heard=[run])

    assert (quiet.json()["stop"], waited) == ([], 10 * SECOND)
    assert [stop["executionId"] for stop in news.json()["stop"]] == [run]
    assert [stop["executionId"] for stop in heard.json()["stop"]] == [run]
    assert bench.clock.now() - began == 20 * SECOND, "news is told at once, what was heard is not waited for again"


async def test_definitions_come_only_when_they_are_asked_for(bench: Bench) -> None:
    await bench.enqueue(await bench.job())
    worker = await register(bench)

    plain = (await post(bench, f"/v1/workers/{worker}/lease")).json()
    whole = (await post(bench, f"/v1/workers/{worker}/lease", definitions=True)).json()

    assert plain["definitions"] is None
    assert list(whole["definitions"]) == [str(whole["executions"][0]["jobVersion"])]


@pytest.mark.parametrize(
    ("verb", "more"),
    [
        ("complete", {"result": "x" * (1 << 20)}),
        ("fail", {"error": {"type": "E", "message": "x" * 40_000}}),
        ("checkpoint", {"number": 1, "data": "x" * (257 << 10)}),
        ("log", {"lines": [{"message": "x", "fields": {"a": "y" * 20_000}}]}),
    ],
)
async def test_what_is_too_large_is_refused_and_the_attempt_goes_on(bench: Bench, verb: str, more: dict[str, Any]) -> None:
    run = await bench.enqueue(await bench.job())
    worker = await register(bench)
    lease = (await post(bench, f"/v1/workers/{worker}/lease")).json()

    refused = await post(bench, f"/v1/executions/{run}/{verb}", workerId=worker, fence=lease["leaseId"], **more)

    assert (refused.status_code, refused.json()["code"]) == (413, "DULY-E109")
    assert (await bench.client(ADMIN).get(f"/v1/executions/{run}")).json()["state"] == "RUNNING"


async def test_workers_of_another_tenant_are_not_shown(bench: Bench) -> None:
    from tests.http.conftest import STRANGER

    mine = await register(bench)
    await bench.client(STRANGER).post("/v1/workers", json={"name": "theirs", "handlers": ["h"]})
    await bench.enqueue(await bench.job())
    await bench.claim()

    shown = (await bench.client(ADMIN).get("/v1/workers")).json()["items"]

    assert [worker["name"] for worker in shown] == ["w", "w1"]
    assert shown[0]["workerId"] == mine


async def test_a_draining_worker_is_shown_as_such(bench: Bench) -> None:
    worker = await register(bench)
    await post(bench, f"/v1/workers/{worker}/drain")

    [shown] = (await bench.client(ADMIN).get("/v1/workers")).json()["items"]

    assert shown["state"] == "DRAINING"


async def test_a_key_is_made_shown_once_and_revoked(bench: Bench, admin: httpx.AsyncClient) -> None:
    made = (await admin.post("/v1/keys", json={"role": "WORKER", "name": "gpu-fleet", "expiresInSec": 3600})).json()
    listed = (await admin.get("/v1/keys")).json()["items"]
    worker = bench.client(made["secret"])

    assert "secret" not in str(listed)
    assert made["keyId"] in [key["keyId"] for key in listed]
    assert (await worker.post("/v1/workers", json={"name": "w", "handlers": ["h"]})).status_code == 201
    assert (await worker.get("/v1/jobs")).status_code == 403
    revoked = await admin.delete(f"/v1/keys/{made['keyId']}")
    bench.clock.turn(4 * SECOND)
    assert revoked.json()["revokedAt"] is not None
    assert (await worker.post("/v1/workers", json={"name": "w", "handlers": ["h"]})).status_code == 401


LEAKS = {
    "message": "Authorization: Bearer duly_5up3rs3cr3tk3y_0123456789 was refused",
    "detail": "GET https://ann:hunter22@db.example.com/?token=hunter22\npassword=hunter22",
    "context": {"client_secret": "hunter22", "tried": ["pwd", "Cookie: sid=hunter22"]},
}


async def test_errors_are_kept_without_the_credentials_in_them(bench: Bench) -> None:
    job = await bench.job(retryPolicy={"maxAttempts": 1})
    runs = [await bench.enqueue(job), await bench.enqueue(job), await bench.enqueue(job)]
    worker = await register(bench, slots=3)
    lease = (await post(bench, f"/v1/workers/{worker}/lease", max=3)).json()
    fence = lease["leaseId"]
    progress = {"at": "https://ann:hunter22@db.example.com"}

    told = {"executionId": runs[1], "fence": fence}
    await post(bench, f"/v1/executions/{runs[0]}/progress", workerId=worker, fence=fence, progress=progress)
    await post(bench, f"/v1/executions/{runs[0]}/fail", workerId=worker, fence=fence, error={"type": "E", **LEAKS})
    await post(
        bench,
        f"/v1/workers/{worker}/report",
        results=[{**told, "outcome": "FAILED", "error": LEAKS}, {**told, "executionId": runs[2], "outcome": "WORKER_LOST", "error": LEAKS}],
        progress=[{**told, "progress": progress}],
    )

    viewer = bench.client(VIEWER)
    for run in runs:
        seen = (await viewer.get(f"/v1/executions/{run}")).text + (await viewer.get(f"/v1/executions/{run}/attempts")).text
        assert "hunter22" not in seen
        assert "5up3rs3cr3t" not in seen
    assert (await viewer.get(f"/v1/executions/{runs[0]}")).json()["error"]["message"] == "Authorization: Bearer •••••• was refused"
    assert "hunter22" not in (await viewer.get("/v1/dead-letters")).text


async def test_reasons_are_kept_without_the_credentials_in_them(bench: Bench) -> None:
    job = await bench.job(name="nightly", schedule="@daily")
    admin = bench.client(ADMIN)

    await admin.post(f"/v1/jobs/{job}/pause", json={"reason": "see https://ann:hunter22@wiki.example.com"})
    await admin.post(f"/v1/jobs/{job}/resume", headers={"duly-reason": "token=hunter22"})
    shown = (await admin.get(f"/v1/jobs/{job}")).text + (await admin.get("/v1/audit")).text

    assert "hunter22" not in shown
    assert "token=••••••" in shown


async def test_a_checkpoint_that_is_sent_again_is_the_same_one(bench: Bench) -> None:
    run = await bench.enqueue(await bench.job())
    worker = await register(bench)
    fence = (await post(bench, f"/v1/workers/{worker}/lease")).json()["leaseId"]
    told = {"workerId": worker, "fence": fence}

    first, again, other = [
        await post(bench, f"/v1/executions/{run}/checkpoint", **told, number=1, data=data) for data in ({"row": 1}, {"row": 1}, {"row": 2})
    ]

    assert (first.status_code, again.status_code) == (200, 200)
    assert (other.status_code, other.json()["code"], other.json()["field"]) == (409, "DULY-E226", "number")
    assert (await bench.services.workers._store.checkpoints.saved([parse_execution_id(run)]))[
        parse_execution_id(run)
    ].checkpoint == '{"row":1}'
