"""Who is let in where, generated from the real route table: every route, every kind of key, every trick; exactly the declared status.

A route that is declared tomorrow is in it tomorrow. What the routes themselves answer to those who are let in is for other tests.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from duly.dashboard.pages import pages
from duly.domain.access import Role
from duly.http.app import create_api
from duly.http.routing import PUBLIC, Route
from duly.http.server import ApiServer
from tests.http.conftest import ADMIN, OPERATOR, STRANGER, VIEWER, WORKER, Bench, key_row
from tests.http.test_routing import CLOSED, ROUTES, filled, named, send, tricks

EXPIRED, REVOKED = "duly_expired_key", "duly_revoked_key"
# Nobody, for one reason or another; which, is not said.
NOBODY: dict[str, str | None] = {
    "none": None,
    "malformed": "x",
    "empty": "",
    "not ASCII": "é" * 20,
    "unknown": "duly_" + "0" * 64,
    "expired": EXPIRED,
    "revoked": REVOKED,
    "half of one": ADMIN[:-1],
    "one and more": ADMIN + "x",
}
KNOWN = {WORKER: Role.WORKER, VIEWER: Role.VIEWER, OPERATOR: Role.OPERATOR, ADMIN: Role.ADMIN, STRANGER: Role.ADMIN}
# Headers by which some server somewhere takes a request for another one.
HEADERS = (
    {"x_http_method_override": "GET"},
    {"x_http_method": "GET", "x_method_override": "GET"},
    {"x_original_url": "/healthz", "x_rewrite_url": "/healthz"},
    {"x_forwarded_prefix": "/healthz", "x_forwarded_path": "/healthz", "x_forwarded_uri": "/healthz"},
    {"x_forwarded_for": "127.0.0.1", "x_real_ip": "127.0.0.1", "forwarded": "for=127.0.0.1;host=localhost"},
    {"x_forwarded_host": "localhost", "x_forwarded_user": "admin", "remote_user": "admin", "x_remote_user": "admin"},
    {"x_tenant": "strangers", "x_duly_tenant": "2", "x_api_key": ADMIN, "cookie": f"key={ADMIN}; session={ADMIN}"},
    {"accept": "text/event-stream"},
    {"upgrade": "websocket", "connection": "upgrade"},
)


@pytest.fixture
def store_kind() -> str:
    return "sqlite"


def more_tricks(path: str) -> list[str]:
    """Besides those that every path has: suffixes and encodings that other products were opened with."""
    first, _, rest = path[1:].partition("/")
    spelled = [
        path + suffix for suffix in ("/login", "/metrics", "/.well-known", "?/healthz", "#/healthz", "/..;/healthz", "/%2e%2e/healthz")
    ]
    spelled += [f"/{first}/%2e/{rest}", f"/%2e%2e/{first}/{rest}", f"/{first}%2f{rest}", f"/{first}%252f{rest}", f"http://localhost{path}"]
    spelled += ["/healthz%00" + path, "/healthz?" + path, "/login/.." + path, "//localhost" + path, path + "\t", path + "\u00a0"]
    return tricks(path) + [spelling for spelling in spelled if spelling != path]


@pytest.fixture
async def doors(bench: Bench) -> Bench:
    await bench.store.keys.add_key(key_row(EXPIRED, Role.ADMIN, tenant=1, expires_at=bench.clock.now()))
    await bench.store.keys.add_key(key_row(REVOKED, Role.ADMIN, tenant=1, revoked_at=bench.clock.now()))
    return bench


def may(role: Role, needed: Role) -> bool:
    """Worker keys open the worker protocol and nothing else; besides them only an admin's opens it."""
    return role in (Role.WORKER, Role.ADMIN) if needed is Role.WORKER else role >= needed


@pytest.mark.parametrize("declared", CLOSED, ids=named)
async def test_nobody_gets_in(doors: Bench, declared: Route) -> None:
    path = filled(declared.path)
    for reason, key in NOBODY.items():
        for extra in ({}, *HEADERS):
            status, headers, body = await send(doors.api, declared.method, path, key, **extra)
            assert (status, json.loads(body)["status"]) == (401, 401), (reason, extra)
            assert headers[b"www-authenticate"].startswith(b"Bearer")


@pytest.mark.parametrize("declared", CLOSED, ids=named)
async def test_nobody_gets_in_by_another_spelling(doors: Bench, declared: Route) -> None:
    for spelling in more_tricks(filled(declared.path)):
        for method in (declared.method, "HEAD", "OPTIONS", "TRACE"):
            for key in (None, EXPIRED):
                status, _, _ = await send(doors.api, method, spelling, key, **HEADERS[2])
                assert status == 401, (spelling, method)


@pytest.mark.parametrize("declared", CLOSED, ids=named)
async def test_every_role_opens_what_it_may_and_nothing_else(doors: Bench, declared: Route) -> None:
    assert declared.role is not None
    for key, role in KNOWN.items():
        plain, _, body = await send(doors.api, declared.method, filled(declared.path), key)
        code = json.loads(body).get("code") if plain >= 400 else None
        assert plain != 401
        assert (plain == 403) is not may(role, declared.role), (role, plain)
        assert plain != 403 or code == "DULY-E303"
        assert plain < 500
        for extra in HEADERS[:7]:
            assert (await send(doors.api, declared.method, filled(declared.path), key, **extra))[0] == plain, extra


@pytest.mark.parametrize("declared", ROUTES, ids=named)
async def test_a_key_opens_no_other_spelling_either(doors: Bench, declared: Route) -> None:
    for spelling in more_tricks(filled(declared.path)):
        status, _, body = await send(doors.api, declared.method, spelling, ADMIN)
        code = json.loads(body).get("code") if status >= 400 else None
        # What has the shape of a path with an id has a malformed one, or one that is nobody's; another route takes other methods.
        assert status == 404 or (status, code) in {(405, "DULY-E202"), (422, "DULY-E111"), (422, "DULY-E114")}, (spelling, status, body)


@pytest.mark.parametrize("path", sorted(PUBLIC))
async def test_what_is_public_is_so_by_its_exact_name(doors: Bench, path: str) -> None:
    methods = {declared.method for declared in ROUTES if declared.path == path}
    for method in {"GET", "OPTIONS", "TRACE", "POST", "DELETE"} - methods:
        assert (await send(doors.api, method, path))[0] == 405
    for spelling in more_tricks(path):
        assert (await send(doors.api, "GET", spelling))[0] == 401, spelling


async def test_the_wire_itself_opens_nothing(doors: Bench) -> None:
    """Targets and pipelines as no client library sends them, over a real socket."""
    server = ApiServer(doors.api)
    stop = asyncio.Event()
    serving = asyncio.create_task(server.serve_until(stop))
    await server.listening()
    try:
        for line, wanted in [
            (b"GET http://localhost/v1/jobs HTTP/1.1", {b"401"}),
            (b"GET http://localhost/healthz/../v1/jobs HTTP/1.1", {b"401"}),
            (b"GET //v1/jobs HTTP/1.1", {b"401"}),
            (b"GET /v1/jobs?/healthz HTTP/1.1", {b"401"}),
            (b"GET /v1/jobs#/healthz HTTP/1.1", {b"401", b"400"}),
            (b"GET /healthz%2f..%2fv1/jobs HTTP/1.1", {b"401"}),
            (b"TRACE /v1/jobs HTTP/1.1", {b"401"}),
            (b"OPTIONS * HTTP/1.1", {b"401", b"400"}),
            (b"GET /v1/events HTTP/1.1", {b"401"}),
            (b"GET /healthz HTTP/1.1", {b"200"}),
        ]:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(line + b"\r\nHost: localhost\r\nX-Original-URL: /healthz\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            assert answer.split(b" ")[1] in wanted, (line, answer[:200])
    finally:
        stop.set()
        await serving


def test_the_matrix_is_the_whole_table(bench: Bench) -> None:
    assert {named(declared) for declared in create_api(bench.services, pages=pages()).table.routes} == {
        named(declared) for declared in ROUTES
    }
    assert {declared.path for declared in ROUTES if declared.role is None} == PUBLIC
