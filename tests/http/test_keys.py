"""Keys over HTTP: what is shown of them, rotation, pools for workers, and a revocation that every node obeys."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from duly.domain.instants import HOUR, SECOND
from duly.http.app import Api, create_api
from duly.roles.doorkeeper import Doorkeeper, DoorkeeperSettings
from duly.usecases.access import key_id
from tests.api import services_on
from tests.http.conftest import ADMIN, OPERATOR, STRANGER, WORKER, Bench


async def make(bench: Bench, role: str = "WORKER", by: str = ADMIN, **more: Any) -> dict[str, Any]:
    answer = await bench.client(by).post("/v1/keys", json={"role": role, "name": "some-key", **more})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def listed(bench: Bench, id: str) -> dict[str, Any]:
    items = (await bench.client(ADMIN).get("/v1/keys")).json()["items"]
    return next(item for item in items if item["keyId"] == id)


async def rotate(bench: Bench, id: str, **body: Any) -> httpx.Response:
    return await bench.client(ADMIN).post(f"/v1/keys/{id}/rotate", json=body)


async def register(bench: Bench, key: str, pool: str = "default", api: Api | None = None) -> httpx.Response:
    return await bench.client(key, api).post("/v1/workers", json={"name": "w", "handlers": ["duly.echo"], "pool": pool})


def other_node(bench: Bench) -> Api:
    """A second server on the same store, which knows nothing of what the first one has seen."""

    async def sleep(seconds: float) -> None:
        bench.clock.turn(round(seconds * SECOND))

    return create_api(services_on(bench.store, bench.clock, lambda bits: 1, bench.hints), sleep=sleep)


# ---------------------------------------------------------------- what is shown


async def test_a_key_shows_its_first_characters_and_never_its_secret(bench: Bench) -> None:
    made = await make(bench, pools=["mail", "etl", "mail"])

    shown = await listed(bench, made["keyId"])

    assert made["secret"].startswith(made["prefix"])
    assert (shown["prefix"], len(shown["prefix"])) == (made["prefix"], 12)
    assert shown["pools"] == ["etl", "mail"]
    assert "secret" not in shown
    assert made["secret"] not in str(shown)


async def test_the_last_use_is_shown(bench: Bench) -> None:
    made = await make(bench, "VIEWER")
    assert (await listed(bench, made["keyId"]))["lastUsedAt"] is None
    services = bench.services
    doorkeeper = Doorkeeper(bench.store.keys, bench.store.sessions, services.access.uses, services.sessions.uses, DoorkeeperSettings())

    await bench.client(made["secret"]).get("/v1/jobs")
    await doorkeeper.step(bench.clock.now())

    assert (await listed(bench, made["keyId"]))["lastUsedAt"] == "2026-01-05T12:00:00Z"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"role": "ADMIN", "pools": ["etl"]}, "DULY-E106"),
        ({"role": "WORKER", "pools": []}, "DULY-E106"),
        ({"role": "WORKER", "pools": "etl"}, "DULY-E106"),
        ({"role": "WORKER", "pools": ["no pool"]}, "DULY-E114"),
        ({"role": "WORKER", "pools": ["x" * 65]}, "DULY-E106"),
        ({"role": "WORKER", "pools": ["x"] * 101}, "DULY-E106"),
    ],
)
async def test_malformed_pools_are_refused(bench: Bench, body: dict[str, Any], code: str) -> None:
    answer = await bench.client(ADMIN).post("/v1/keys", json={"name": "k", **body})

    assert (answer.status_code, answer.json()["code"]) == (422, code)


@pytest.mark.parametrize("name", ["", " ", "two\nlines", "tab\t", "\x1b[31m", "x" * 129])
async def test_a_name_is_one_line(bench: Bench, name: str) -> None:
    answer = await bench.client(ADMIN).post("/v1/keys", json={"role": "VIEWER", "name": name})

    assert answer.status_code == 422
    assert (await make(bench, "VIEWER"))["name"] == "some-key"
    assert (await bench.client(ADMIN).post("/v1/keys", json={"role": "VIEWER", "name": "Anna's laptop – ü"})).status_code == 201


# ---------------------------------------------------------------- rotation


async def test_a_rotation_shows_the_new_secret_once_and_both_ends_of_the_chain(bench: Bench) -> None:
    old = await make(bench, pools=["etl"])

    answer = await rotate(bench, old["keyId"], overlapSec=600)

    new = answer.json()
    assert answer.status_code == 201
    assert (new["role"], new["name"], new["pools"], new["replaces"]) == ("WORKER", "some-key", ["etl"], old["keyId"])
    assert (new["replaced"]["keyId"], new["replaced"]["expiresAt"]) == (old["keyId"], "2026-01-05T12:10:00Z")
    assert (await listed(bench, old["keyId"]))["replacedBy"] == new["keyId"]
    assert "secret" not in await listed(bench, new["keyId"])
    assert (await register(bench, old["secret"], "etl")).status_code == 201
    bench.clock.turn(600 * SECOND)
    assert (await register(bench, old["secret"], "etl")).status_code == 401
    assert (await register(bench, new["secret"], "etl")).status_code == 201


async def test_an_hour_is_the_overlap_unless_another_is_asked_for(bench: Bench) -> None:
    answer = await bench.client(ADMIN).post(f"/v1/keys/{(await make(bench))['keyId']}/rotate")

    assert answer.json()["replaced"]["expiresAt"] == "2026-01-05T13:00:00Z"


async def test_an_admin_rotates_its_own_key(bench: Bench) -> None:
    new = (await rotate(bench, key_id(ADMIN), overlapSec=0)).json()
    bench.clock.turn(5 * SECOND)

    assert (await bench.client(ADMIN).get("/v1/keys")).status_code == 401
    assert (await bench.client(new["secret"]).get("/v1/keys")).status_code == 200


@pytest.mark.parametrize("body", [{"overlapSec": -1}, {"overlapSec": "1h"}, {"expiresInSec": 0}, {"overlap": 3600}, {"overlapSec": 1e300}])
async def test_a_malformed_rotation_changes_nothing(bench: Bench, body: dict[str, Any]) -> None:
    made = await make(bench)

    assert (await rotate(bench, made["keyId"], **body)).status_code == 422
    assert (await listed(bench, made["keyId"]))["replacedBy"] is None


async def test_what_has_ended_is_not_rotated(bench: Bench) -> None:
    made = await make(bench)
    await bench.client(ADMIN).delete(f"/v1/keys/{made['keyId']}")

    answer = await rotate(bench, made["keyId"])

    assert (answer.status_code, answer.json()["code"]) == (409, "DULY-E307")


# ---------------------------------------------------------------- the last administrator


async def test_the_last_admin_key_stays(bench: Bench) -> None:
    mine = f"/v1/keys/{key_id(ADMIN)}"

    revoked = await bench.client(ADMIN).delete(mine)
    shortened = await rotate(bench, key_id(ADMIN), expiresInSec=60)

    assert (revoked.status_code, revoked.json()["code"]) == (409, "DULY-E306")
    assert (shortened.status_code, shortened.json()["code"]) == (409, "DULY-E306")
    second = await make(bench, "ADMIN")
    assert (await bench.client(second["secret"]).delete(mine)).status_code == 200


async def test_after_a_rotation_the_new_admin_key_is_the_last_one(bench: Bench) -> None:
    new = (await rotate(bench, key_id(ADMIN))).json()

    answer = await bench.client(ADMIN).delete(f"/v1/keys/{new['keyId']}")

    assert (answer.status_code, answer.json()["code"]) == (409, "DULY-E306")


# ---------------------------------------------------------------- workers


async def test_a_worker_key_opens_its_pools_only(bench: Bench) -> None:
    made = await make(bench, pools=["mail"])
    mail = await bench.job(target={"handler": "duly.echo", "pool": "mail"})
    for job in (mail, await bench.job(target={"handler": "duly.echo", "pool": "etl"}), await bench.job()):
        await bench.enqueue(job)
    client = bench.client(made["secret"])

    for pool in ("etl", "default"):
        refused = await register(bench, made["secret"], pool)
        assert (refused.status_code, refused.json()["code"]) == (403, "DULY-E304")
    worker = (await register(bench, made["secret"], "mail")).json()["workerId"]
    lease = (await client.post(f"/v1/workers/{worker}/lease", json={"max": 100})).json()

    assert [item["jobId"] for item in lease["executions"]] == [mail]


async def test_another_key_cannot_act_as_a_worker(bench: Bench) -> None:
    run = await bench.enqueue(await bench.job())
    worker = (await register(bench, WORKER)).json()["workerId"]
    lease = (await bench.client(WORKER).post(f"/v1/workers/{worker}/lease", json={"max": 1})).json()
    fenced = {"workerId": worker, "fence": lease["leaseId"]}
    asks = [
        (f"/v1/workers/{worker}/heartbeat", {}),
        (f"/v1/workers/{worker}/lease", {}),
        (f"/v1/workers/{worker}/report", {}),
        (f"/v1/workers/{worker}/drain", {"retire": True}),
        (f"/v1/executions/{run}/complete", fenced),
        (f"/v1/executions/{run}/fail", fenced),
        (f"/v1/executions/{run}/release", fenced),
        (f"/v1/executions/{run}/log", {**fenced, "lines": [{"message": "x"}]}),
        (f"/v1/executions/{run}/checkpoint", {**fenced, "number": 1, "data": 1}),
        (f"/v1/executions/{run}/progress", {**fenced, "progress": 1}),
        (f"/v1/executions/{run}/parents", fenced),
    ]
    thief = bench.client((await make(bench))["secret"])
    stranger = bench.client((await make(bench, by=STRANGER))["secret"])

    for path, body in asks:
        refused = await thief.post(path, json=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "DULY-E305"), path
        assert (await stranger.post(path, json=body)).status_code == 404, path

    assert (await bench.client(WORKER).post(asks[4][0], json=fenced)).json()["state"] == "SUCCEEDED"


async def test_a_rotated_key_goes_on_with_its_worker(bench: Bench) -> None:
    worker = (await register(bench, WORKER)).json()["workerId"]
    new = (await rotate(bench, key_id(WORKER), overlapSec=0)).json()
    bench.clock.turn(4 * SECOND)

    assert (await bench.client(WORKER).post(f"/v1/workers/{worker}/heartbeat")).status_code == 401
    assert (await bench.client(new["secret"]).post(f"/v1/workers/{worker}/heartbeat")).status_code == 200


# ---------------------------------------------------------------- revocation on every node


@pytest.mark.parametrize("how", ["revoked", "expired"])
async def test_within_five_seconds_a_key_that_has_ended_opens_nothing_on_any_node(bench: Bench, how: str) -> None:
    made = await make(bench, "VIEWER", expiresInSec=1 if how == "expired" else 3600)
    here, there = bench.client(made["secret"]), bench.client(made["secret"], other_node(bench))
    assert [(await client.get("/v1/jobs")).status_code for client in (here, there)] == [200, 200]
    if how == "revoked":
        await bench.client(ADMIN).delete(f"/v1/keys/{made['keyId']}")

    bench.clock.turn(5 * SECOND)

    assert [(await client.get("/v1/jobs")).status_code for client in (here, there)] == [401, 401]


async def test_a_stream_on_another_node_ends_within_five_seconds(bench: Bench) -> None:
    made = await make(bench, "VIEWER")
    run = await bench.enqueue(await bench.job())
    there = bench.client(made["secret"], other_node(bench))
    assert (await there.get("/v1/jobs")).status_code == 200
    await bench.client(ADMIN).delete(f"/v1/keys/{made['keyId']}")
    revoked_at = bench.clock.now()

    answer = await there.get(f"/v1/executions/{run}/logs", headers={"accept": "text/event-stream"})

    assert answer.status_code == 200
    assert "event: end" not in answer.text
    assert bench.clock.now() - revoked_at <= 5 * SECOND


@pytest.mark.parametrize("ask", ["lease", "heartbeat"])
async def test_a_worker_that_waits_on_another_node_gets_nothing_more(bench: Bench, ask: str) -> None:
    made = await make(bench)
    api = other_node(bench)
    worker = (await register(bench, made["secret"], api=api)).json()["workerId"]
    job = await bench.job()
    client, waits = bench.client(made["secret"], api), asyncio.Event()
    wait, revoked_at = bench.hints.wait_ready, 0

    async def wait_and_revoke(timeout: float) -> bool:
        nonlocal revoked_at
        if not waits.is_set():
            waits.set()
            revoked_at = bench.clock.now()
            await bench.client(ADMIN).delete(f"/v1/keys/{made['keyId']}")
        return await wait(timeout)

    bench.hints.wait_ready = wait_and_revoke  # type: ignore[method-assign]
    answer = await client.post(f"/v1/workers/{worker}/{ask}", json={"waitSec": 30})
    ended_at = bench.clock.now()
    await bench.enqueue(job)

    assert (answer.status_code, answer.json()["code"]) == (401, "DULY-E302")
    assert ended_at - revoked_at <= 5 * SECOND
    assert (await client.post(f"/v1/workers/{worker}/lease")).status_code == 401


async def test_only_an_admin_sees_or_ends_keys(bench: Bench) -> None:
    made = await make(bench)

    for method, path in (("GET", "/v1/keys"), ("POST", f"/v1/keys/{made['keyId']}/rotate"), ("DELETE", f"/v1/keys/{made['keyId']}")):
        assert (await bench.client(OPERATOR).request(method, path)).status_code == 403
    bench.clock.turn(HOUR)
    assert (await listed(bench, made["keyId"]))["revokedAt"] is None


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/keys", {"role": "VIEWER", "name": "eyes"}),
        ("/v1/tenants/default/keys", {"role": "VIEWER", "name": "eyes"}),
        ("/v1/links", {"kind": "calendar"}),
    ],
)
async def test_a_repeat_makes_no_second_secret(bench: Bench, path: str, body: dict[str, Any]) -> None:
    admin, once = bench.client(ADMIN), {"idempotency-key": "once"}
    listed = "/v1/links" if path == "/v1/links" else "/v1/keys"
    made = await admin.post(path, json=body, headers=once)
    before = (await admin.get(listed)).json()["items"]

    again = await admin.post(path, json=body, headers=once)
    other = await admin.post(path, json=body | {"expiresInSec": 60}, headers=once)

    assert made.status_code == 201
    assert (again.status_code, again.json()["code"]) == (409, "DULY-E213")
    assert (made.json().get("keyId") or made.json()["linkId"]) in again.json()["detail"]
    assert (other.status_code, other.json()["code"]) == (409, "DULY-E207")
    assert (await admin.get(listed)).json()["items"] == before
    assert (await admin.post(path, json=body, headers={"idempotency-key": "twice"})).status_code == 201


async def test_an_operator_operates_and_changes_no_definition(bench: Bench) -> None:
    job = await bench.job(name="nightly", schedule="0 3 * * *")
    operator = bench.client(OPERATOR)
    sent = {"name": "nightly", "schedule": "0 4 * * *", "target": {"handler": "duly.echo"}}

    operated = [await operator.post(f"/v1/jobs/{job}/{verb}") for verb in ("run", "executions", "pause", "resume", "skip", "unskip")]
    refused = [
        await operator.post("/v1/jobs", json=sent),
        await operator.post("/v1/jobs:batch", json={"jobs": [sent]}),
        await operator.put(f"/v1/jobs/{job}", json=sent),
        await operator.delete(f"/v1/jobs/{job}"),
        await operator.put("/v1/calendars/de", json={}),
        await operator.put("/v1/alert-rules/late", json={"kind": "missed"}),
    ]

    assert {answer.status_code for answer in operated} == {200, 201}
    assert [(answer.status_code, answer.json()["code"]) for answer in refused] == [(403, "DULY-E303")] * 6
