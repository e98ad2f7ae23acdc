"""Health without a key, and where the fleet stands with one."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from duly.domain.errors import Unavailable
from duly.domain.instants import SECOND
from duly.http import health
from tests.http.conftest import Bench


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
