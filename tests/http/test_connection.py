"""What comes before a request is bounded, whoever sends it: heads that do not end, heads that do not come, and what is no HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable

import pytest

from duly.http import connection, limits
from duly.http.app import create_api
from duly.http.server import ApiServer
from tests.http.conftest import ADMIN, Bench

KIB = 1024
CHUNKED = (
    b"POST /login HTTP/1.1\r\nHost: duly.test\r\nContent-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n"
)


@pytest.fixture
def store_kind() -> str:
    return "sqlite"


@pytest.fixture
async def port(bench: Bench) -> AsyncIterator[int]:
    served = ApiServer(create_api(bench.services), port=0, grace=2)
    stop = asyncio.Event()
    running = asyncio.create_task(served.serve_until(stop))
    await served.listening()
    yield served.port
    stop.set()
    await running


async def ask(port: int, *pieces: bytes) -> tuple[int, bytes]:
    """Status and body of the answer after which the server hangs up; status 0 when it has only hung up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(30):
            answer = await reader.read()
    except ConnectionError:
        # Who goes on sending to one that has hung up may not get to read why.
        pass
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]) if head else 0, body


def endless(begin: bytes, unit: bytes) -> Iterable[bytes]:
    yield begin
    for _ in range(256):
        yield unit


@pytest.mark.parametrize(
    ("begin", "unit"),
    [
        (b"GET /", b"a" * 4 * KIB),
        (b"GET /healthz HTTP/1.1\r\n", b"a" * 4 * KIB),
        (b"GET /healthz HTTP/1.1\r\nX-A: ", b"a" * 4 * KIB),
        (b"GET /healthz HTTP/1.1\r\n", b"X-A: b\r\n" * 512),
        (CHUNKED + b"1;", b"a" * 4 * KIB),
        (CHUNKED + b"0\r\nX-A: ", b"a" * 4 * KIB),
        (CHUNKED + b"0\r\n", b"X-A: b\r\n" * 512),
    ],
    ids=["target", "name", "value", "many", "chunk extension", "trailer", "many trailers"],
)
async def test_a_head_that_does_not_end_is_cut_off_without_a_key(port: int, begin: bytes, unit: bytes) -> None:
    status, _ = await ask(port, *endless(begin, unit))

    assert status in (0, 431)


async def test_a_large_head_in_one_piece_is_a_problem_document(port: int) -> None:
    status, body = await ask(port, b"GET /healthz HTTP/1.1\r\nX-A: " + b"a" * 70 * KIB + b"\r\n\r\n")
    taken, _ = await ask(port, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-A: " + b"a" * 60 * KIB + b"\r\n\r\n")

    assert (status, json.loads(body)["code"]) == (431, "DULY-E122")
    assert taken == 200


async def test_small_chunks_are_not_taken_for_a_large_head(port: int) -> None:
    body = b'{"name": "small-pieces", "target": {"handler": "duly.echo"}, "payload": "' + b"x" * 200 * KIB + b'"}'
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[at : at + 16] for at in range(0, len(body), 16))]
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\nContent-Type: application/json\r\nConnection: close\r\n"

    status, _ = await ask(port, head.encode() + b"Transfer-Encoding: chunked\r\n\r\n", *chunks, b"0\r\n\r\n")

    assert status == 201


@pytest.mark.parametrize(
    "request_text",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"get /healthz HTTP/1.1\r\n\r\n",
        b"POST /login HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /login HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nX-A: b\r\n folded\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET /healthz HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n",
    ],
    ids=["tls", "method", "two framings", "two lengths", "space before the colon", "folded", "no host", "two hosts", "two of old"],
)
async def test_what_is_no_http_gets_a_problem_document(port: int, request_text: bytes) -> None:
    status, body = await ask(port, request_text)

    assert (status, json.loads(body)["code"], json.loads(body)["status"]) == (400, "DULY-E121", 400)


async def test_an_old_client_need_not_name_a_host(port: int) -> None:
    status, _ = await ask(port, b"GET /healthz HTTP/1.0\r\n\r\n")

    assert status == 200


@pytest.mark.parametrize("request_text", [b"nonsense\r\n\r\n", b"GET /healthz HTTP/1.1\r\nX-A: " + b"a" * 70 * KIB + b"\r\n\r\n"])
async def test_what_never_was_a_request_has_an_id_too(port: int, request_text: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request_text)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()

    sent = next(line.partition(b": ")[2].decode() for line in head.split(b"\r\n") if line.startswith(b"x-request-id: "))
    assert sent.startswith("req_")
    assert json.loads(body)["requestId"] == sent


async def test_a_head_that_does_not_come_ends_the_connection(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.05)

    begun, body = await ask(port, b"GET /healthz HTTP/1.1\r\nX-A: ")
    silent, nothing = await ask(port)

    assert (begun, json.loads(body)["code"]) == (408, "DULY-E123")
    assert (silent, nothing) == (0, b"")


async def test_a_body_that_does_not_come_is_not_waited_for(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.05)

    status, body = await ask(port, CHUNKED + b"1\r\na\r\n")

    assert (status, json.loads(body)["code"]) == (408, "DULY-E124")


async def test_a_second_request_has_its_own_time_and_an_answer_may_take_longer(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.2)
    register = json.dumps({"name": "w", "handlers": ["duly.echo"]}).encode()
    post = f"HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\nContent-Type: application/json\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def answered() -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        await reader.readexactly(length)
        return head.split(b" ")[1]

    writer.write(f"POST /v1/workers {post}Content-Length: {len(register)}\r\n\r\n".encode() + register)
    first = await answered()
    # The body comes long after the head; only heads have to hurry.
    writer.write(f"POST /v1/workers {post}Content-Length: {len(register)}\r\n\r\n".encode())
    await writer.drain()
    await asyncio.sleep(0.4)
    writer.write(register)
    second = await answered()
    writer.write(b"GET /healthz HTTP/1.1\r\nX-A: ")
    third = await answered()
    writer.close()

    assert (first, second, third) == (b"201", b"201", b"408")
