"""Webhooks: a signed HTTP request to a public address, with a deadline and bounds on everything that comes back."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from ipaddress import IPv4Address, ip_address
from typing import Any

import msgspec

from duly.domain.ids import execution_text
from duly.domain.instants import HOUR, SECOND, Micros, from_datetime, to_rfc3339
from duly.domain.job import HTTP_HANDLER, HttpCall
from duly.executors.addresses import Address, AllowList, Url, check_addresses, check_url, parse_allow, refused
from duly.executors.exchange import LONGEST_LINE, Answer, MalformedAnswer, read_answer, request_head
from duly.executors.output import TAIL, clean_text
from duly.executors.payload import payload_json
from duly.ports.endings import Failure
from duly.ports.handlers import Attempt, Handler

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
BODILESS = frozenset({"GET", "HEAD", "OPTIONS"})
LONGEST_RETRY_AFTER: Micros = HOUR
DELTA_SECONDS = re.compile(r"[0-9]{1,10}\Z")

# They frame the message, belong to one hop, or carry our own promises; a job's own value would break them.
RESERVED_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect", "idempotency-key"}
)
RESERVED_PREFIXES = ("duly-", "proxy-")


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """Every address of a name, as the operating system resolves it."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for _, _, _, _, sockaddr in found]


def http_handler(
    *,
    signing_secret: bytes | None,
    allow: Sequence[str] = (),
    allow_http: bool = False,
    timeout: float = 10.0,
    resolver: Resolver = system_resolver,
    tls: ssl.SSLContext | None = None,
) -> Handler:
    """Call `target.http`. `allow` names hosts, host:port pairs and networks that may be reached although they are private.

    `timeout` is for the whole exchange, the name's resolution included. `tls` replaces the system's trust, for a private CA.
    Raises ValueError when `allow` is malformed.
    """
    caller = _Caller(signing_secret, parse_allow(allow), allow_http, timeout, resolver, tls or _default_tls())
    return Handler(HTTP_HANDLER, caller.run)


class _Caller:
    def __init__(
        self, secret: bytes | None, allow: AllowList, allow_http: bool, timeout: float, resolver: Resolver, tls: ssl.SSLContext
    ) -> None:
        self._secret = secret
        self._allow = allow
        self._allow_http = allow_http
        self._timeout = timeout
        self._resolver = resolver
        self._tls = tls
        self._agent = f"duly/{_version()}"

    async def run(self, attempt: Attempt) -> dict[str, Any]:
        call = attempt.target.http
        if call is None:
            raise Failure("The job has no webhook.", type="InvalidJob", retry=False)
        method = call.method.upper()
        if method not in METHODS:
            raise Failure(f"{call.method[:20]!r} is not a method that a webhook can use.", type="InvalidJob", retry=False)
        url = check_url(call.url, self._allow, self._allow_http)
        body = _body(call, method, attempt)
        head = self._head(call, method, url, body, attempt)
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._exchange(url, method, head + body)
        except TimeoutError:
            raise Failure(f"No answer from {url.authority} within {self._timeout:g} s.", type="Timeout") from None
        except MalformedAnswer as exc:
            raise Failure(f"The answer of {url.authority} cannot be read: {exc}.", type="MalformedAnswer") from None
        except OSError as exc:
            raise Failure(f"The connection to {url.authority} broke: {exc}.", type="ConnectionLost") from None
        return _judge(answer, attempt)

    def _head(self, call: HttpCall, method: str, url: Url, body: bytes, attempt: Attempt) -> bytes:
        for name in call.headers:
            if name.lower() in RESERVED_HEADERS or name.lower().startswith(RESERVED_PREFIXES):
                raise Failure(f"A job cannot set the header {name[:60]!r}.", type="HeaderRefused", retry=False)
        ours = {"Content-Type": "application/json", "User-Agent": self._agent, "Accept": "*/*", "Accept-Encoding": "identity"}
        chosen = {name.lower() for name in call.headers}
        headers = {"Host": url.authority} | {name: value for name, value in ours.items() if name.lower() not in chosen} | call.headers
        headers |= {
            "Connection": "close",
            "Idempotency-Key": attempt.idempotency_key,
            "Duly-Execution-Id": execution_text(attempt.id),
            "Duly-Attempt": str(attempt.attempt),
            "Duly-Fence": str(attempt.fence),
            "Duly-Scheduled-At": to_rfc3339(attempt.scheduled_at),
        }
        if body or method not in BODILESS:
            headers["Content-Length"] = str(len(body))
        if self._secret is not None:
            headers["Duly-Signature"] = signature(self._secret, attempt.clock() // SECOND, body)
        try:
            return request_head(method, url.target, headers)
        except ValueError as exc:
            raise Failure(f"The request cannot be sent: {exc}.", type="HeaderRefused", retry=False) from None

    async def _exchange(self, url: Url, method: str, request: bytes) -> Answer:
        addresses = await self._resolve(url)
        reader, writer = await self._connect(url, addresses)
        try:
            writer.write(request)
            # Not drained first: a server may answer, and close, before it has read everything.
            return await read_answer(reader, method)
        finally:
            # No polite goodbye: the answer is complete, and a peer that does not close must not keep us.
            writer.transport.abort()

    async def _resolve(self, url: Url) -> list[Address]:
        if url.address is not None:
            addresses = [url.address]
        else:
            try:
                found = await self._resolver(url.host, url.port)
            except OSError as exc:
                raise Failure(f"{url.host} cannot be resolved: {exc.strerror or exc}.", type="NameNotResolved") from None
            addresses = [ip_address(text) for text in dict.fromkeys(found)]
            if not addresses:
                raise Failure(f"{url.host} has no address.", type="NameNotResolved")
            check_addresses(url, addresses, self._allow, self._allow_http)
        if not self._allow.has_host(url.host, url.port):
            for address in addresses:
                if not self._allow.has_address(address) and is_own(address):
                    raise refused(
                        f"{url.host} leads to {address}, an address of this worker. The operator can allow it in DULY_WEBHOOK_ALLOW."
                    )
        return addresses

    async def _connect(self, url: Url, addresses: list[Address]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        error: OSError | None = None
        for nth, address in enumerate(addresses):
            # A dead address may use up its share of the time, not all of it.
            share = self._timeout / (len(addresses) - nth + 1) if nth + 1 < len(addresses) else None
            try:
                async with asyncio.timeout(share):
                    if url.scheme == "http":
                        return await asyncio.open_connection(str(address), url.port, limit=LONGEST_LINE)
                    return await asyncio.open_connection(
                        str(address), url.port, limit=LONGEST_LINE, ssl=self._tls, server_hostname=url.host
                    )
            except ssl.SSLError as exc:
                reason = exc.verify_message if isinstance(exc, ssl.SSLCertVerificationError) else exc.reason
                raise Failure(f"No secure connection to {url.authority}: {reason or exc}.", type="TlsFailed") from None
            except OSError as exc:  # a TimeoutError is one
                error = exc
        reason = str(error) or "it does not answer"
        raise Failure(f"No connection to {url.authority}: {reason}.", type="ConnectionFailed") from None


def signature(secret: bytes, now: int, body: bytes) -> str:
    """`t=<unix seconds>,v1=<hex>`: HMAC-SHA256 of the time, a dot and the body. Receivers refuse a time more than 5 minutes off."""
    return f"t={now},v1={hmac.new(secret, b'%d.' % now + body, hashlib.sha256).hexdigest()}"


def is_own(address: Address) -> bool:
    """Whether packets to this address would stay on this host: the route's own source is the address itself. Sends nothing."""
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return ip_address(probe.getsockname()[0]) == address
    except OSError:
        return False


def _body(call: HttpCall, method: str, attempt: Attempt) -> bytes:
    if call.body is not None:
        return call.body.encode()
    return b"" if method in BODILESS else payload_json(attempt)


def _judge(answer: Answer, attempt: Attempt) -> dict[str, Any]:
    status = answer.status
    if 200 <= status < 300:
        result: dict[str, Any] = {"status": status, "body": _read_result(answer)}
        if answer.truncated:
            result["truncated"] = True
        return result
    said = f"answered {status}{_phrase(status)}"
    detail = clean_text(answer.body[:TAIL]) or None
    if 300 <= status < 400:
        # Without its query, which often carries a token.
        where = answer.headers.get("location", "").partition("?")[0][:200]
        raise Failure(f"{said}: redirects are not followed, give the final URL ({where!r}).", type="HttpStatus", retry=False, detail=detail)
    if status in (408, 425, 429) or status >= 500:
        raise Failure(said, type="HttpStatus", retry_after=retry_after(answer.headers.get("retry-after"), attempt.clock()), detail=detail)
    raise Failure(said, type="HttpStatus", retry=False, detail=detail)


def retry_after(value: str | None, now: int) -> Micros | None:
    """Seconds or an HTTP date, as a wait of at most an hour; None when there is none that can be read."""
    if value is None:
        return None
    if DELTA_SECONDS.match(value):
        wait = int(value) * SECOND
    else:
        try:
            moment = parsedate_to_datetime(value)
            wait = from_datetime(moment) - now
        except (ValueError, OverflowError, IndexError):
            return None
    return min(max(wait, 0), LONGEST_RETRY_AFTER)


def _read_result(answer: Answer) -> Any:
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        # It was asked not to; unpacking what a stranger packed is how small answers become large.
        return None
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if (kind == "application/json" or kind.endswith("+json")) and not answer.truncated:
        try:
            value = msgspec.json.decode(answer.body)
            # PostgreSQL's JSON has no NUL; such an answer is kept as the text it was.
            if b"\\u0000" not in msgspec.json.encode(value):
                return value
        except (ValueError, RecursionError):
            pass
    return clean_text(answer.body)


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def _default_tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _version() -> str:
    try:
        return version("duly")
    except PackageNotFoundError:
        return "0"
