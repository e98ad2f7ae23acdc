"""Bombs are refused before they are decoded, whatever route they are sent to; how quickly, `python -m benchmarks bombs` measures."""

from __future__ import annotations

import json
import time
import tracemalloc
from functools import cache
from typing import Any

import httpx
import pytest
from starlette.types import Message, Scope

from duly.http.app import Api, route_table
from duly.http.openapi import openapi
from duly.http.routing import Route
from tests.http.bombs import CHUNK, LARGE, MEGABYTE, SCHEDULES, SMALL, chunks_of, made, zipped
from tests.http.conftest import ADMIN, Bench
from tests.http.test_routing import filled, named

WRITING = [declared for declared in route_table().routes if declared.body is not None and declared.role is not None]
# A busy machine may take a hundred times as long as an idle one; what explodes takes longer than that.
PATIENCE = 3.0


@pytest.fixture
def store_kind() -> str:
    return "sqlite"


async def send(api: Api, declared: Route, pieces: Any, **headers: str) -> tuple[int, bytes]:
    """A body piece by piece, read only as far as the server reads."""
    scope: Scope = {
        "type": "http",
        "method": declared.method,
        "path": "",
        "raw_path": filled(declared.path).encode(),
        "query_string": b"",
        "headers": [
            (b"authorization", f"Bearer {ADMIN}".encode()),
            (b"content-type", b"application/json"),
            *((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()),
        ],
    }
    sent: list[Message] = []
    source = iter(pieces)

    async def receive() -> Message:
        piece = next(source, None)
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def keep(message: Message) -> None:
        sent.append(message)

    await api(scope, receive, keep)
    return sent[0]["status"], sent[1]["body"]


def is_refused(status: int, body: bytes) -> bool:
    return 400 <= status < 500 and json.loads(body)["status"] == status and len(body) < 2_000


@pytest.mark.parametrize("declared", WRITING, ids=named)
async def test_every_route_refuses_every_bomb(bench: Bench, declared: Route) -> None:
    for name, bomb in SMALL.items():
        started = time.process_time()
        status, body = await send(bench.api, declared, [bomb])
        assert is_refused(status, body), (name, status, body[:200])
        assert time.process_time() - started < PATIENCE, name


@pytest.mark.parametrize("declared", WRITING, ids=named)
async def test_no_more_is_read_than_may_be_sent(bench: Bench, declared: Route) -> None:
    read: list[int] = []
    status, body = await send(bench.api, declared, chunks_of(100 * MEGABYTE, read))

    assert (status, json.loads(body)["code"]) == (413, "DULY-E109")
    assert sum(read) <= declared.limit + CHUNK


@pytest.mark.parametrize("declared", WRITING, ids=named)
async def test_a_declared_length_is_enough(bench: Bench, declared: Route) -> None:
    read: list[int] = []
    status, _ = await send(bench.api, declared, chunks_of(100 * MEGABYTE, read), content_length=str(100 * MEGABYTE))

    assert (status, read) == (413, [])


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "GZIP"])
async def test_nothing_is_unpacked(bench: Bench, encoding: str) -> None:
    client = bench.client(ADMIN)
    answer = await client.post("/v1/jobs", content=made(zipped), headers={"content-type": "application/json", "content-encoding": encoding})

    assert (answer.status_code, answer.json()["code"]) == (415, "DULY-E115")


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs:batch"])
@pytest.mark.parametrize("name", list(LARGE))
async def test_large_bombs_leave_nothing_behind(bench: Bench, path: str, name: str) -> None:
    client, bomb = bench.client(ADMIN), made(LARGE[name])
    headers = {"content-type": "application/json"}
    await client.post(path, content=b"{}", headers=headers)
    tracemalloc.start()
    try:
        answer = await client.post(path, content=bomb, headers=headers)
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert 400 <= answer.status_code < 500
    assert left < 5 * MEGABYTE


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/schedules/preview"])
async def test_schedules_are_judged_in_no_time(bench: Bench, admin: httpx.AsyncClient, path: str) -> None:
    for fields in SCHEDULES:
        body = fields if path.endswith("preview") else {"target": {"handler": "duly.echo"}, **fields}
        started = time.process_time()
        answer = await admin.post(path, content=json.dumps(body).encode(), headers={"content-type": "application/json"})
        assert answer.status_code < 500, (fields, answer.text[:200])
        assert time.process_time() - started < PATIENCE, fields


def strings_of(schema: Any, document: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Where a body may have a text, by the keys that lead there."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    if len(path) > 4:
        return []
    found = [path] if schema.get("type") == "string" and path else []
    for option in schema.get("anyOf", ()):
        if "$ref" in option or "type" in option:
            found += strings_of(option, document, path)
    for key, value in schema.get("properties", {}).items():
        found += strings_of(value, document, (*path, key))
    return list(dict.fromkeys(found))


@cache
def described() -> dict[str, Any]:
    """The document of all routes; nobody changes it."""
    return openapi(list(route_table().routes))


@pytest.mark.parametrize("declared", WRITING, ids=named)
async def test_no_text_may_be_long_but_where_it_may(bench: Bench, declared: Route) -> None:
    document = described()
    shown = document["paths"][declared.path][declared.method.lower()]["requestBody"]["content"]["application/json"]
    least = next(iter(shown["examples"].values()))["value"]
    for keys in strings_of(shown["schema"], document):
        body = json.loads(json.dumps(least))
        inside = body
        for key in keys[:-1]:
            inside = inside.setdefault(key, {}) if isinstance(inside, dict) else inside
        if not isinstance(inside, dict) or keys[0] == "payload":
            continue
        inside[keys[-1]] = "x" * 200_000
        status, answer = await send(bench.api, declared, [json.dumps(body).encode()])
        assert status < 500, (keys, answer[:200])
        assert status >= 400 or keys[-1] in ("ics", "message", "payload"), (keys, status)
