"""Webhooks: a signed HTTP request to a public address, with a deadline and bounds on everything that comes back."""

from __future__ import annotations

import hashlib
import hmac
import re
import ssl
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import msgspec

from duly.domain.ids import execution_text
from duly.domain.instants import HOUR, SECOND, Micros, from_datetime, to_rfc3339
from duly.domain.job import HttpCall
from duly.domain.target import HTTP_HANDLER
from duly.executors.addresses import Url, parse_allow
from duly.executors.exchange import Answer, request_head
from duly.executors.outbound import Outbound, Resolver, agent, system_resolver
from duly.executors.output import TAIL, clean_text
from duly.executors.payload import payload_json
from duly.ports.endings import Failure
from duly.ports.handlers import Attempt, Handler

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
BODILESS = frozenset({"GET", "HEAD", "OPTIONS"})
LONGEST_RETRY_AFTER: Micros = HOUR
DELTA_SECONDS = re.compile(r"[0-9]{1,10}\Z")

# They frame the message, belong to one hop, or carry our own promises; a job's own value would break them.
RESERVED_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect", "idempotency-key"}
)
RESERVED_PREFIXES = ("duly-", "proxy-")


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
    caller = _Caller(signing_secret, Outbound(parse_allow(allow), allow_http, timeout, resolver, tls))
    return Handler(HTTP_HANDLER, caller.run)


class _Caller:
    def __init__(self, secret: bytes | None, outbound: Outbound) -> None:
        self._secret = secret
        self._outbound = outbound
        self._agent = agent()

    async def run(self, attempt: Attempt) -> dict[str, Any]:
        call = attempt.target.http
        if call is None:
            raise Failure("The job has no webhook.", type="InvalidJob", retry=False)
        method = call.method.upper()
        if method not in METHODS:
            raise Failure(f"{call.method[:20]!r} is not a method that a webhook can use.", type="InvalidJob", retry=False)
        url = self._outbound.checked(call.url)
        body = _body(call, method, attempt)
        answer = await self._outbound.exchange(url, method, self._head(call, method, url, body, attempt) + body)
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
        if attempt.traceparent is not None and "traceparent" not in chosen:
            headers["traceparent"] = attempt.traceparent
        if body or method not in BODILESS:
            headers["Content-Length"] = str(len(body))
        if self._secret is not None:
            headers["Duly-Signature"] = signature(self._secret, attempt.clock() // SECOND, body)
        try:
            return request_head(method, url.target, headers)
        except ValueError as exc:
            raise Failure(f"The request cannot be sent: {exc}.", type="HeaderRefused", retry=False) from None


def signature(secret: bytes, now: int, body: bytes) -> str:
    """`t=<unix seconds>,v1=<hex>`: HMAC-SHA256 of the time, a dot and the body. Receivers refuse a time more than 5 minutes off."""
    return f"t={now},v1={hmac.new(secret, b'%d.' % now + body, hashlib.sha256).hexdigest()}"


def _body(call: HttpCall, method: str, attempt: Attempt) -> bytes:
    if call.body is not None:
        return call.body.encode()
    return b"" if method in BODILESS else payload_json(attempt)


def _judge(answer: Answer, attempt: Attempt) -> dict[str, Any]:
    status = answer.status
    if 200 <= status < 300:
        result: dict[str, Any] = {"status": status, "body": _read_result(answer, attempt)}
        if answer.truncated:
            result["truncated"] = True
        return result
    said = f"answered {status}{_phrase(status)}"
    detail = _text(answer, attempt)[:TAIL] or None
    if 300 <= status < 400:
        # Without its query, which often carries a token.
        location = answer.headers.get("location", "")
        where = (location if attempt.veil is None else attempt.veil.over(location)).partition("?")[0][:200]
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


def _text(answer: Answer, attempt: Attempt) -> str:
    """The body as text. What it says of a secret is hidden here, while it is whole: whoever sees a part of one cannot know it."""
    text, veil = clean_text(answer.body), attempt.veil
    if veil is None:
        return text
    return veil.over_start(text) if answer.truncated else veil.over(text)


def _read_result(answer: Answer, attempt: Attempt) -> Any:
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
    return _text(answer, attempt)


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""
