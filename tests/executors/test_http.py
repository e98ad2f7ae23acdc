from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import shutil
import ssl
import subprocess
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from duly.domain.ids import execution_text
from duly.domain.instants import HOUR, SECOND
from duly.domain.redaction import Veil
from duly.executors.http import http_handler, retry_after
from duly.executors.outbound import is_own
from duly.ports.endings import Failure
from duly.ports.handlers import Attempt, Handler
from tests.executors.attempts import NOW, http
from tests.executors.servers import answer, serve

LOOPBACK = ["127.0.0.0/8"]


def caller(*, allow: Sequence[str] = LOOPBACK, secret: bytes | None = None, **options: Any) -> Handler:
    return http_handler(signing_secret=secret, allow=allow, **options)


def resolver_to(*addresses: str) -> Any:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


async def failure_of(handler: Handler, attempt: Attempt) -> Failure:
    with pytest.raises(Failure) as failed:
        await handler.run(attempt)
    return failed.value


async def result_of(reply: bytes, **call: Any) -> dict[str, Any]:
    async with serve(reply) as server:
        result: dict[str, Any] = await caller().run(http(f"http://127.0.0.1:{server.port}/", **call))
        return result


async def failure_after(reply: Any, **options: Any) -> Failure:
    async with serve(reply) as server:
        return await failure_of(caller(**options), http(f"http://127.0.0.1:{server.port}/"))


async def test_the_payload_is_posted_with_the_facts_of_the_attempt() -> None:
    async with serve(answer(body=b'{"ok": true}')) as server:
        attempt = http(f"http://127.0.0.1:{server.port}/hook?a=1", payload={"region": "eu"})
        await caller().run(attempt)

    [(line, headers, body)] = server.requests
    assert line == "POST /hook?a=1 HTTP/1.1"
    assert body == b'{"region":"eu"}'
    assert headers.pop("user-agent").startswith("duly/")
    assert headers == {
        "host": f"127.0.0.1:{server.port}",
        "content-type": "application/json",
        "content-length": "15",
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "close",
        "idempotency-key": "acme/nightly/2026-01-01T00:00:00Z",
        "duly-execution-id": execution_text(attempt.id),
        "duly-attempt": "1",
        "duly-fence": "42",
        "duly-scheduled-at": "2026-01-01T00:00:00Z",
    }


async def test_a_traced_attempt_hands_its_context_on_unless_the_job_has_one() -> None:
    async with serve(answer()) as server:
        for headers in ({}, {"Traceparent": "the job's own"}):
            attempt = http(f"http://127.0.0.1:{server.port}/", headers=headers)
            attempt.extras.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
            await caller().run(attempt)
        await caller().run(http(f"http://127.0.0.1:{server.port}/"))

    sent = [headers.get("traceparent") for _, headers, _ in server.requests]
    assert sent == ["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "the job's own", None]


async def test_a_secret_signs_the_time_and_the_body() -> None:
    async with serve(answer()) as server:
        await caller(secret=b"secret").run(http(f"http://127.0.0.1:{server.port}/", body="héllo"))

    [(_, headers, body)] = server.requests
    seconds = NOW // SECOND
    expected = hmac.new(b"secret", f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    assert body == "héllo".encode()
    assert headers["duly-signature"] == f"t={seconds},v1={expected}"


async def test_a_get_has_no_body_and_an_absent_payload_is_an_empty_object() -> None:
    async with serve(answer()) as server:
        await caller().run(http(f"http://127.0.0.1:{server.port}/", method="get", payload={"a": 1}))
        await caller().run(http(f"http://127.0.0.1:{server.port}/", method="PUT"))

    (get, get_headers, get_body), (put, _, put_body) = server.requests
    assert (get, get_body, put, put_body) == ("GET / HTTP/1.1", b"", "PUT / HTTP/1.1", b"{}")
    assert "content-length" not in get_headers


async def test_a_job_may_set_its_own_headers_and_replace_the_plain_ones() -> None:
    async with serve(answer()) as server:
        headers = {"authorization": "Bearer x", "content-type": "text/plain", "User-agent": "mine", "X-One": " two "}
        await caller().run(http(f"http://127.0.0.1:{server.port}/", headers=headers))

    [(_, sent, _)] = server.requests
    assert (sent["authorization"], sent["content-type"], sent["user-agent"], sent["x-one"]) == ("Bearer x", "text/plain", "mine", "two")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil"}, {"content-length": "0"}, {"Transfer-Encoding": "chunked"}, {"CONNECTION": "keep-alive"}, {"Duly-Fence": "1"},
        {"duly-anything": "1"}, {"Proxy-Authorization": "x"}, {"Upgrade": "h2c"}, {"Expect": "100-continue"}, {"Idempotency-Key": "1"},
        {"X-A": "1\r\nX-B: 2"}, {"X-A": "1\nX-B: 2"}, {"X-A": "1\r"}, {"X-A": "a\0b"}, {"X-A": "é"}, {"X-A\r\nX-B": "1"}, {"X A": "1"},
        {"": "1"}, {"X-A:": "1"}, {"Host ": "evil"}, {"Content-Length\t": "3"}, {"X-A\n": "1"},
    ],
)  # fmt: skip
async def test_a_header_that_frames_the_message_or_speaks_for_us_is_refused(headers: dict[str, str]) -> None:
    failure = await failure_of(caller(), http("http://127.0.0.1:1/", headers=headers))

    assert (failure.type, failure.retry) == ("HeaderRefused", False)


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "GET / HTTP/1.1\r\nX: y", "", "PÖST"])
async def test_a_method_is_one_of_a_few(method: str) -> None:
    assert (await failure_of(caller(), http("http://127.0.0.1:1/", method=method))).type == "InvalidJob"


@pytest.mark.parametrize(
    ("content_type", "body", "read"),
    [
        ("application/json", b'{"a": [1, null]}', {"a": [1, None]}),
        ("application/problem+json; charset=utf-8", b"[1]", [1]),
        ("text/plain", b'{"a": 1}', '{"a": 1}'),
        ("application/json", b"not json", "not json"),
        ("application/json", b'"a\\u0000b"', '"a\\u0000b"'),
        ("application/json", b"[" * 30_000, "[" * 30_000),
        ("text/plain", b"a\xff\x00b", "a\ufffd\ufffdb"),
    ],
)
async def test_the_answer_is_kept_as_json_or_text(content_type: str, body: bytes, read: Any) -> None:
    assert await result_of(answer("201 Created", body, f"Content-Type: {content_type}")) == {"status": 201, "body": read}


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\nContent-Length: 3\r\n\r\nB\r\nhello world\r\n0\r\nTrailer: x\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nhello world",
        b"HTTP/1.1 200\r\ncontent-length: 11, 11\r\n\r\nhello world and more",
        b"HTTP/1.1 200 OK\nContent-Length: 11\n\nhello world",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world",
    ],
)
async def test_every_framing_of_a_body_is_understood(reply: bytes) -> None:
    assert await result_of(reply) == {"status": 200, "body": "hello world"}


async def test_answers_without_a_body_do_not_wait_for_one() -> None:
    assert await result_of(b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n") == {"status": 204, "body": ""}
    assert await result_of(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", method="HEAD") == {"status": 200, "body": ""}


@pytest.mark.parametrize(
    "framing",
    [b"Content-Length: 1000000\r\n\r\n", b"\r\n", b"Transfer-Encoding: chunked\r\n\r\nF4240\r\n"],
    ids=["length", "close", "chunk"],
)
async def test_a_long_answer_is_cut_and_the_connection_closed(framing: bytes) -> None:
    result = await result_of(b"HTTP/1.1 200 OK\r\n" + framing + b"x" * 1_000_000)

    assert result == {"status": 200, "body": "x" * 65_536, "truncated": True}


async def test_an_endless_answer_is_cut() -> None:
    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
            await writer.drain()

    async with serve(pour) as server:
        result = await caller().run(http(f"http://127.0.0.1:{server.port}/"))
        await asyncio.wait_for(server.gone.wait(), 5)

    assert (len(result["body"]), result["truncated"]) == (65_536, True)


async def test_a_packed_answer_is_not_unpacked() -> None:
    assert await result_of(answer("200 OK", b"\x1f\x8b", "Content-Encoding: gzip")) == {"status": 200, "body": None}


@pytest.mark.parametrize(
    "reply",
    [
        b"", b"HTTP/1.1 200 OK", b"SSH-2.0-OpenSSH\r\n", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 2000 OK\r\n\r\n", b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: " + b"x" * 100_000,
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20, b"x" * 100_000,
    ],
)  # fmt: skip
async def test_a_malformed_answer_is_a_failure_that_may_be_tried_again(reply: bytes) -> None:
    failure = await failure_after(reply)

    assert (failure.type, failure.retry) == ("MalformedAnswer", True)


@pytest.mark.parametrize(
    "status", ["408 Request Timeout", "425 Too Early", "429 Too Many Requests", "500 Oops", "503 Service Unavailable", "599 Odd"]
)
async def test_a_server_in_trouble_is_asked_again(status: str) -> None:
    failure = await failure_after(answer(status, b"sorry", "Retry-After: 120"))

    assert (failure.type, failure.retry, failure.retry_after, failure.detail) == ("HttpStatus", True, 120 * SECOND, "sorry")
    assert f"answered {status[:3]}" in str(failure)


@pytest.mark.parametrize(
    "status", ["400 Bad Request", "401 Unauthorized", "404 Not Found", "410 Gone", "422 Unprocessable", "101 Switching Protocols"]
)
async def test_a_refusal_is_final(status: str) -> None:
    failure = await failure_after(answer(status, b"", "Retry-After: 120"))

    assert (failure.type, failure.retry) == ("HttpStatus", False)


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect", "304 Not Modified"]
)
async def test_a_redirect_is_not_followed(status: str) -> None:
    async with serve(answer()) as inside:
        failure = await failure_after(answer(status, b"", f"Location: http://127.0.0.1:{inside.port}/"))

    assert (failure.type, failure.retry) == ("HttpStatus", False)
    assert "redirects are not followed" in str(failure)
    assert inside.requests == []


async def test_a_chain_of_redirects_ends_at_its_first_link() -> None:
    async with serve(answer()) as metadata, serve(answer("302 Found", b"", f"Location: http://127.0.0.1:{metadata.port}/")) as second:
        link = answer("307 Temporary Redirect", b"", f"Location: http://127.0.0.1:{second.port}/?token=hunter2")
        async with serve(link) as first:
            failure = await failure_of(caller(), http(f"http://127.0.0.1:{first.port}/"))

    assert [len(server.requests) for server in (first, second, metadata)] == [1, 0, 0]
    assert "hunter2" not in str(failure)


async def test_a_name_server_that_changes_its_mind_at_every_question_leads_nowhere_inside() -> None:
    """The first answer is judged whole, and it alone: a later one is never asked for, whichever way it changes."""
    answers = [["1.1.1.1"], ["127.0.0.1"], ["10.0.0.1", "1.1.1.1"], ["169.254.169.254"], ["::1"]]
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return answers[(len(asked) - 1) % len(answers)]

    handler = caller(allow=[], resolver=rebinding, timeout=0.2)
    failures = [await failure_of(handler, http("https://rebinding.example.com/")) for _ in answers]

    assert len(asked) == len(answers)
    # What is public is called, and may not answer here; all else is refused.
    assert [failure.type for failure in failures[1:]] == ["AddressRefused"] * 4
    assert failures[0].type in ("ConnectionFailed", "Timeout", "TlsFailed")


SECRET = "Canary-0123456789abcdefghijklmnopqrstuvwxyz-Canary"


@pytest.mark.parametrize("cut", [4096, 65_536])
@pytest.mark.parametrize("status", ["200 OK", "500 Oops", "302 Found"])
async def test_an_answer_that_is_cut_in_the_middle_of_a_secret_shows_none_of_it(status: str, cut: int) -> None:
    body = b"x" * (cut - 20) + SECRET.encode() + b"y" * 100
    async with serve(answer(status, body, f"Location: https://example.com/{'x' * 160}{SECRET}")) as server:
        attempt = http(f"http://127.0.0.1:{server.port}/")
        attempt.extras.veil = Veil([SECRET])
        try:
            told = attempt.hidden_json(json.dumps(await caller().run(attempt)))
        except Failure as failure:
            told = attempt.redacted(f"{failure} {failure.detail}")

    assert "xxxx" in told
    assert SECRET[:4] not in told


@pytest.mark.parametrize("host", [f"{SECRET}.example.com", f"{SECRET}{SECRET}.example.com", f"{SECRET}_-.example.com", f"{SECRET}.test"])
async def test_a_secret_in_a_host_is_not_told(host: str) -> None:
    attempt = http(f"https://{host}/")
    attempt.extras.veil = Veil([SECRET])

    failure = await failure_of(caller(resolver=resolver_to("10.0.0.1")), attempt)

    assert failure.type == "AddressRefused"
    assert SECRET[:10].lower() not in attempt.redacted(str(failure)).lower()


async def test_a_secret_in_a_header_cannot_become_a_second_one() -> None:
    attempt = http("https://example.com/", headers={"Authorization": "hunter2\r\nX-Injected: 1"})
    failure = await failure_of(caller(resolver=resolver_to("1.1.1.1")), attempt)

    assert (failure.type, failure.retry) == ("HeaderRefused", False)
    assert "hunter2" not in str(failure)


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        (None, None), ("0", 0), ("90", 90 * SECOND), ("99999", HOUR), ("9" * 40, None), ("-5", None), ("soon", None), ("", None),
        ("1.5", None),
        ("Thu, 01 Jan 2026 00:01:01 GMT", 61 * SECOND - (NOW % (60 * SECOND))), ("Wed, 31 Dec 2025 00:00:00 GMT", 0),
        ("Fri, 01 Jan 2027 00:00:00 GMT", HOUR), ("Thu, 01 Jan 2026 00:01:01", None), ("Thu, 99 Foo 2026 00:00:00 GMT", None),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date_and_at_most_an_hour(value: str | None, wait: int | None) -> None:
    assert retry_after(value, NOW) == wait


async def test_the_deadline_is_for_everything_and_closes_the_connection() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
        await reader.read()

    async with serve(drip) as server:
        failure = await failure_of(caller(timeout=0.05), http(f"http://127.0.0.1:{server.port}/"))
        await asyncio.wait_for(server.gone.wait(), 5)

    assert (failure.type, failure.retry) == ("Timeout", True)


async def test_a_name_server_that_does_not_answer_uses_up_the_deadline() -> None:
    async def never(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        raise AssertionError

    assert (await failure_of(caller(timeout=0.05, resolver=never), http("https://example.com/"))).type == "Timeout"


async def test_cancel_closes_the_connection() -> None:
    asked = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()

    async with serve(hang) as server:
        task = asyncio.create_task(caller().run(http(f"http://127.0.0.1:{server.port}/")))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.gone.wait(), 5)


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"], ["10.0.0.1"], ["169.254.169.254"], ["::1"], ["fd00:ec2::254"], ["::ffff:1.1.1.1"], ["64:ff9b::1"], ["fe80::1%eth0"],
        ["1.1.1.1", "10.0.0.1"], ["2606:4700::1", "::1"], ["0.0.0.0"], ["100.64.0.1"], ["224.0.0.1"],
    ],
)  # fmt: skip
async def test_a_name_that_leads_inside_is_refused(addresses: list[str]) -> None:
    handler = caller(allow=[], resolver=resolver_to(*addresses))

    failure = await failure_of(handler, http("https://harmless.example.com/"))

    assert (failure.type, failure.retry) == ("AddressRefused", False)
    assert "harmless.example.com leads to" in str(failure)


async def test_a_name_is_resolved_once_and_the_connection_goes_to_that_answer() -> None:
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.255.255.1"]

    async with serve(answer()) as server:
        await caller(resolver=rebinding).run(http(f"http://rebinding.example.com:{server.port}/"))

    [(_, headers, _)] = server.requests
    assert asked == ["rebinding.example.com"]
    assert headers["host"] == f"rebinding.example.com:{server.port}"


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async with serve(answer()) as server:
        handler = caller(resolver=resolver_to("127.0.0.2", "127.0.0.1"))

        assert (await handler.run(http(f"http://two.example.com:{server.port}/")))["status"] == 200


async def test_a_name_that_does_not_resolve_may_be_tried_again() -> None:
    async def unknown(host: str, port: int) -> Sequence[str]:
        raise OSError("Name or service not known")

    for resolver in (unknown, resolver_to()):
        failure = await failure_of(caller(resolver=resolver), http("https://nowhere.example.com/"))
        assert (failure.type, failure.retry) == ("NameNotResolved", True)


async def test_a_closed_port_may_be_tried_again() -> None:
    async with serve(answer()) as server:
        pass

    failure = await failure_of(caller(), http(f"http://127.0.0.1:{server.port}/"))

    assert (failure.type, failure.retry) == ("ConnectionFailed", True)


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(answer()) as proxy, serve(answer()) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        await caller().run(http(f"http://127.0.0.1:{server.port}/"))

    assert (len(proxy.requests), len(server.requests)) == (0, 1)


async def test_cookies_are_forgotten() -> None:
    handler = caller()
    async with serve(answer("200 OK", b"", "Set-Cookie: id=1")) as server:
        for _ in range(2):
            await handler.run(http(f"http://127.0.0.1:{server.port}/"))

    assert all("cookie" not in headers for _, headers, _ in server.requests)


def test_an_address_of_this_host_is_known_as_its_own() -> None:
    assert is_own(ip_address("127.0.0.1"))
    assert not is_own(ip_address("1.1.1.1"))


async def test_a_public_address_of_this_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.executors.outbound.is_own", lambda address: True)

    failure = await failure_of(caller(allow=[], resolver=resolver_to("1.1.1.1")), http("https://me.example.com/"))

    assert failure.type == "AddressRefused"
    assert "an address of this worker" in str(failure)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not here to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *[
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=test",
            ],
            *["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"), "-addext", "subjectAltName=DNS:hooks.example.com"],
        ],
        check=True,
        capture_output=True,
    )
    return folder / "cert.pem", folder / "key.pem"


async def test_https_is_verified_for_the_name_at_the_pinned_address(certificate: tuple[Path, Path]) -> None:
    names: list[str | None] = []
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(*certificate)
    server_side.sni_callback = lambda _socket, name, _context: names.append(name)
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    async with serve(answer(body=b"secure"), tls=server_side) as server:
        handler = caller(tls=trusting, resolver=resolver_to("127.0.0.1"))

        result = await handler.run(http(f"https://hooks.example.com:{server.port}/"))
        wrong_name = await failure_of(handler, http(f"https://other.example.com:{server.port}/"))
        wrong_trust = await failure_of(caller(resolver=resolver_to("127.0.0.1")), http(f"https://hooks.example.com:{server.port}/"))

    assert result == {"status": 200, "body": "secure"}
    assert names == ["hooks.example.com", "other.example.com", "hooks.example.com"]
    assert (wrong_name.type, wrong_trust.type) == ("TlsFailed", "TlsFailed")
    assert len(server.requests) == 1


def test_a_malformed_allow_list_is_told_at_once() -> None:
    with pytest.raises(ValueError, match="is no host"):
        http_handler(signing_secret=None, allow=["*"])


async def test_uvloop_calls_webhooks_too(certificate: tuple[Path, Path]) -> None:
    uvloop = pytest.importorskip("uvloop")
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(*certificate)

    async def main() -> dict[str, Any]:
        async with serve(answer(body=b"secure"), tls=server_side) as server:
            handler = caller(tls=ssl.create_default_context(cafile=str(certificate[0])), resolver=resolver_to("127.0.0.1"))
            result: dict[str, Any] = await handler.run(http(f"https://hooks.example.com:{server.port}/"))
            return result

    assert await asyncio.to_thread(uvloop.run, main()) == {"status": 200, "body": "secure"}
