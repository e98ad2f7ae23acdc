"""Executions over HTTP: enqueued, followed, cancelled, replayed."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from duly.domain.access import Role
from duly.domain.execution import Claimed, WorkerId
from duly.domain.instants import SECOND
from duly.domain.lifecycle import State
from duly.domain.signature import Takes
from duly.ports.store import WorkerAbout
from tests.http.conftest import ADMIN, START, STRANGER, VIEWER, Bench, key_row


async def test_an_enqueue_is_acknowledged_and_shown(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(name="mail")
    now = await admin.post(f"/v1/jobs/{job}/executions", json={"payload": {"to": "a"}})
    bare = await admin.post(f"/v1/jobs/{job}/executions")
    later = await admin.post(f"/v1/jobs/{job}/executions", json={"delaySec": 90.5, "priority": "HIGH"})
    at = await admin.post(f"/v1/jobs/{job}/executions", json={"runAt": "2026-02-01T09:00:00+01:00"})
    shown = await admin.get(now.headers["location"])

    assert [answer.status_code for answer in (now, bare, later, at)] == [201] * 4
    assert now.json() == {
        "executionId": shown.json()["executionId"],
        "jobId": job,
        "state": "PENDING",
        "scheduledAt": "2026-01-05T12:00:00Z",
        "duplicate": False,
    }
    assert (later.json()["state"], later.json()["scheduledAt"]) == ("SCHEDULED", "2026-01-05T12:01:30.500000Z")
    assert at.json()["scheduledAt"] == "2026-02-01T08:00:00Z"
    assert shown.json()["payload"] == {"to": "a"}
    assert (shown.json()["trigger"], shown.json()["jobName"], shown.json()["state"]) == ("enqueue", "mail", "PENDING")


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"runAt": "2026-02-01T09:00:00Z", "delaySec": 1}, "DULY-E106", "delaySec"),
        ({"delaySec": -1}, "DULY-E106", "delaySec"),
        ({"runAt": "1969-12-31T23:59:59Z"}, "DULY-E105", "runAt"),
        ({"runAt": "0001-01-01T00:00:00+23:59"}, "DULY-E105", "runAt"),
        ({"runAt": "9999-12-31T23:59:59-23:59"}, "DULY-E105", "runAt"),
        ({"runAt": "2026-02-30T00:00:00Z"}, "DULY-E105", "runAt"),
        ({"priority": "URGENT"}, "DULY-E106", "priority"),
        ({"payloads": 1}, "DULY-E106", "payloads"),
    ],
)
async def test_a_bad_enqueue_names_its_field(bench: Bench, admin: httpx.AsyncClient, body: dict[str, Any], code: str, field: str) -> None:
    path = f"/v1/jobs/{await bench.job()}/executions"
    alone = await admin.post(path, json=body)
    together = await admin.post(f"{path}:batch", json={"executions": [{}, body]})

    assert (alone.status_code, alone.json()["code"], alone.json()["field"]) == (422, code, field)
    assert (together.json()["code"], together.json()["field"]) == (code, f"executions[1].{field}")
    assert (await admin.get("/v1/executions")).json()["items"] == []


async def test_many_are_enqueued_in_order(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job()
    answer = await admin.post(f"/v1/jobs/{job}/executions:batch", json={"executions": [{"payload": n} for n in range(500)]})
    ids = [item["executionId"] for item in answer.json()["items"]]
    first = await admin.get(f"/v1/jobs/{job}/executions", params={"limit": 200})
    second = await admin.get(f"/v1/jobs/{job}/executions", params={"limit": 200, "cursor": first.json()["nextCursor"]})

    assert answer.status_code == 201
    assert ids == sorted(ids)
    assert len(set(ids)) == 500
    assert [item["payload"] for item in first.json()["items"] + second.json()["items"]] == list(range(499, 99, -1))


async def test_the_same_key_gives_the_same_execution_wherever_it_stands(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job()
    paths = [f"/v1/jobs/{job}/executions", f"/v1/jobs/{job}/run"]
    for path in paths:
        first = await admin.post(path, json={"payload": 1}, headers={"idempotency-key": path})
        bench.clock.turn(SECOND)
        again = await admin.post(path, json={"payload": 1}, headers={"idempotency-key": path})
        other = await admin.post(path, json={"payload": 2}, headers={"idempotency-key": path})
        assert first.json() == again.json()
        assert (other.status_code, other.json()["code"]) == (409, "DULY-E207")
    await bench.finish(await bench.claim())
    done = await admin.post(paths[0], json={"payload": 1}, headers={"idempotency-key": paths[0]})

    assert len((await admin.get("/v1/executions")).json()["items"]) == 2
    assert done.json()["state"] == "SUCCEEDED"


async def test_a_job_is_run_now_by_hand(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(schedule="0 3 * * *")
    own = await admin.post(f"/v1/jobs/{job}/run")
    other = await admin.post(f"/v1/jobs/{job}/run", json={"payload": None, "priority": "CRITICAL"})
    refused = await admin.post(f"/v1/jobs/{job}/run", json={"delaySec": 1})

    assert (own.status_code, other.status_code, refused.status_code) == (201, 201, 422)
    assert (await admin.get(own.headers["location"])).json()["trigger"] == "manual"
    assert (await admin.get(other.headers["location"])).json()["trigger"] == "manual"


async def test_a_payload_that_no_worker_would_take_is_refused_where_it_comes_in(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job(target={"handler": "shop.mail"})
    of_its_own = await bench.job(target={"handler": "shop.mail"}, payload={"user_id": 1})
    paths = [f"/v1/jobs/{job}/executions", f"/v1/jobs/{job}/run"]
    wrong: dict[str, Any] = {"payload": {"usr_id": 7}}

    async def answers(body: dict[str, Any]) -> list[int]:
        """One after the other, and many at once."""
        found = [(await admin.post(path, json=body)).status_code for path in paths]
        return [*found, (await admin.post(f"{paths[0]}:batch", json={"executions": [{"payload": {"user_id": 1}}, body]})).status_code]

    async def hire(takes: dict[str, Takes], **fields: Any) -> WorkerId:
        about = WorkerAbout(**{"pool": "default", "handlers": ["shop.mail"], "takes": takes} | fields)
        return await bench.store.liveness.register("w", about, bench.clock.now(), 60 * SECOND)

    assert await answers(wrong) == [201, 201, 201]  # nobody is there who could say
    await hire({"shop.mail": Takes(("user_id", "region"), ("user_id",))})
    await hire({"shop.mail": Takes(("usr_id",))}, pool="other")
    bench.clock.turn(11 * SECOND)
    refused = await admin.post(paths[1], json=wrong)
    problem = refused.json()

    assert (refused.status_code, problem["code"]) == (422, "DULY-E117")
    assert (problem["field"], problem["detail"]) == ("payload.usr_id", "shop.mail has no argument 'usr_id'.")
    assert problem["hint"] == "Did you mean user_id? It takes user_id, region (optional)."
    assert await answers(wrong) == await answers({"payload": {}}) == await answers({"payload": [1]}) == await answers({}) == [422, 422, 422]
    assert await answers({"payload": {"user_id": "of any type"}}) == [201, 201, 201]
    assert (await admin.post(f"/v1/jobs/{of_its_own}/run")).status_code == 201
    # A newer one takes it: known at once, though what was known of the others is not old.
    second = await hire({"shop.mail": Takes(("usr_id",))})
    assert await answers(wrong) == [201, 201, 201]
    await bench.store.liveness.retire(second, bench.clock.now())
    bench.clock.turn(11 * SECOND)
    assert await answers(wrong) == [422, 422, 422]
    # One that does not say what it takes may take it.
    await hire({})
    assert await answers(wrong) == [201, 201, 201]


async def test_a_replay_with_another_payload_is_held_to_the_same(bench: Bench, admin: httpx.AsyncClient) -> None:
    run = await bench.enqueue(await bench.job(), payload={"m": 1})
    await bench.finish(await bench.claim())
    await bench.store.liveness.retire(bench.worker, bench.clock.now())
    about = WorkerAbout(pool="default", handlers=["duly.echo"], takes={"duly.echo": Takes(("n",))})
    await bench.store.liveness.register("w2", about, bench.clock.now(), 60 * SECOND)
    bench.clock.turn(11 * SECOND)
    path = f"/v1/executions/{run}/replay"

    refused = await admin.post(path, json={"payload": {"m": 2}})
    other = await admin.post(path, json={"payload": {"n": 2}})
    as_it_was = await admin.post(path)

    assert (refused.status_code, refused.json()["code"]) == (422, "DULY-E117")
    assert (other.status_code, as_it_was.status_code) == (201, 201)


async def test_a_waiting_execution_is_cancelled_at_once_and_a_running_one_soon(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job()
    waiting, running = await bench.enqueue(job, delaySec=60), await bench.enqueue(job)
    claimed = await bench.claim()
    at_once = await admin.post(f"/v1/executions/{waiting}/cancel")
    twice = await admin.post(f"/v1/executions/{waiting}/cancel")
    soon = await admin.post(f"/v1/executions/{running}/cancel", json={})
    await bench.finish(claimed)
    late = await admin.post(f"/v1/executions/{running}/cancel")

    assert (at_once.status_code, at_once.json()["state"]) == (200, "CANCELLED")
    assert (twice.status_code, twice.json()["state"]) == (200, "CANCELLED")
    assert (soon.status_code, soon.json()["state"]) == (202, "RUNNING")
    assert bench.hints.cancels == 1
    assert soon.json()["cancelAskedAt"] is not None
    assert (late.status_code, late.json()["code"]) == (409, "DULY-E211")


async def test_a_final_execution_is_replayed(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job()
    run = await bench.enqueue(job, payload={"n": 1})
    early = await admin.post(f"/v1/executions/{run}/replay")
    await bench.finish(await bench.claim(), result='{"rows":12345678901234567890123}')
    same = await admin.post(f"/v1/executions/{run}/replay", headers={"idempotency-key": "r"})
    again = await admin.post(f"/v1/executions/{run}/replay", headers={"idempotency-key": "r"})
    other = await admin.post(f"/v1/executions/{run}/replay", json={"payload": {"n": 2}})
    past = (await admin.get(f"/v1/executions/{run}")).json()

    assert (early.status_code, early.json()["code"]) == (409, "DULY-E212")
    assert (past["state"], past["result"]) == ("SUCCEEDED", {"rows": 12345678901234567890123})
    assert same.status_code == 201
    assert same.json() == again.json()
    shown = [(await admin.get(answer.headers["location"])).json() for answer in (same, other)]
    assert [(item["trigger"], item["payload"]) for item in shown] == [("replay", {"n": 1}), ("replay", {"n": 2})]


async def test_attempts_and_errors_are_shown(bench: Bench, admin: httpx.AsyncClient) -> None:
    run = await bench.enqueue(await bench.job())
    await bench.finish(await bench.claim(), state=State.DEAD, error='{"type": "ValueError", "message": "no"}')
    answer = await admin.get(f"/v1/executions/{run}/attempts")
    shown = await admin.get(f"/v1/executions/{run}")

    assert [(item["attempt"], item["outcome"]) for item in answer.json()["items"]] == [(1, "FAILED")]
    assert shown.json()["error"] == {"type": "ValueError", "message": "no"}


@pytest.mark.parametrize(
    ("query", "count"), [("", 3), ("state=PENDING", 1), ("state=RUNNING", 1), ("state=SCHEDULED", 1), ("state=DEAD", 0), ("limit=1", 1)]
)
async def test_executions_are_filtered(bench: Bench, admin: httpx.AsyncClient, query: str, count: int) -> None:
    job, other = await bench.job(), await bench.job()
    await bench.enqueue(job)
    await bench.claim()
    await bench.enqueue(job)
    await bench.enqueue(job, delaySec=5)

    everywhere = await admin.get(f"/v1/executions?{query}")
    here = await admin.get(f"/v1/jobs/{job}/executions?{query}")
    by_id = await admin.get(f"/v1/executions?{query}&jobId={job}".replace("?&", "?"))
    elsewhere = await admin.get(f"/v1/executions?jobId={other}")
    foreign = await bench.client(STRANGER).get(f"/v1/executions?jobId={job}")

    assert len(everywhere.json()["items"]) == count
    assert everywhere.json()["items"] == here.json()["items"] == by_id.json()["items"]
    assert elsewhere.json()["items"] == foreign.json()["items"] == []


async def logged(bench: Bench) -> tuple[str, Claimed]:
    run = await bench.enqueue(await bench.job())
    claimed = await bench.claim()
    await bench.log(claimed, "one", "two", "three")
    return run, claimed


async def test_log_lines_come_in_pages(bench: Bench, admin: httpx.AsyncClient) -> None:
    run, _ = await logged(bench)
    first = await admin.get(f"/v1/executions/{run}/logs?limit=2")
    rest = await admin.get(f"/v1/executions/{run}/logs", params={"cursor": first.json()["nextCursor"]})
    none = await admin.get(f"/v1/executions/{run}/logs?attempt=2")

    assert [line["message"] for line in first.json()["items"]] == ["one", "two"]
    assert [line["message"] for line in rest.json()["items"]] == ["three"]
    assert rest.json()["nextCursor"] is None
    assert rest.json()["items"][0] == {"at": "2026-01-05T12:00:00Z", "attempt": 1, "level": "INFO", "message": "three", "fields": {"n": 1}}
    assert none.json()["items"] == []


async def test_a_tail_ends_when_the_execution_is_final_and_all_is_sent(bench: Bench, admin: httpx.AsyncClient) -> None:
    run, claimed = await logged(bench)
    steps = iter([bench.log(claimed, "four\nand a half"), bench.finish(claimed)])

    async def sleep(seconds: float) -> None:
        await next(steps)

    bench.api._sleep = sleep
    answer = await admin.get(f"/v1/executions/{run}/logs", headers={"accept": "text/event-stream"})
    events = [event for event in answer.text.split("\n\n") if event]

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [event.splitlines()[1] for event in events[:-1]] == ["event: log"] * 4
    assert "four\\nand a half" in events[3]
    assert events[-1] == 'event: end\ndata: {"state":"SUCCEEDED"}'


async def test_a_tail_goes_on_where_it_was_cut(bench: Bench, admin: httpx.AsyncClient) -> None:
    run, claimed = await logged(bench)
    await bench.finish(claimed)
    whole = await admin.get(f"/v1/executions/{run}/logs", headers={"accept": "text/event-stream"})
    second = whole.text.split("\n\n")[1].splitlines()[0].removeprefix("id: ")
    rest = await admin.get(f"/v1/executions/{run}/logs", headers={"accept": "text/event-stream", "last-event-id": second})
    bad = await admin.get(f"/v1/executions/{run}/logs", headers={"accept": "text/event-stream", "last-event-id": "x"})

    assert whole.text.endswith(rest.text)
    assert rest.text.count("event: log") == 1
    assert (bad.status_code, bad.json()["code"]) == (422, "DULY-E112")


async def test_a_tail_of_what_is_not_there_is_refused(bench: Bench) -> None:
    run, _ = await logged(bench)
    headers = {"accept": "text/event-stream"}

    assert (await bench.client(STRANGER).get(f"/v1/executions/{run}/logs", headers=headers)).status_code == 404
    assert (await bench.client(None).get(f"/v1/executions/{run}/logs", headers=headers)).status_code == 401


async def test_open_tails_end_at_shutdown(bench: Bench, admin: httpx.AsyncClient) -> None:
    run, _ = await logged(bench)
    asleep = asyncio.Event()

    async def sleep(seconds: float) -> None:
        asleep.set()
        await asyncio.Event().wait()

    bench.api._sleep = sleep
    tail = asyncio.create_task(admin.get(f"/v1/executions/{run}/logs", headers={"accept": "text/event-stream"}))
    await asleep.wait()
    bench.api.close()
    answer = await tail

    assert answer.text.count("event: log") == 3
    assert "event: end" not in answer.text


async def test_a_tail_ends_when_its_key_is_revoked(bench: Bench) -> None:
    run, _ = await logged(bench)
    secret = "duly_short_lived_key"
    await bench.store.keys.add_key(key_row(secret, Role.VIEWER, tenant=1, expires_at=bench.clock.now() + 10 * SECOND))

    async def sleep(seconds: float) -> None:
        bench.clock.turn(round(seconds * SECOND))

    bench.api._sleep = sleep
    answer = await bench.client(secret).get(f"/v1/executions/{run}/logs", headers={"accept": "text/event-stream"})

    assert answer.status_code == 200
    assert "event: end" not in answer.text
    assert bench.clock.now() - START <= 14 * SECOND


async def test_a_viewer_reads_and_does_not_run(bench: Bench) -> None:
    job = await bench.job()
    viewer = bench.client(VIEWER)

    assert (await viewer.get("/v1/executions")).status_code == 200
    assert (await viewer.post(f"/v1/jobs/{job}/run")).status_code == 403
    assert (await bench.client(ADMIN).get("/v1/executions")).json()["items"] == []
