"""Paths are matched exactly, and every path but four needs a key."""

from __future__ import annotations

import itertools

import httpx
import pytest
from starlette.types import Message, Scope

from duly.dashboard import pages
from duly.domain.access import Role
from duly.http.app import Api, route_table
from duly.http.routing import PUBLIC, Call, Reply, Route, Table, route
from duly.usecases.access import key_id
from tests.http.conftest import ADMIN, OPERATOR, STRANGER, URL, VIEWER, WORKER, Bench, key_row

TABLE = route_table(pages.ROUTES)
ROUTES = list(TABLE.routes)
CLOSED = [declared for declared in ROUTES if declared.role is not None]
# Previews, and a viewer's own sessions.
CHANGE_NOTHING_OF_OTHERS = {"/v1/alert-rules/preview", "/v1/schedules/preview", "/v1/sessions/link", "/logout"}
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"]
IDS = {
    "{name}": "no-such",
    "{tenant}": "no-such",
    "{pool}": "no-such",
    "{jobId}": "job_" + "0" * 32,
    "{executionId}": "run_" + "0" * 32,
    "{incidentId}": "inc_" + "0" * 32,
    "{linkId}": "0" * 16,
    "{batchId}": "batch_" + "0" * 32,
    "{workerId}": "0",
    "{keyId}": "0" * 16,
    "{edition}": "0" * 16,
}


@pytest.fixture
def store_kind() -> str:
    return "sqlite"


def named(declared: Route) -> str:
    return f"{declared.method} {declared.path}"


def filled(path: str, **known: str) -> str:
    for place, unknown in IDS.items():
        path = path.replace(place, known.get(place.strip("{}"), unknown))
    return path


def body_for(declared: Route, worker: str) -> object:
    """A body that the route takes."""
    fenced = {"workerId": worker, "fence": 1}
    bodies: dict[str, object] = {
        "change_job": {"target": {"handler": "duly.echo"}},
        "enqueue_executions": {"executions": [{}]},
        "report_results": {},
        "complete_execution": fenced,
        "fail_execution": fenced,
        "release_execution": fenced,
        "list_parents": fenced,
        "log_lines": {**fenced, "lines": [{"message": "here"}]},
        "save_checkpoint": {**fenced, "number": 1, "data": {}},
        "tell_progress": {**fenced, "progress": {}},
        "backfill_job": {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"},
        "signal_run": {"name": "payment"},
    }
    return bodies.get(declared.handle.__name__)


def tricks(path: str) -> list[str]:
    """Other spellings that some server somewhere takes for the same path."""
    first, _, rest = path[1:].partition("/")
    spellings = [
        path + "/",
        "/" + path,
        path.replace("/", "//"),
        f"/./{first}/{rest}",
        f"/{first}/./{rest}",
        f"/{first}/../{first}/{rest}",
        f"/x/..{path}",
        path + ";x",
        path + "/.",
        path + "%2f",
        path + "%20",
        path + "%00",
        path.replace("/", "%2f"),
        "/" + path[1:].replace("/", "%2F"),
        "/" + path[1:].replace("/", "\\"),
        path.upper(),
        path.replace("e", "%65", 1) if "e" in path else path + "%65",
        path + "/health",
        path + "/healthz",
        path + "/readyz",
        path + "/ready",
        path + "/configs",
        path + "/docs",
        path + "/version",
        "/healthz" + path,
        "/healthz/.." + path,
        "/healthz;" + path,
        "/healthz%2f.." + path,
    ]
    return [spelling for spelling in spellings if spelling != path]


async def send(api: Api, method: str, path: str, key: str | None = None, **headers: str) -> tuple[int, dict[bytes, bytes], bytes]:
    """A request whose path no client library has tidied up."""
    scope: Scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
    }
    if key is not None:
        scope["headers"].append((b"authorization", b"Bearer " + key.encode()))
    sent: list[Message] = []
    received: list[Message] = [{"type": "http.disconnect"}, {"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        # Whoever has said all hangs up, so that a stream ends too.
        return received.pop() if len(received) > 1 else received[0]

    async def keep(message: Message) -> None:
        sent.append(message)

    await api(scope, receive, keep)
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


def test_the_public_list_is_exact() -> None:
    assert {declared.path for declared in ROUTES if declared.role is None} == PUBLIC == {"/healthz", "/readyz", "/version", "/login"}


def test_a_route_without_a_role_cannot_be_declared_by_accident() -> None:
    async def leak(call: Call) -> Reply:
        return Reply(None)

    with pytest.raises(ValueError, match="has a role"):
        route("GET", "/v1/leak", role=None, answer=None)(leak)
    with pytest.raises(ValueError, match="has a role"):
        route("GET", "/healthz", role=Role.VIEWER, answer=None)(leak)


def test_a_handler_takes_what_its_path_has() -> None:
    async def astray(call: Call, execution_id: object) -> Reply:
        return Reply(None)

    with pytest.raises(ValueError, match="astray"):
        route("GET", "/v1/jobs/{jobId}", role=Role.VIEWER, answer=None)(astray)


def test_no_route_is_declared_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        Table([ROUTES[0], ROUTES[0]])


def test_reading_takes_a_viewer_and_writing_more() -> None:
    for declared in CLOSED:
        if declared.role is Role.WORKER:
            assert declared.method == "POST", named(declared)
        elif declared.path.startswith(("/v1/keys", "/v1/audit", "/v1/cluster/store")) or declared.path in (
            "/audit",
            "/audit.jsonl",
            "/tenants",
        ):
            assert declared.role is Role.ADMIN, named(declared)
        elif declared.method == "GET" or declared.path in CHANGE_NOTHING_OF_OTHERS:
            assert declared.role is Role.VIEWER, named(declared)
        else:
            assert declared.role is not None, named(declared)
            assert declared.role >= Role.OPERATOR, named(declared)


@pytest.mark.parametrize("declared", CLOSED, ids=named)
async def test_every_route_is_closed_without_a_valid_key(bench: Bench, declared: Route) -> None:
    path = filled(declared.path)
    await bench.store.keys.add_key(key_row("duly_expired_key", Role.ADMIN, tenant=1, expires_at=bench.clock.now()))
    await bench.store.keys.add_key(key_row("duly_revoked_key", Role.ADMIN, tenant=1, revoked_at=bench.clock.now()))

    for key in (
        None,
        "duly_unknown_key",
        "duly_expired_key",
        "duly_revoked_key",
        "",
        "x",
        ADMIN[:-1],
        ADMIN + "x",
        ADMIN.upper(),
        "é" * 20,
    ):
        for method in METHODS:
            status, headers, body = await send(bench.api, method, path, key, x_http_method_override="GET")
            assert status == 401, (method, key)
            assert headers[b"www-authenticate"].startswith(b"Bearer")
            assert b"DULY-E30" in body or method == "HEAD"


@pytest.mark.parametrize("declared", CLOSED, ids=named)
async def test_no_trick_with_the_path_opens_a_route(bench: Bench, declared: Route) -> None:
    for trick in tricks(filled(declared.path)):
        for method in (declared.method, "GET", "POST"):
            status, _, _ = await send(bench.api, method, trick)
            assert status == 401, trick


@pytest.mark.parametrize("declared", ROUTES, ids=named)
async def test_a_path_has_one_spelling(bench: Bench, declared: Route) -> None:
    for trick in tricks(filled(declared.path)):
        status, _, body = await send(bench.api, declared.method, trick, ADMIN)
        # `/v1/jobs/health` has the shape of a job's path; `health` is no id, and that is all there is to it.
        assert status == 404 or (status == 422 and b"DULY-E111" in body) or status == 405, (trick, status, body)


@pytest.mark.parametrize("declared", ROUTES, ids=named)
async def test_other_methods_are_named_as_not_allowed(bench: Bench, declared: Route) -> None:
    methods = {other.method for other in ROUTES if other.path == declared.path}
    allowed = sorted(methods | {"HEAD"} if "GET" in methods else methods)

    for method in set(METHODS) - set(allowed):
        status, headers, _ = await send(bench.api, method, filled(declared.path), ADMIN, x_http_method_override=declared.method)
        assert status == 405
        assert headers[b"allow"].decode().split(", ") == allowed


@pytest.mark.parametrize("declared", [declared for declared in ROUTES if declared.method == "GET"], ids=named)
async def test_head_answers_what_get_would_without_its_body(bench: Bench, declared: Route) -> None:
    for key in (None, WORKER, ADMIN):
        status, headers, body = await send(bench.api, "GET", filled(declared.path), key)
        told, about, nothing = await send(bench.api, "HEAD", filled(declared.path), key)
        assert (told, nothing) == (status, b"")
        assert about.get(b"content-type") == headers.get(b"content-type")
        assert about.get(b"content-length") == headers.get(b"content-length"), (body, about)


@pytest.mark.parametrize("key", [WORKER, VIEWER, OPERATOR])
@pytest.mark.parametrize("declared", CLOSED, ids=named)
async def test_a_lower_role_is_refused(bench: Bench, declared: Route, key: str) -> None:
    role = {WORKER: Role.WORKER, VIEWER: Role.VIEWER, OPERATOR: Role.OPERATOR}[key]
    assert declared.role is not None

    status, _, body = await send(bench.api, declared.method, filled(declared.path), key)

    # Worker keys open the worker protocol and nothing else, and of the others only an admin's opens it.
    may = role is declared.role if Role.WORKER in (role, declared.role) else role >= declared.role
    assert (status != 403) is may
    assert status != 403 or b"DULY-E303" in body


@pytest.mark.parametrize("declared", [declared for declared in CLOSED if "Id}" in declared.path], ids=named)
async def test_malformed_ids_are_malformed_and_foreign_ones_are_not_there(bench: Bench, declared: Route) -> None:
    job = await bench.job()
    answer = await bench.client(ADMIN).post(f"/v1/jobs/{job}/executions")
    run = answer.json()["executionId"]
    worker = (await bench.client(WORKER).post("/v1/workers", json={"name": "w", "handlers": ["h"]})).json()["workerId"]
    path = filled(declared.path, jobId=job, executionId=run, workerId=worker, keyId=key_id(VIEWER), batchId=await bench.batch())

    foreign = await bench.client(STRANGER).request(declared.method, path, json=body_for(declared, worker))
    unknown = await bench.client(ADMIN).request(declared.method, filled(declared.path), json=body_for(declared, "0"))

    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert foreign.json()["code"] == unknown.json()["code"]
    for bad in ("x", "job_", "run_" + "g" * 32, "job_" + "0" * 31, job.upper(), job.removeprefix("job_"), "run_" + "0" * 33):
        spoiled = filled(declared.path, **dict.fromkeys((place.strip("{}") for place in IDS), bad))
        malformed = await send(bench.api, declared.method, spoiled, ADMIN)
        assert malformed[0] == 422, bad
        assert b"DULY-E111" in malformed[2]


@pytest.mark.parametrize(
    "declared", [declared for declared in CLOSED if "{name}" in declared.path or "{tenant}" in declared.path], ids=named
)
async def test_malformed_names_are_malformed(bench: Bench, declared: Route) -> None:
    for bad in ("-x", "x:y", "x~y", "x" * 65):
        status, _, body = await send(bench.api, declared.method, filled(declared.path, name=bad, tenant=bad), ADMIN)
        assert status == 422, bad
        assert b"DULY-E114" in body


@pytest.mark.parametrize("path", ["", "*", "/v1", "/v2/jobs", "/v1/job", "/favicon.ico", "/metrics/", "/docs", "/v1/openapi.yaml"])
async def test_what_is_not_there_is_told_to_keyholders_only(bench: Bench, path: str) -> None:
    assert (await send(bench.api, "GET", path))[0] == 401
    status, _, body = await send(bench.api, "GET", path, ADMIN)

    assert status == 404
    assert b"DULY-E201" in body


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_is_bearer_in_any_case(bench: Bench, scheme: str) -> None:
    assert (await send(bench.api, "GET", "/v1/stats", authorization=f"{scheme} {ADMIN}"))[0] == 200


@pytest.mark.parametrize(
    "value", [ADMIN, f"Basic {ADMIN}", f"Bearer{ADMIN}", f"Bearer {ADMIN}, Bearer {ADMIN}", f"Token {ADMIN}", "Bearer", "Bearer "]
)
async def test_nothing_else_is_taken_for_a_key(bench: Bench, value: str) -> None:
    assert (await send(bench.api, "GET", "/v1/stats", authorization=value))[0] == 401


async def test_a_key_in_the_query_or_a_cookie_is_no_key(bench: Bench) -> None:
    client = bench.client(None)

    assert (await client.get(f"/v1/stats?key={ADMIN}&access_token={ADMIN}")).status_code == 401
    assert (await client.get("/v1/stats", headers={"cookie": f"key={ADMIN}", "x-api-key": ADMIN})).status_code == 401


async def test_websockets_are_refused(bench: Bench) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def keep(message: Message) -> None:
        sent.append(message)

    await bench.api({"type": "websocket", "path": "/v1/jobs", "headers": []}, receive, keep)

    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_every_answer_has_the_security_headers_and_a_request_id(bench: Bench) -> None:
    for client, path in itertools.product((bench.client(None), bench.client(ADMIN)), ("/healthz", "/v1/jobs", "/nowhere")):
        answer = await client.get(path)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-request-id"].startswith("req_")
        assert "server" not in answer.headers


@pytest.mark.parametrize(
    ("sent", "is_kept"), [("abc-1.2:3_4", True), ("x" * 64, True), ("x" * 65, False), ("a b", False), ("-x", False), ("a\x7f", False)]
)
async def test_a_request_id_is_kept_if_it_is_safe(bench: Bench, sent: str, is_kept: bool) -> None:
    answer = await bench.client(None).get("/v1/jobs", headers={"x-request-id": sent})

    assert (answer.headers["x-request-id"] == sent) is is_kept
    assert answer.json()["requestId"] == answer.headers["x-request-id"]


async def test_a_bug_of_ours_is_a_plain_500(bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: object, actor: object) -> None:
        raise RuntimeError("SELECT * FROM secrets at /var/lib")

    monkeypatch.setattr(type(bench.services.fleet), "counts", broken)

    answer = await bench.client(ADMIN).get("/v1/stats", headers={"x-request-id": "look-for-me"})

    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "DULY-E599"
    assert "SELECT" not in answer.text
    assert "Traceback" not in answer.text
    assert "look-for-me" in caplog.text
    assert "GET /v1/stats" in caplog.text


async def test_lifespan_has_nothing_to_do(bench: Bench) -> None:
    coming = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent: list[Message] = []

    async def receive() -> Message:
        return next(coming)

    async def keep(message: Message) -> None:
        sent.append(message)

    await bench.api({"type": "lifespan"}, receive, keep)

    assert [message["type"] for message in sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_the_host_of_a_client_does_not_matter(bench: Bench) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(bench.api), base_url=URL.replace("duly", "evil")) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
