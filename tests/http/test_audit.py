"""The audit trail over HTTP: who may see what, headers, pages, and the chain."""

from __future__ import annotations

import ast
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

import duly
from duly.domain.audit import ACTIONS
from duly.domain.instants import SECOND
from tests.http.conftest import ADMIN, OPERATOR, STRANGER, VIEWER, WORKER, Bench


async def test_the_trail_is_for_administrators_and_of_their_own_tenant(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(name="mine")
    await bench.client(STRANGER).post("/v1/jobs", json={"name": "theirs", "target": {"handler": "duly.echo"}})

    mine, theirs = (await admin.get("/v1/audit")).json(), (await bench.client(STRANGER).get("/v1/audit")).json()
    foreign = (await bench.client(STRANGER).get("/v1/audit", params={"jobId": job})).json()

    assert [item["after"]["name"] for item in mine["items"]] == ["mine"]
    assert [item["after"]["name"] for item in theirs["items"]] == ["theirs"]
    assert foreign == {"items": [], "nextCursor": None}
    for key in (VIEWER, OPERATOR, WORKER):
        for path in ("/v1/audit", "/v1/audit/verify"):
            assert (await bench.client(key).get(path)).status_code == 403


async def test_a_record_on_the_wire(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(name="mail")
    await admin.post(f"/v1/jobs/{job}/pause", headers={"x-request-id": "req-7", "duly-channel": "sdk", "duly-reason": "too loud"})
    await bench.store.audit.link(10)

    (item, made) = (await admin.get("/v1/audit")).json()["items"]

    assert item == {
        "auditId": item["auditId"],
        "seq": 2,
        "at": "2026-01-05T12:00:00Z",
        "actor": item["actor"],
        "role": "ADMIN",
        "channel": "sdk",
        "requestId": "req-7",
        "action": "job.pause",
        "kind": "job",
        "subject": job,
        "jobId": job,
        "reason": "too loud",
        "before": {"state": "ACTIVE"},
        "after": {"state": "PAUSED"},
        "hash": item["hash"],
    }
    assert (made["channel"], made["reason"], made["before"]) == ("api", None, None)
    assert made["requestId"].startswith("req_")


@pytest.mark.parametrize(
    ("header", "value", "code"),
    [
        ("duly-channel", "phone", "DULY-E271"),
        ("duly-channel", "server", "DULY-E271"),
        ("duly-channel", "", "DULY-E271"),
        ("duly-channel", "CLI", "DULY-E271"),
        ("duly-reason", "x" * 501, "DULY-E272"),
        ("duly-reason", "a%00b", "DULY-E272"),
        ("duly-reason", "a%0Ab", "DULY-E272"),
        ("duly-reason", "100%", "DULY-E272"),
        ("duly-reason", "%FF%FE", "DULY-E272"),
        ("duly-reason", quote("é" * 501), "DULY-E272"),
    ],
)
async def test_bad_headers_are_refused_and_nothing_is_done(
    bench: Bench, admin: httpx.AsyncClient, header: str, value: str, code: str
) -> None:
    answer = await admin.post("/v1/jobs", json={"target": {"handler": "duly.echo"}}, headers={header: value})

    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert (await admin.get("/v1/jobs")).json()["items"] == []


@pytest.mark.parametrize("raw", [b"\xe9", "é".encode(), b"a\x01b", b"a\x7fb"])
async def test_a_reason_that_is_not_ascii_is_encoded(bench: Bench, admin: httpx.AsyncClient, raw: bytes) -> None:
    answer = await admin.post("/v1/jobs", json={"target": {"handler": "duly.echo"}}, headers=[(b"duly-reason", raw)])

    assert (answer.status_code, answer.json()["code"]) == (422, "DULY-E272")


@pytest.mark.parametrize("reason", ["plain words", "x" * 500, "é" * 500, "停電 😀 & 100 %", '"quoted" <tag>'])
async def test_a_reason_is_kept_as_it_was_meant(bench: Bench, admin: httpx.AsyncClient, reason: str) -> None:
    answer = await admin.post("/v1/jobs", json={"target": {"handler": "duly.echo"}}, headers={"duly-reason": quote(reason)})

    assert answer.status_code == 201
    assert (await admin.get("/v1/audit")).json()["items"][0]["reason"] == reason


async def test_reading_ignores_the_headers(bench: Bench, admin: httpx.AsyncClient) -> None:
    assert (await admin.get("/v1/jobs", headers={"duly-channel": "phone", "duly-reason": "%"})).status_code == 200


async def test_pages_and_filters(bench: Bench, admin: httpx.AsyncClient) -> None:
    jobs = []
    for nth in range(3):
        jobs.append(await bench.job(name=f"job-{nth}"))
        bench.clock.turn(SECOND)
    run = await bench.enqueue(jobs[1])
    await bench.client(OPERATOR).post(f"/v1/executions/{run}/cancel", headers={"duly-channel": "cli"})

    async def actions(**params: object) -> list[str]:
        answer = await admin.get("/v1/audit", params={name: str(value) for name, value in params.items()})
        assert answer.status_code == 200, answer.text
        return [item["action"] for item in answer.json()["items"]]

    first = (await admin.get("/v1/audit", params={"limit": 2})).json()
    second = (await admin.get("/v1/audit", params={"limit": 2, "cursor": first["nextCursor"]})).json()

    assert [item["action"] for item in first["items"]] == ["execution.cancel", "execution.enqueue"]
    assert [item["subject"] for item in second["items"]] == [jobs[2], jobs[1]]
    assert await actions(jobId=jobs[1]) == ["execution.cancel", "execution.enqueue", "job.create"]
    assert await actions(executionId=run) == ["execution.cancel", "execution.enqueue"]
    assert await actions(subject=jobs[1]) == ["job.create"]
    assert await actions(action="execution") == ["execution.cancel", "execution.enqueue"]
    assert await actions(channel="cli") == ["execution.cancel"]
    assert await actions(since="2026-01-05T12:00:01Z", until="2026-01-05T12:00:02Z") == ["job.create", "job.create"]
    assert await actions(order="oldest", limit=1) == ["job.create"]


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"jobId": "job_1"}, "DULY-E111"),
        ({"executionId": "run_1"}, "DULY-E111"),
        ({"channel": "phone"}, "DULY-E106"),
        ({"order": "upside-down"}, "DULY-E106"),
        ({"since": "yesterday"}, "DULY-E105"),
        ({"since": "1950-01-01T00:00:00Z"}, "DULY-E105"),
        ({"cursor": "x"}, "DULY-E112"),
        ({"limit": "0"}, "DULY-E106"),
        ({"actor": ""}, "DULY-E106"),
        ({"subject": "a", "executionId": "run_" + "0" * 32}, "DULY-E106"),
    ],
)
async def test_a_bad_question_names_its_fault(admin: httpx.AsyncClient, params: dict[str, str], code: str) -> None:
    answer = await admin.get("/v1/audit", params=params)

    assert (answer.status_code, answer.json()["code"]) == (422, code)


async def test_the_chain_is_walked_in_steps_and_compared_with_a_head(bench: Bench, admin: httpx.AsyncClient) -> None:
    for nth in range(3):
        await bench.job(name=f"job-{nth}")
    waiting = (await admin.get("/v1/audit/verify")).json()
    await bench.store.audit.link(10)

    async def verify(**params: object) -> dict[str, object]:
        answer = await admin.get("/v1/audit/verify", params={name: str(value) for name, value in params.items()})
        assert answer.status_code == 200, answer.text
        found: dict[str, object] = answer.json()
        return found

    first = await verify(limit=2)
    second = await verify(cursor=first["nextCursor"])
    head = (await verify())["head"]
    assert isinstance(head, dict)
    kept = f"{head['seq']}:{head['hash']}"
    other = f"3:{'0' * 64}"

    assert (waiting["intact"], waiting["checked"], waiting["waiting"]) == (True, 0, 3)
    assert [(step["intact"], step["checked"], step["waiting"]) for step in (first, second)] == [(True, 2, 0), (True, 1, 0)]
    assert second["nextCursor"] is None
    assert (await verify(expect=kept))["intact"] is True
    assert (await verify(expect=other))["broken"] == {
        "seq": 3,
        "what": "link 3 is not the one that was kept elsewhere",
        "auditId": None,
    }
    assert (await verify(expect=f"4:{'0' * 64}"))["intact"] is False
    for bad in ("3", "3:zz", f"-1:{'0' * 64}", f"{'9' * 19}:{'0' * 64}"):
        assert (await admin.get("/v1/audit/verify", params={"expect": bad})).status_code == 422


async def test_a_key_of_a_server_without_deeds_has_an_empty_trail(bench: Bench) -> None:
    client = bench.client(ADMIN)

    assert (await client.get("/v1/audit")).json() == {"items": [], "nextCursor": None}
    assert (await client.get("/v1/audit/verify")).json() == {
        "intact": True,
        "checked": 0,
        "head": {"seq": 0, "hash": "0" * 64},
        "anchor": {"seq": 0, "hash": "0" * 64, "at": None},
        "waiting": 0,
        "broken": None,
        "nextCursor": None,
    }


async def test_records_say_what_was_so_before_and_after(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(name="j")
    run = await bench.enqueue(job, payload={"secret": 1}, delaySec=60)
    await admin.post(f"/v1/executions/{run}/cancel")
    await admin.post(f"/v1/jobs/{job}/run")
    batch = await bench.batch()
    await admin.post(f"/v1/batches/{batch}/abort")
    key = (await admin.post("/v1/keys", json={"role": "VIEWER", "name": "v"})).json()["keyId"]
    await admin.delete(f"/v1/keys/{key}")
    link = (await admin.post("/v1/links", json={"kind": "badge", "jobId": job})).json()["linkId"]
    await admin.delete(f"/v1/links/{link}")

    items = (await admin.get("/v1/audit", params={"limit": 100})).json()["items"]
    told = {item["action"]: (item["before"], item["after"]) for item in items}

    now = "2026-01-05T12:00:00Z"
    assert told["execution.enqueue"] == (None, {"dueAt": "2026-01-05T12:01:00Z", "payload": "(withheld)"})
    assert told["execution.run"] == (None, {"dueAt": now})
    assert told["execution.cancel"] == ({"state": "SCHEDULED"}, {"cancelAskedAt": now})
    assert told["batch.abort"] == ({"kind": "discard", "total": 0}, {"abortedAt": now})
    assert told["key.revoke"] == ({"role": "VIEWER", "name": "v", "expiresAt": None}, {"revokedAt": now})
    assert told["link.revoke"] == ({"kind": "badge", "jobId": job, "expiresAt": None}, {"revokedAt": now})


async def test_many_that_are_enqueued_are_one_record(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(name="j")
    made = await admin.post(f"/v1/jobs/{job}/executions:batch", json={"executions": [{}] * 7})

    [item] = (await admin.get("/v1/audit", params={"action": "execution"})).json()["items"]

    assert item["after"] == {"count": 7, "first": [one["executionId"] for one in made.json()["items"][:5]]}


async def test_a_test_of_a_channel_leaves_a_record(bench: Bench, admin: httpx.AsyncClient) -> None:
    await admin.put("/v1/alert-channels/ops", json={"kind": "webhook", "url": "https://ops.example.com/hook"})

    await bench.client(OPERATOR).post("/v1/alert-channels/ops/test")

    [item] = (await admin.get("/v1/audit", params={"action": "alert_channel.test"})).json()["items"]
    assert (item["role"], item["subject"], item["after"]) == ("OPERATOR", "ops", {"kind": "webhook"})


@pytest.mark.parametrize("action", ["nonsense", "job.destroy", "job.pause.", "JOB"])
async def test_an_action_that_there_is_not_is_refused(admin: httpx.AsyncClient, action: str) -> None:
    answer = await admin.get("/v1/audit", params={"action": action})

    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, "DULY-E106", "action")


def test_every_action_in_the_sources_is_known() -> None:
    sources = Path(duly.__file__).parent
    found: set[str] = set()
    for path in [*sources.glob("usecases/**/*.py"), *sources.glob("adapters/sql/**/*.py"), *sources.glob("roles/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Deed", "on_job", "on_execution", "on_batch", "_paused"):
                found |= {part.value for part in node.args if isinstance(part, ast.Constant) and "." in str(part.value)}
            if isinstance(node, ast.keyword) and node.arg == "action" and isinstance(node.value, ast.Constant):
                found.add(str(node.value.value))

    assert found <= ACTIONS
    # The rest is named in tables and conditions.
    rest = {"execution.enqueue", "execution.run", "execution.replay", "execution.backfill", "execution.pause", "execution.resume"}
    assert ACTIONS - found <= rest | {f"execution.{verb}" for verb in ("cancel", "retry", "discard")}
