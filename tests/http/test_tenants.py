"""Tenants over the API: who sees and changes what, and what quotas refuse."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from duly.domain.fairness import Ask
from duly.domain.ids import parse_job_id
from duly.domain.instants import SECOND
from duly.ports.store import WorkerAbout
from tests.http.conftest import ADMIN, OPERATOR, STRANGER, VIEWER, WORKER, Bench

NOTHING = {
    "maxJobs": None,
    "maxQueued": None,
    "maxConcurrent": None,
    "maxFiresPerMinute": None,
    "maxPayloadBytes": None,
    "retentionDays": None,
}
JOB = {"target": {"handler": "duly.echo"}}


async def tenant(bench: Bench, name: str = "acme", **quotas: int) -> httpx.AsyncClient:
    """A new tenant with these quotas, as its first key sees the API."""
    answer = await bench.client(ADMIN).post("/v1/tenants", json={"name": name, "quotas": quotas})
    assert answer.status_code == 201, answer.text
    return bench.client(answer.json()["key"]["secret"])


async def job_of(client: httpx.AsyncClient, **fields: Any) -> str:
    answer = await client.post("/v1/jobs", json=JOB | fields)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["jobId"])


def refusal(answer: httpx.Response) -> tuple[int, str, int]:
    """Status, code, and the seconds after which it may be tried again."""
    document = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert document["hint"]
    return answer.status_code, document["code"], int(answer.headers["retry-after"])


def never(answer: httpx.Response) -> tuple[int, str, str]:
    """Status, code and quota of what could never fit: waiting would not help, so nobody is told to."""
    assert "retry-after" not in answer.headers
    return answer.status_code, answer.json()["code"], answer.json()["field"]


class TestWhoSeesWhat:
    async def test_a_tenant_is_made_with_a_key_that_works(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        made = await admin.post("/v1/tenants", json={"name": "acme", "weight": 200, "quotas": {"maxJobs": 3}})

        assert (made.status_code, made.headers["etag"]) == (201, '"v1"')
        shown = made.json()
        assert (shown["name"], shown["weight"], shown["quotas"]) == ("acme", 200, NOTHING | {"maxJobs": 3})
        assert (shown["key"]["role"], shown["key"]["tenant"]) == ("ADMIN", "acme")
        theirs = bench.client(shown["key"]["secret"])
        await job_of(theirs, name="theirs")
        assert (await admin.get("/v1/jobs")).json()["items"] == []
        assert [item["name"] for item in (await theirs.get("/v1/jobs")).json()["items"]] == ["theirs"]
        assert shown["key"]["secret"] not in (await admin.get("/v1/tenants/acme")).text

    async def test_a_name_that_is_taken_makes_nothing(self, admin: httpx.AsyncClient) -> None:
        again = await admin.post("/v1/tenants", json={"name": "strangers"})

        assert (again.status_code, again.json()["code"]) == (409, "DULY-E261")

    async def test_the_installation_sees_all_and_everybody_else_sees_his_own(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        await tenant(bench)

        seen = {key: (await bench.client(key).get("/v1/tenants")).json()["items"] for key in (ADMIN, VIEWER, OPERATOR, STRANGER)}

        assert [item["name"] for item in seen[ADMIN]] == ["acme", "default", "strangers"]
        assert [[item["name"] for item in seen[key]] for key in (VIEWER, OPERATOR)] == [["default"], ["default"]]
        assert [item["name"] for item in seen[STRANGER]] == ["strangers"]

    async def test_the_list_has_pages(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        for name in ("b", "c", "a"):
            await tenant(bench, name)

        first = (await admin.get("/v1/tenants?limit=3")).json()
        rest = (await admin.get(f"/v1/tenants?limit=3&cursor={first['nextCursor']}")).json()

        assert [item["name"] for item in (*first["items"], *rest["items"])] == ["a", "b", "c", "default", "strangers"]
        assert rest["nextCursor"] is None
        assert (await bench.client(STRANGER).get("/v1/tenants?cursor=a")).json()["items"] == []

    @pytest.mark.parametrize("key", [VIEWER, OPERATOR, STRANGER])
    @pytest.mark.parametrize("name", ["acme", "nobody"])
    async def test_a_foreign_tenant_is_as_unknown_as_none(self, bench: Bench, key: str, name: str) -> None:
        await tenant(bench)

        answer = await bench.client(key).get(f"/v1/tenants/{name}")

        assert (answer.status_code, answer.json()["code"]) == (404, "DULY-E262")

    @pytest.mark.parametrize("name", ["default", "acme", "nobody"])
    async def test_a_foreign_tenant_is_not_changed_and_gets_no_keys(self, bench: Bench, name: str) -> None:
        await tenant(bench)
        stranger = bench.client(STRANGER)

        changed = await stranger.put(f"/v1/tenants/{name}", json={"weight": 1})
        key = await stranger.post(f"/v1/tenants/{name}/keys", json={"role": "ADMIN", "name": "mine"})

        assert [(answer.status_code, answer.json()["code"]) for answer in (changed, key)] == [(404, "DULY-E262")] * 2

    async def test_nobody_widens_his_own_quotas_or_makes_tenants(self, bench: Bench) -> None:
        stranger = bench.client(STRANGER)

        own = await stranger.put("/v1/tenants/strangers", json={"weight": 1_000})
        new = await stranger.post("/v1/tenants", json={"name": "more"})

        assert [(answer.status_code, answer.json()["code"]) for answer in (own, new)] == [(403, "DULY-E263")] * 2
        assert (await bench.client(ADMIN).get("/v1/tenants/more")).status_code == 404

    @pytest.mark.parametrize(("key", "status"), [(VIEWER, 403), (OPERATOR, 403), (WORKER, 403), (None, 401)])
    async def test_lower_roles_change_nothing(self, bench: Bench, key: str | None, status: int) -> None:
        client = bench.client(key)

        answers = [
            await client.post("/v1/tenants", json={"name": "more"}),
            await client.put("/v1/tenants/default", json={"weight": 1}),
            await client.post("/v1/tenants/default/keys", json={"role": "ADMIN", "name": "mine"}),
        ]

        assert [answer.status_code for answer in answers] == [status] * 3

    async def test_a_key_for_a_tenant_that_has_lost_its_own(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        await tenant(bench)

        made = await admin.post("/v1/tenants/acme/keys", json={"role": "VIEWER", "name": "lost and found"})

        assert (made.status_code, made.json()["tenant"], made.json()["role"]) == (201, "acme", "VIEWER")
        theirs = bench.client(made.json()["secret"])
        assert [item["name"] for item in (await theirs.get("/v1/tenants")).json()["items"]] == ["acme"]


class TestChanges:
    async def test_what_is_left_out_stays_and_quotas_are_replaced_as_a_whole(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        await tenant(bench, maxJobs=3, maxQueued=5)

        heavier = await admin.put("/v1/tenants/acme", json={"weight": 500})
        other = await admin.put("/v1/tenants/acme", json={"quotas": {"maxQueued": 7}})

        assert (heavier.json()["weight"], heavier.json()["quotas"]) == (500, NOTHING | {"maxJobs": 3, "maxQueued": 5})
        assert (other.json()["weight"], other.json()["quotas"]) == (500, NOTHING | {"maxQueued": 7})
        assert other.headers["etag"] == '"v3"'

    async def test_a_stale_etag_changes_nothing(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        await tenant(bench)
        await admin.put("/v1/tenants/acme", json={"weight": 5})

        stale = await admin.put("/v1/tenants/acme", json={"weight": 6}, headers={"If-Match": '"v1"'})

        assert (stale.status_code, stale.json()["code"]) == (412, "DULY-E209")
        assert (await admin.get("/v1/tenants/acme")).json()["weight"] == 5

    @pytest.mark.parametrize(
        "body",
        [
            {"weight": 0},
            {"weight": 1_000_001},
            {"quotas": {"maxJobs": -1}},
            {"quotas": {"maxConcurrent": 0}},
            {"quotas": {"maxConcurrent": 1.5}},
            {"quotas": {"maxFiresPerMinute": 100_001}},
            {"quotas": {"maxPayloadBytes": 262_145}},
            {"quotas": {"retentionDays": 0}},
            {"quotas": {"maxTables": 1}},
            {"name": "other"},
        ],
    )
    async def test_what_cannot_be_is_refused(self, bench: Bench, admin: httpx.AsyncClient, body: dict[str, Any]) -> None:
        await tenant(bench)

        answer = await admin.put("/v1/tenants/acme", json=body)

        assert answer.status_code == 422
        assert (await admin.get("/v1/tenants/acme")).headers["etag"] == '"v1"'

    @pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "ü", "a" * 65, ".."])
    async def test_a_name_must_stand_in_a_path(self, admin: httpx.AsyncClient, name: str) -> None:
        assert (await admin.post("/v1/tenants", json={"name": name})).status_code == 422


class TestQuotas:
    async def test_jobs(self, bench: Bench) -> None:
        acme = await tenant(bench, maxJobs=2)
        first = await job_of(acme)
        await job_of(acme)

        past = await acme.post("/v1/jobs", json=JOB)
        batch = await acme.post("/v1/jobs:batch", json={"jobs": [JOB] * 3})

        assert refusal(past) == (429, "DULY-E401", 60)
        assert never(batch) == (413, "DULY-E406", "maxJobs")
        assert len((await acme.get("/v1/jobs")).json()["items"]) == 2
        assert (await acme.delete(f"/v1/jobs/{first}")).status_code == 200
        bench.clock.turn(SECOND)
        await job_of(acme)

    async def test_a_job_that_is_over_counts_no_more_and_comes_back_only_within_the_quota(self, bench: Bench) -> None:
        acme = await tenant(bench, maxJobs=1)
        once = JOB | {"name": "once", "runAt": "2026-01-05T12:00:01Z"}
        made = (await acme.post("/v1/jobs", json=once)).json()["jobId"]
        bench.clock.turn(2 * SECOND)
        await bench.services.jobs._overdue.settle(await _job(bench, made), bench.clock.now(), lambda: _job(bench, made))
        assert (await acme.get(f"/v1/jobs/{made}")).json()["state"] == "COMPLETED"
        await job_of(acme)

        back = await acme.put(f"/v1/jobs/{made}", json=once | {"runAt": "2026-01-06T12:00:00Z"})

        assert refusal(back)[:2] == (429, "DULY-E401")

    async def test_queued_and_a_batch_is_refused_whole(self, bench: Bench) -> None:
        acme = await tenant(bench, maxQueued=3)
        job = await job_of(acme)
        ok = await acme.post(f"/v1/jobs/{job}/executions:batch", json={"executions": [{}, {"delaySec": 60}]})

        past = await acme.post(f"/v1/jobs/{job}/executions:batch", json={"executions": [{}, {}]})

        assert ok.status_code == 201
        assert refusal(past) == (429, "DULY-E402", 1)
        assert (await acme.post(f"/v1/jobs/{job}/executions", json={})).status_code == 201
        assert refusal(await acme.post(f"/v1/jobs/{job}/run", json={})) == (429, "DULY-E402", 1)
        assert len((await acme.get("/v1/executions")).json()["items"]) == 3

    async def test_what_has_started_makes_room(self, bench: Bench) -> None:
        acme = await tenant(bench, maxQueued=1)
        job = await job_of(acme)
        await acme.post(f"/v1/jobs/{job}/executions", json={})
        number = (await bench.store.tenants.named("acme")).number  # type: ignore[union-attr]
        assert refusal(await acme.post(f"/v1/jobs/{job}/executions", json={}))[0] == 429

        await claim(bench, number)

        bench.clock.turn(SECOND)
        assert (await acme.post(f"/v1/jobs/{job}/executions", json={})).status_code == 201

    async def test_a_refused_idempotency_key_is_not_used_up(self, bench: Bench) -> None:
        acme = await tenant(bench, maxQueued=1)
        job = await job_of(acme)
        first = await acme.post(f"/v1/jobs/{job}/executions", json={}, headers={"Idempotency-Key": "a"})
        refused = await acme.post(f"/v1/jobs/{job}/executions", json={}, headers={"Idempotency-Key": "b"})
        again = await acme.post(f"/v1/jobs/{job}/executions", json={}, headers={"Idempotency-Key": "a"})

        assert refusal(refused)[:2] == (429, "DULY-E402")
        assert again.json()["executionId"] == first.json()["executionId"]
        await acme.post(f"/v1/executions/{first.json()['executionId']}/cancel")
        bench.clock.turn(SECOND)
        assert (await acme.post(f"/v1/jobs/{job}/executions", json={}, headers={"Idempotency-Key": "b"})).status_code == 201

    async def test_fires_per_minute_and_the_wait_is_true(self, bench: Bench) -> None:
        acme = await tenant(bench, maxFiresPerMinute=2)
        job = await job_of(acme)
        for _ in range(2):
            assert (await acme.post(f"/v1/jobs/{job}/executions", json={})).status_code == 201
            bench.clock.turn(10 * SECOND)

        status, code, wait = refusal(await acme.post(f"/v1/jobs/{job}/executions", json={}))

        assert (status, code, wait) == (429, "DULY-E403", 41)
        bench.clock.turn((wait - 1) * SECOND)
        assert refusal(await acme.post(f"/v1/jobs/{job}/executions", json={})) == (429, "DULY-E403", 1)
        bench.clock.turn(SECOND)
        assert (await acme.post(f"/v1/jobs/{job}/executions", json={})).status_code == 201

    async def test_a_payload_for_many_at_once_is_refused_before_anything_is_done(self, bench: Bench) -> None:
        acme = await tenant(bench, maxPayloadBytes=16)
        job = await job_of(acme, intervalSec=60, anchorAt="2026-01-05T00:00:00Z")
        span = {"from": "2026-01-05T11:00:00Z", "to": "2026-01-05T11:10:00Z"}
        large = {"payload": {"text": "x" * 20}}

        bulk = await acme.post("/v1/executions:bulk", json={"action": "replay", "everything": True, **large})
        backfill = await acme.post(f"/v1/jobs/{job}/backfill", json=span | large)
        recorded = (await acme.get("/v1/audit", params={"action": "batch"})).json()["items"]

        assert [(answer.status_code, answer.json()["code"]) for answer in (bulk, backfill)] == [(413, "DULY-E404")] * 2
        assert recorded == []

    async def test_payloads_of_jobs_and_of_executions(self, bench: Bench) -> None:
        acme = await tenant(bench, maxPayloadBytes=20)
        job = await job_of(acme, payload={"fits": 1})
        large = {"payload": {"text": "x" * 20}}

        answers = [
            await acme.post("/v1/jobs", json=JOB | large),
            await acme.put(f"/v1/jobs/{job}", json=JOB | large),
            await acme.post(f"/v1/jobs/{job}/executions", json=large),
            await acme.post(f"/v1/jobs/{job}/executions:batch", json={"executions": [{}, large]}),
            await acme.post(f"/v1/jobs/{job}/run", json=large),
        ]

        assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(413, "DULY-E404")] * 5
        assert (await acme.get("/v1/executions")).json()["items"] == []
        assert (await bench.client(ADMIN).post("/v1/jobs", json=JOB | large)).status_code == 201

    async def test_payloads_of_steps_and_bodies_of_webhooks(self, bench: Bench) -> None:
        acme = await tenant(bench, maxPayloadBytes=20)
        job = await job_of(acme)
        large = {"text": "x" * 20}
        hook = {"http": {"url": "https://example.com/hook", "body": large}}
        small = {"name": "a", **JOB}
        bodies = [
            {"steps": [small, {"name": "b", **JOB, "payload": large}]},
            {"steps": [small, {"name": "b", "target": hook}]},
            {"target": hook},
        ]

        answers = [await acme.post("/v1/jobs", json=body) for body in bodies]
        answers += [await acme.put(f"/v1/jobs/{job}", json=body) for body in bodies]
        answers += [await acme.post("/v1/jobs:batch", json={"jobs": [JOB, body]}) for body in bodies]

        assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(413, "DULY-E404")] * 9
        assert [answer.json()["field"] for answer in answers[:3]] == ["steps[1].payload", "steps[1].target.http.body", "target.http.body"]
        [left] = (await acme.get("/v1/jobs")).json()["items"]
        assert (left["jobId"], left["version"]) == (job, 1)

    async def test_a_quota_holds_at_once_where_it_is_set(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        acme = await tenant(bench)
        job = await job_of(acme)

        await admin.put("/v1/tenants/acme", json={"quotas": {"maxQueued": 0}})

        assert never(await acme.post(f"/v1/jobs/{job}/executions", json={})) == (413, "DULY-E406", "maxQueued")

    @pytest.mark.parametrize(("quota", "count"), [("maxQueued", 3), ("maxFiresPerMinute", 3)])
    async def test_what_never_fits_is_not_told_to_wait(self, bench: Bench, quota: str, count: int) -> None:
        acme = await tenant(bench, **{quota: count - 1})
        job = await job_of(acme)
        many = {"executions": [{}] * count}

        plain = await acme.post(f"/v1/jobs/{job}/executions:batch", json=many)
        once = await acme.post(f"/v1/jobs/{job}/executions:batch", json=many, headers={"Idempotency-Key": "a"})

        assert never(plain) == never(once) == (413, "DULY-E406", quota)
        assert (await acme.get("/v1/executions")).json()["items"] == []
        fits = await acme.post(
            f"/v1/jobs/{job}/executions:batch", json={"executions": [{}] * (count - 1)}, headers={"Idempotency-Key": "b"}
        )
        assert fits.status_code == 201

    async def test_one_tenants_quota_is_no_others(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        await tenant(bench, maxQueued=0, maxJobs=0)

        await bench.enqueue(await bench.job())

    async def test_usage_stands_beside_the_quotas(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        acme = await tenant(bench, maxJobs=5, maxQueued=7, maxConcurrent=2, maxFiresPerMinute=9)
        job = await job_of(acme)
        await acme.post(f"/v1/jobs/{job}/executions:batch", json={"executions": [{}] * 4})
        await claim(bench, (await bench.store.tenants.named("acme")).number)  # type: ignore[union-attr]

        usage = (await acme.get("/v1/tenants/acme")).json()["usage"]

        assert usage == {
            "jobs": {"used": 1, "quota": 5},
            "queued": {"used": 2, "quota": 7},
            "running": {"used": 2, "quota": 2},
            "firesPerMinute": {"used": 4, "quota": 9},
        }
        await bench.enqueue(await bench.job())
        assert (await admin.get("/v1/tenants/default")).json()["usage"]["firesPerMinute"] == {"used": 1, "quota": None}

    async def test_a_bulk_replay_past_the_quota_leaves_no_batch(self, bench: Bench, admin: httpx.AsyncClient) -> None:
        acme = await tenant(bench)
        job = await job_of(acme)
        for _ in range(2):
            run = (await acme.post(f"/v1/jobs/{job}/executions", json={})).json()["executionId"]
            await acme.post(f"/v1/executions/{run}/cancel")
        await admin.put("/v1/tenants/acme", json={"quotas": {"maxQueued": 1}})

        answer = await acme.post("/v1/executions:bulk", json={"action": "replay", "match": {"state": "CANCELLED"}})

        assert never(answer) == (413, "DULY-E406", "maxQueued")
        assert (await acme.get("/v1/executions?state=PENDING")).json()["items"] == []


async def _job(bench: Bench, job_id: str) -> Any:
    number = (await bench.store.tenants.named("acme")).number  # type: ignore[union-attr]
    return await bench.store.definitions.job(number, parse_job_id(job_id))


async def claim(bench: Bench, number: int) -> None:
    """A worker takes all that is ready of the tenant."""
    now = bench.clock.now()
    worker = await bench.store.liveness.register("w", WorkerAbout(pool="default"), now, 60 * SECOND)
    asks = [Ask(route.number, number, 100) for route in await bench.store.ready.routes()]
    assert await bench.store.ready.claim(worker, asks, now) is not None
