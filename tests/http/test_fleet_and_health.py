"""Health without a key, and where the fleet stands with one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import httpx
import pytest

from duly.domain.errors import Unavailable
from duly.domain.instants import HOUR, SECOND
from duly.domain.lifecycle import State
from duly.http import health
from duly.http.app import create_api
from duly.ports.store import WorkerAbout
from duly.usecases import inspect
from tests.http.conftest import STRANGER, Bench


async def test_health_says_ok_and_nothing_else(bench: Bench) -> None:
    client = bench.client(None)

    assert (await client.get("/healthz")).json() == {"status": "ok"}
    assert (await client.get("/readyz")).json() == {"status": "ok"}
    assert (await client.get("/version")).json() == {"version": "1.2.3"}


async def test_a_process_whose_store_is_away_lives_and_is_not_ready(bench: Bench) -> None:
    bench.is_away.append(Unavailable("DULY-E501", "could not connect to 10.0.0.7", retry_after=3))
    client = bench.client(None)
    ready = await client.get("/readyz")

    assert (await client.get("/healthz")).status_code == 200
    assert (ready.status_code, ready.headers["retry-after"], ready.json()["code"]) == (503, "3", "DULY-E501")
    assert "10.0.0.7" not in ready.text


async def test_a_store_that_hangs_is_not_ready_either(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(health, "PATIENCE", 0.0)
    monkeypatch.setattr(type(bench.store.health), "ping", lambda self: hang())

    assert (await bench.client(None).get("/readyz")).status_code == 503


async def test_workers_pools_and_counts(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job()
    await bench.enqueue(job)
    await bench.claim()
    await bench.enqueue(job)
    workers = (await admin.get("/v1/workers")).json()["items"]
    pools = (await admin.get("/v1/pools")).json()["items"]
    stats = (await admin.get("/v1/stats")).json()
    bench.clock.turn(60 * SECOND)
    lost = (await admin.get("/v1/workers")).json()["items"]

    assert [(worker["name"], worker["state"], worker["pool"], worker["slots"]) for worker in workers] == [("w1", "LIVE", "default", 4)]
    assert [(pool["pool"], pool["workers"], pool["slots"], pool["pending"]) for pool in pools] == [("default", 1, 4, 1)]
    assert pools[0]["oldestPendingAt"] == "2026-01-05T12:00:00Z"
    assert stats["jobs"] == {"ACTIVE": 1}
    assert (stats["executions"]["RUNNING"], stats["executions"]["PENDING"], stats["workers"]) == (1, 1, 1)
    assert [worker["state"] for worker in lost] == ["LOST"]
    assert stats["pools"] == pools
    assert stats["lastHour"] == {"from": "2026-01-05T11:00:00Z", "executions": 2, "fires": 0, "ended": {}}


async def test_the_last_hour_is_counted_as_far_as_it_is_looked_at(
    bench: Bench, admin: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await bench.job()
    await bench.enqueue(job)
    bench.clock.turn(2 * HOUR)
    for state in (State.SUCCEEDED, State.DEAD):
        await bench.enqueue(job)
        await bench.finish(await bench.claim(), state=state)
        bench.clock.turn(60 * SECOND)
    whole = (await admin.get("/v1/stats")).json()["lastHour"]
    monkeypatch.setattr(inspect, "LOOKED_AT", 1)
    part = (await admin.get("/v1/stats")).json()["lastHour"]
    strangers = (await bench.client(STRANGER).get("/v1/stats")).json()

    # The first was claimed and ended with the second: it came up before the hour.
    assert whole == {"from": "2026-01-05T13:02:00Z", "executions": 2, "fires": 0, "ended": {"SUCCEEDED": 1, "DEAD": 1}}
    assert part == {"from": "2026-01-05T14:01:00Z", "executions": 1, "fires": 0, "ended": {"DEAD": 1}}
    assert strangers["lastHour"]["executions"] == 0
    assert strangers["executions"]["DEAD"] == 0


async def test_a_tenant_sees_what_serves_it_and_not_what_it_does_for_others(bench: Bench, admin: httpx.AsyncClient) -> None:
    await bench.enqueue(await bench.job())
    await bench.claim()
    about = WorkerAbout(pool="theirs", handlers=["secret.handler"], slots=1, host="their-host", pid=7)
    theirs = await bench.store.liveness.register("private", about, bench.clock.now(), 15 * SECOND, tenant=2)
    shared = WorkerAbout(pool="default", handlers=["duly.echo"], slots=2, host="our-host", pid=8)
    await bench.store.liveness.register("shared", shared, bench.clock.now(), 15 * SECOND)
    strange = bench.client(STRANGER)
    seen = {worker["name"]: worker for worker in (await strange.get("/v1/workers")).json()["items"]}
    ours = {worker["name"]: worker for worker in (await admin.get("/v1/workers")).json()["items"]}
    pools = (await strange.get("/v1/pools")).json()["items"]

    assert seen.keys() == {"w1", "private", "shared"}
    assert (seen["private"]["workerId"], seen["private"]["host"], seen["private"]["pid"]) == (str(theirs), "their-host", 7)
    assert (seen["shared"]["host"], seen["shared"]["pid"], seen["shared"]["slots"]) == ("", 0, 2)
    assert (seen["w1"]["running"], ours["w1"]["running"]) == (0, 1)
    assert ours.keys() == {"w1", "shared"}
    assert ours["shared"]["host"] == "our-host"
    assert [(pool["pool"], pool["pending"], pool["running"]) for pool in pools] == [("default", 0, 0), ("theirs", 0, 0)]


async def test_a_schedule_is_explained(admin: httpx.AsyncClient) -> None:
    body = {"type": "CRON", "schedule": "30 2 * * *", "timezone": "America/New_York", "after": "2026-03-07T12:00:00Z", "count": 2}
    answer = await admin.post("/v1/schedules/preview", json=body)

    assert answer.status_code == 200
    assert [fire["at"] for fire in answer.json()["fires"]] == ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]
    assert answer.json()["fires"][0]["local"] == "2026-03-08T03:00:00-04:00"
    assert "does not exist" in answer.json()["fires"][0]["note"]
    assert answer.json()["words"]


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York", "Pacific/Kiritimati"])
async def test_the_end_of_time_can_be_previewed(admin: httpx.AsyncClient, zone: str) -> None:
    body = {"schedule": "* * * * *", "timezone": zone, "after": "9999-12-31T23:50:00Z", "count": 100}
    answer = await admin.post("/v1/schedules/preview", json=body)

    assert answer.status_code == 200


async def test_the_preview_says_that_a_time_is_over(admin: httpx.AsyncClient) -> None:
    over = (await admin.post("/v1/schedules/preview", json={"runAt": "2026-01-05T11:59:59Z"})).json()
    ahead = (await admin.post("/v1/schedules/preview", json={"runAt": "2026-01-05T12:00:01Z"})).json()
    now = (await admin.post("/v1/schedules/preview", json={"delaySec": 0})).json()

    assert (over["fires"], over["warnings"]) == ([], ["The time lies in the past: a job that is created with it runs at once."])
    assert (len(ahead["fires"]), ahead["warnings"], now["warnings"]) == (1, [], [])


async def test_scaling_tells_the_load_in_plain_numbers(bench: Bench, admin: httpx.AsyncClient) -> None:
    job = await bench.job()
    await bench.enqueue(job)
    await bench.claim()
    for _ in range(9):
        await bench.enqueue(job)
    bench.clock.turn(5 * SECOND)

    load = (await admin.get("/v1/pools/default/scaling", params={"slotsPerWorker": 2, "max": 4})).json()

    assert {name: load[name] for name in ("pool", "pending", "running", "oldestWaitSec", "workers", "slots")} == {
        "pool": "default",
        "pending": 9,
        "running": 1,
        "oldestWaitSec": 5.0,
        "workers": 1,
        "slots": 4,
    }
    # Nothing has ended, so each needs a slot: ten in workers of two, and at most four of those.
    assert load["recommendedReplicas"] == 4
    assert (await admin.get("/v1/pools/default/scaling", params={"slotsPerWorker": 2})).json()["recommendedReplicas"] == 5
    assert (await admin.get("/v1/pools/nobodys/scaling")).json()["recommendedReplicas"] == 0


async def test_scaling_refuses_what_cannot_be_aimed_at(bench: Bench, admin: httpx.AsyncClient) -> None:
    wrong = await admin.get("/v1/pools/default/scaling", params={"min": 3, "max": 2})

    assert (wrong.status_code, wrong.json()["code"]) == (422, "DULY-E106")
    assert (await admin.get("/v1/pools/default/scaling", params={"targetWaitSec": 0})).status_code == 422


async def test_a_stranger_sees_its_own_part_of_the_load(bench: Bench, admin: httpx.AsyncClient) -> None:
    await bench.enqueue(await bench.job())

    assert (await admin.get("/v1/pools/default/scaling")).json()["pending"] == 1
    assert (await bench.client(STRANGER).get("/v1/pools/default/scaling")).json()["pending"] == 0


async def test_metrics_need_a_key_unless_they_are_for_everybody(bench: Bench, admin: httpx.AsyncClient) -> None:
    await bench.enqueue(await bench.job())

    answer = await admin.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'duly_pool_pending{pool="default"} 1\n' in answer.text
    assert (await bench.client(None).get("/metrics")).status_code == 401
    everybody = create_api(replace(bench.services, metrics_public=True))
    assert (await bench.client(None, everybody).get("/metrics")).text == answer.text
    assert (await bench.client(None, everybody).get("/v1/pools")).status_code == 401
