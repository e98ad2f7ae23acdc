"""Who owns what, as the API tells it."""

from __future__ import annotations

from dataclasses import replace

import asyncpg
import httpx
import pytest

from duly.domain.instants import SECOND, from_rfc3339
from duly.domain.shards import SHARDS
from duly.http.app import create_api
from duly.ports.presence import LeaseService, StoreAlone
from duly.ports.store import DispatcherAbout
from duly.usecases.cluster import MOST_TABLES, Cluster
from tests.http.conftest import ADMIN, STRANGER, URL, VIEWER, Bench

TTL = 6 * SECOND


class Away(StoreAlone):
    """A service that knows one of the two, or does not answer."""

    def __init__(self, *members: str, trouble: str | None = None) -> None:
        self._state = LeaseService("etcd", trouble is None, members, trouble)

    async def look(self) -> LeaseService:
        return self._state


async def _two(bench: Bench) -> None:
    now = bench.clock.now()
    await bench.store.leases.announce_dispatcher("a:1:x", now, TTL, DispatcherAbout("a", 1, "9.9", 1500))
    await bench.store.leases.announce_dispatcher("b:2:y", now, TTL)
    seen = await bench.store.leases.shards()
    await bench.store.leases.take(seen[:3], "a:1:x", now, TTL)
    await bench.store.leases.take(seen[3:5], "b:2:y", now, TTL)


async def test_dispatchers_and_their_shards_are_shown(bench: Bench, admin: httpx.AsyncClient) -> None:
    await _two(bench)

    found = (await bench.client(VIEWER).get("/v1/cluster")).json()

    assert [
        (one["name"], one["host"], one["pid"], one["shards"], one["clockSkewMs"], one["isPresent"]) for one in found["dispatchers"]
    ] == [
        ("a:1:x", "a", 1, 3, 1.5, None),
        ("b:2:y", "", 0, 2, None, None),
    ]
    assert [shard["shard"] for shard in found["shards"]] == list(range(SHARDS))
    assert found["shards"][4] == {
        "shard": 4,
        "owner": "b:2:y",
        "epoch": 1,
        "leaseUntil": "2026-01-05T12:00:06Z",
        "progressAt": "2026-01-05T12:00:00Z",
    }
    assert (found["shards"][5]["owner"], found["shards"][5]["leaseUntil"]) == (None, None)
    assert found["leaseService"] == {"kind": "store", "isReachable": True, "members": [], "trouble": None}
    assert found["store"]["kind"] == "sqlite"


async def test_who_is_gone_is_no_dispatcher_any_more(bench: Bench, admin: httpx.AsyncClient) -> None:
    await _two(bench)
    bench.clock.turn(TTL)

    assert (await admin.get("/v1/cluster")).json()["dispatchers"] == []


async def test_whom_the_lease_service_knows_is_present_and_one_that_is_away_knows_nothing(bench: Bench) -> None:
    await _two(bench)
    told = []
    for presence in (Away("a:1:x"), Away(trouble="etcd at 10.0.0.7:2379 does not answer")):
        cluster = Cluster(bench.store.leases, bench.store.health, bench.store.conditions, presence, bench.clock, "sqlite")
        api = create_api(replace(bench.services, cluster=cluster))
        client = httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url=URL, headers={"authorization": f"Bearer {VIEWER}"})
        found = (await client.get("/v1/cluster")).json()
        told.append((found["leaseService"]["isReachable"], [one["isPresent"] for one in found["dispatchers"]]))
        await client.aclose()

    assert told == [(True, [True, False]), (False, [None, None])]


async def test_other_tenants_do_not_learn_where_dispatchers_run(bench: Bench) -> None:
    await _two(bench)

    answer = await bench.client(STRANGER).get("/v1/cluster")

    found = answer.json()
    assert [one["name"] for one in found["dispatchers"]] == ["dispatcher-1", "dispatcher-2"]
    assert [shard["owner"] for shard in found["shards"][2:5]] == ["dispatcher-1", "dispatcher-2", "dispatcher-2"]
    assert "a:1:x" not in answer.text
    assert {one["host"] for one in found["dispatchers"]} == {""}


async def test_how_the_store_fares_is_told_to_those_who_run_the_installation_alone(bench: Bench, store_kind: str) -> None:
    found = (await bench.client(ADMIN).get("/v1/cluster/store")).json()

    assert found["bytes"] > 0
    if store_kind == "postgres":
        assert len(found["tables"]) == MOST_TABLES
        assert all(table["rows"] >= 0 and table["deadRows"] >= 0 for table in found["tables"])
        assert any(table["bytes"] > 0 for table in found["tables"])
        assert 0 < found["connections"] <= found["mostConnections"]
        assert found["freeBytes"] is None
    else:
        assert 0 <= found["freeBytes"] < found["bytes"]
        assert (found["connections"], found["oldestTransactionAt"], found["tables"]) == (None, None, [])
    others = (await bench.client(STRANGER).get("/v1/cluster/store")).json()
    assert {name for name, value in others.items() if value not in (None, [])} == {"kind"}
    assert (await bench.client(VIEWER).get("/v1/cluster/store")).status_code == 403


@pytest.mark.parametrize("store_kind", ["postgres"])
async def test_an_open_transaction_of_somebody_is_seen(bench: Bench, request: pytest.FixtureRequest) -> None:
    somebody = await asyncpg.connect(request.getfixturevalue("postgres_store"))
    try:
        async with somebody.transaction():
            began = await somebody.fetchval("SELECT (extract(epoch FROM now()) * 1000000)::bigint")
            told = (await bench.client(ADMIN).get("/v1/cluster/store")).json()["oldestTransactionAt"]
    finally:
        await somebody.close()

    assert from_rfc3339(told) <= began
