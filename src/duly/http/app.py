"""The API as one ASGI application: finds the route, asks for the key, answers, and turns every error into a problem."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing

import msgspec
from starlette.types import Message, Receive, Scope, Send

from duly.domain.errors import DulyError, Invalid
from duly.http import (
    audit,
    auth,
    backfill,
    bulk,
    calendars,
    dead_letters,
    executions,
    fleet,
    health,
    jobs,
    keys,
    schedules,
    tenants,
    why,
    workers,
)
from duly.http.attribution import attributed
from duly.http.limits import ClientGone, hung_up
from duly.http.openapi import openapi_route
from duly.http.problems import MEDIA_TYPE, Headers, fault, problem_of
from duly.http.routing import PUBLIC, Call, Route, Stream, Table, no_such_route
from duly.http.services import Services
from duly.ports.clock import Entropy
from duly.ports.wall import behind_wall
from duly.wire.problems import Problem

__all__ = ["Api", "Services", "create_api", "route_table"]

SECURITY_HEADERS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
]

NO_CONTENT = 204

_READ_HEADERS = frozenset(
    {
        b"accept",
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"duly-channel",
        b"duly-reason",
        b"idempotency-key",
        b"if-match",
        b"last-event-id",
        b"x-request-id",
    }
)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_JSON_TYPE = (b"content-type", b"application/json")
_PROBLEM_TYPE = (b"content-type", MEDIA_TYPE)
_STREAM_TYPE = (b"content-type", b"text/event-stream; charset=utf-8")
_PUBLIC_PATHS = frozenset(path.encode() for path in PUBLIC)

_encoder = msgspec.json.Encoder()


def route_table() -> Table:
    """Every route there is."""
    declared = [
        *health.ROUTES,
        *jobs.ROUTES,
        *executions.ROUTES,
        *schedules.ROUTES,
        *calendars.ROUTES,
        *fleet.ROUTES,
        *why.ROUTES,
        *dead_letters.ROUTES,
        *bulk.ROUTES,
        *backfill.ROUTES,
        *workers.ROUTES,
        *keys.ROUTES,
        *audit.ROUTES,
        *tenants.ROUTES,
    ]
    return Table([*declared, openapi_route(declared)])


def create_api(
    services: Services, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, entropy: Entropy = secrets.randbits
) -> Api:
    """The API over these services. `sleep` paces streams and `entropy` makes request ids; tests choose both."""
    return Api(services, route_table(), sleep, entropy)


class Api:
    """The ASGI application. It owns nothing that needs starting; `close` ends open streams before the server stops."""

    def __init__(self, services: Services, table: Table, sleep: Callable[[float], Awaitable[None]], entropy: Entropy) -> None:
        self.table = table
        self._services = services
        self._sleep = sleep
        self._entropy = entropy
        self._closing = asyncio.Event()

    def close(self) -> None:
        """Let open streams end. Requests under way are answered."""
        self._closing.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the server's lifespan."""
        kind = scope["type"]
        if kind == "http":
            await self._serve(scope, receive, send)
        elif kind == "lifespan":
            await _live(receive, send)
        else:
            # Nothing here speaks WebSocket; a handshake is refused before it says who it is.
            await send({"type": "websocket.close", "code": 1008})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _headers_of(scope)
        request_id = self._request_id(headers)
        call = Call(self._services, headers, request_id, self._closing, self._sleep, receive)
        extra: Headers = []
        route: Route | None = None
        try:
            route, method, path, segment = await self._route(call, scope, extra)
            with behind_wall(call.walled_tenant(route)):
                reply = await route.answer_to(call, method, path, segment, scope.get("query_string", b""))
                if isinstance(reply, Stream):
                    await self._stream(reply, call, send)
                    return
            status = reply.status or route.status
            extra.extend(reply.headers)
            body = b"" if status == NO_CONTENT else _encoder.encode(reply.content)
            kind = _JSON_TYPE
        except ClientGone:
            return
        except DulyError as error:
            status, body, kind = _refused(problem_of(error, request_id), extra)
        except Exception as error:  # a bug of ours must not become a hang, nor tell the caller about our insides
            where = "routing" if route is None else f"{route.method} {route.path}"
            status, body, kind = _refused(fault(error, request_id, where), extra)
        about_body: Headers = [] if status == NO_CONTENT else [kind, (b"content-length", b"%d" % len(body))]
        start: Message = {
            "type": "http.response.start",
            "status": status,
            "headers": [*about_body, (b"x-request-id", request_id.encode()), *SECURITY_HEADERS, *extra],
        }
        await send(start)
        await send({"type": "http.response.body", "body": body})

    async def _route(self, call: Call, scope: Scope, extra: Headers) -> tuple[Route, bytes, bytes, bytes | None]:
        """The route, after the key and the role have been checked. Without a key nobody learns which paths there are."""
        path: bytes = scope.get("raw_path") or b""
        if path not in _PUBLIC_PATHS:
            call.key = auth.bearer(call.headers)
            call.known_actor = await auth.recognise(self._services.access, call.key)
        found = self.table.find(path)
        if found is None:
            raise no_such_route()
        by_method, segment = found
        method: str = scope["method"]
        route = by_method.get(method)
        if route is None:
            allowed = ", ".join(sorted(by_method))
            extra.append((b"allow", allowed.encode()))
            raise Invalid("DULY-E202", f"This route takes {allowed}.")
        if route.role is not None:
            auth.demand(call.actor, route.role)
            if method != "GET":
                call.known_actor = attributed(call.actor, call.headers, call.request_id)
        return route, method.encode(), path, segment

    async def _stream(self, stream: Stream, call: Call, send: Send) -> None:
        """Send events until they end, the caller hangs up or the server stops."""
        headers = [_STREAM_TYPE, (b"x-request-id", call.request_id.encode()), (b"x-accel-buffering", b"no"), *SECURITY_HEADERS]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        stopped = [asyncio.ensure_future(hung_up(call.receive)), asyncio.ensure_future(self._closing.wait())]
        sending = asyncio.ensure_future(_send_events(stream.events, send))
        try:
            await asyncio.wait([sending, *stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, *stopped):
                task.cancel()
            outcomes = await asyncio.gather(sending, *stopped, return_exceptions=True)
        if isinstance(outcomes[0], Exception) and not isinstance(outcomes[0], DulyError):
            # The status is gone already; all that is left is to say so here and to end.
            fault(outcomes[0], call.request_id, "a stream")
        if not stopped[0].cancelled():
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _request_id(self, headers: dict[bytes, bytes]) -> str:
        sent = headers.get(b"x-request-id")
        if sent is not None and _REQUEST_ID.fullmatch(sent):
            return sent.decode()
        return f"req_{self._entropy(96):024x}"


def _headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The headers that are read. A repeated one is joined by commas, as if it were a list; none of ours that matters takes one."""
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _READ_HEADERS:
            found[name] = found[name] + b", " + value if name in found else value
    return found


def _refused(answer: tuple[int, Problem, Headers], extra: Headers) -> tuple[int, bytes, tuple[bytes, bytes]]:
    status, problem, headers = answer
    extra.extend(headers)
    return status, _encoder.encode(problem), _PROBLEM_TYPE


async def _send_events(events: AsyncIterator[bytes], send: Send) -> None:
    async with aclosing(events) as open_events:  # type: ignore[type-var]
        async for event in open_events:
            await send({"type": "http.response.body", "body": event, "more_body": True})


async def _live(receive: Receive, send: Send) -> None:
    """Lifespan without anything to do: the composer starts and stops what there is."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
