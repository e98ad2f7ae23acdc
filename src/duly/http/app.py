"""The API as one ASGI application: finds the route, asks for the key, answers, and turns every error into a problem."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import msgspec
from starlette.types import Message, Receive, Scope, Send

from duly.domain.access import DEFAULT_TENANT, DEFAULT_TENANT_NUMBER, Actor, Role
from duly.domain.errors import DulyError, Invalid
from duly.domain.instants import SECOND, Micros
from duly.domain.metrics.catalogue import OTHER, REQUEST_SECONDS, REQUESTS
from duly.domain.rates import Rate
from duly.http import (
    alerts,
    audit,
    auth,
    backfill,
    bulk,
    calendars,
    cluster,
    dead_letters,
    events,
    executions,
    fleet,
    health,
    history,
    jobs,
    keys,
    links,
    logs,
    metrics,
    records,
    scaling,
    schedules,
    sessions,
    spreading,
    tenants,
    upcoming,
    why,
    workers,
    workflows,
)
from duly.http.attribution import attributed
from duly.http.homes import Homes
from duly.http.limits import ClientGone, hung_up
from duly.http.openapi import openapi_route
from duly.http.problems import MEDIA_TYPE, Headers, fault, problem_of
from duly.http.routing import PUBLIC, Call, Route, Stream, Table, no_such_route
from duly.http.services import Services
from duly.http.throttle import KeyLimit, LimitReached
from duly.ports import current
from duly.ports.clock import Entropy
from duly.ports.wall import behind_wall
from duly.wire.problems import Problem

__all__ = ["Api", "Pages", "Services", "create_api", "route_table"]

SECURITY_HEADERS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
]

# Answers that have no body.
BARE = frozenset({204, 304})
SEE_OTHER = 303

_READ_HEADERS = frozenset(
    {
        b"accept",
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"cookie",
        b"host",
        b"duly-channel",
        b"duly-reason",
        b"idempotency-key",
        b"if-match",
        b"if-none-match",
        b"last-event-id",
        b"origin",
        b"sec-fetch-site",
        b"traceparent",
        b"transfer-encoding",
        b"x-csrf-token",
        b"x-forwarded-proto",
        b"x-request-id",
    }
)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_JSON_TYPE = (b"content-type", b"application/json")
_PROBLEM_TYPE = (b"content-type", MEDIA_TYPE)
_PAGE_TYPE = (b"content-type", b"text/html; charset=utf-8")
_STREAM_TYPE = (b"content-type", b"text/event-stream; charset=utf-8")
_EMPTY = BARE | {SEE_OTHER}
_PUBLIC_PATHS = frozenset(path.encode() for path in PUBLIC)

_METRICS_PATH = metrics.METRICS.encode()
# Who reads metrics that are for everybody sees what the installation's own viewers see.
_PASSER_BY = Actor(DEFAULT_TENANT_NUMBER, DEFAULT_TENANT, Role.VIEWER, "metrics")

_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Pages:
    """What browsers are shown beside the API: the routes of pages, and how a problem looks to whoever asked for a page."""

    routes: Sequence[Route]
    refusal: Callable[[Problem, str], tuple[bytes, Headers]]


def route_table(pages: Sequence[Route] = ()) -> Table:
    """Every route there is; the document tells of those of the API."""
    declared = [
        *health.ROUTES,
        *jobs.ROUTES,
        *executions.ROUTES,
        *logs.ROUTES,
        *records.ROUTES,
        *schedules.ROUTES,
        *history.ROUTES,
        *calendars.ROUTES,
        *upcoming.ROUTES,
        *spreading.ROUTES,
        *events.ROUTES,
        *fleet.ROUTES,
        *cluster.ROUTES,
        *scaling.ROUTES,
        *metrics.ROUTES,
        *why.ROUTES,
        *workflows.ROUTES,
        *dead_letters.ROUTES,
        *bulk.ROUTES,
        *backfill.ROUTES,
        *workers.ROUTES,
        *keys.ROUTES,
        *alerts.ROUTES,
        *links.ROUTES,
        *audit.ROUTES,
        *tenants.ROUTES,
        *sessions.ROUTES,
    ]
    return Table([*declared, openapi_route(declared), *pages])


def create_api(
    services: Services,
    *,
    pages: Pages | None = None,
    rate: Rate | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    entropy: Entropy = secrets.randbits,
) -> Api:
    """The API over these services, with pages for browsers. `rate` is what each key may ask for; None: as much as it likes.

    `sleep` paces streams and `entropy` makes request ids; tests choose both.
    """
    return Api(services, pages, rate, sleep, entropy)


class Api:
    """The ASGI application. It owns nothing that needs starting; `close` ends open streams before the server stops."""

    def __init__(
        self, services: Services, pages: Pages | None, rate: Rate | None, sleep: Callable[[float], Awaitable[None]], entropy: Entropy
    ) -> None:
        self.table = route_table(() if pages is None else pages.routes)
        self._pages = pages
        self._limit = None if rate is None else KeyLimit(services.clock, rate)
        self._services = services
        self._homes = Homes(services)
        self._sleep = sleep
        self._entropy = entropy
        self._closing = asyncio.Event()
        header = services.gate.header
        self._read = _READ_HEADERS if header is None else _READ_HEADERS | {header}

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
        asked = self._services.clock.boottime()
        headers = _headers_of(scope, self._read)
        request_id = self._request_id(headers)
        # The server has a task for each request: it ends with it.
        current.request_id.set(request_id)
        call = Call(self._services, headers, request_id, self._closing, self._sleep, receive, scope.get("scheme", "http"))
        call.table, call.prefix = self.table, scope.get("root_path") or self._services.gate.prefix
        extra: Headers = []
        route: Route | None = None
        try:
            route, method, path, segment = await self._route(call, scope, extra)
            with behind_wall(call.walled_tenant(route)):
                answering = route.answer_to(call, method, path, segment, scope.get("query_string", b""))
                tracer = self._services.tracer
                if tracer is not None and (within := headers.get(b"traceparent")) is not None:
                    with tracer(within.decode("latin-1"), f"{route.method} {route.path}"):
                        reply = await answering
                else:
                    reply = await answering
                if isinstance(reply, Stream):
                    self._told(scope["method"], route, 200, None)
                    with self._services.changes.seat(call.actor):
                        await self._stream(reply, call, send, extra, is_head=scope["method"] == "HEAD")
                    return
            status = reply.status or route.status
            extra.extend(reply.headers)
            body = b"" if status in _EMPTY else reply.content if isinstance(reply.content, bytes) else _encoder.encode(reply.content)
            kind = _JSON_TYPE if reply.media is None else (b"content-type", reply.media)
        except ClientGone:
            return
        except DulyError as error:
            if isinstance(error, LimitReached):
                extra.extend(error.headers)
            status, body, kind = self._refused(problem_of(error, request_id), call, scope, extra)
        except Exception as error:  # a bug of ours must not become a hang, nor tell the caller about our insides
            where = "routing" if route is None else f"{route.method} {route.path}"
            status, body, kind = self._refused(fault(error, request_id, where), call, scope, extra)
        self._told(scope["method"], route, status, asked)
        about_body: Headers = [] if status in BARE else [(b"content-length", b"%d" % len(body))]
        if body:
            about_body.append(kind)
        # A page may be stricter about itself than what is said of every answer.
        said = {name for name, _ in extra}
        security = [header for header in SECURITY_HEADERS if header[0] not in said]
        start: Message = {
            "type": "http.response.start",
            "status": status,
            "headers": [*about_body, (b"x-request-id", request_id.encode()), *security, *extra],
        }
        await send(start)
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _route(self, call: Call, scope: Scope, extra: Headers) -> tuple[Route, bytes, bytes, bytes | None]:
        """The route, after the key and the role have been checked. Without a key nobody learns which paths there are."""
        # An application that we are mounted in says where: what comes before is not ours.
        path: bytes = (scope.get("raw_path") or b"").removeprefix(scope.get("root_path", "").encode())
        found = self.table.find(path)
        method: str = scope["method"]
        # Who asks with HEAD asks what GET would answer, without the answer's body.
        asked = "GET" if method == "HEAD" else method
        route = None if found is None else found[0].get(asked)
        if self._services.metrics_public and path == _METRICS_PATH:
            call.known_actor = _PASSER_BY
        elif path not in _PUBLIC_PATHS:
            if route is None or not await self._let_in_by_link(call, route, scope):
                await self._let_in(call, scope, extra)
            if self._limit is not None and (route is None or route.role is not Role.WORKER):
                # The worker protocol paces itself, by long polls; who is slowed down there loses its leases.
                extra.extend(self._limit.admit(call.actor.key_id))
        if found is None:
            raise no_such_route()
        by_method, segment = found
        if route is None:
            allowed = ", ".join(sorted({*by_method, *(("HEAD",) if "GET" in by_method else ())}))
            extra.append((b"allow", allowed.encode()))
            raise Invalid("DULY-E202", f"This route takes {allowed}.")
        if route.role is not None:
            auth.demand(call.actor, route.role)
            if asked != "GET":
                call.known_actor = attributed(call.actor, call.headers, call.request_id)
        return route, asked.encode(), path, segment

    async def _let_in_by_link(self, call: Call, route: Route, scope: Scope) -> bool:
        """Whether an address has let the caller in: for the one thing that it shows, and only where no key was sent."""
        token = None if route.by_link is None else auth.link_token(scope.get("query_string", b""))
        if token is None or route.by_link is None or b"authorization" in call.headers:
            return False
        call.services, call.known_actor, call.link = await self._homes.by_link(token, route.by_link)
        return True

    async def _let_in(self, call: Call, scope: Scope, extra: Headers) -> None:
        """Learn who asks; a browser must also show that it asks of its own will."""
        client = scope.get("client")
        peer, visiting = None if client is None else client[0], scope.get("duly.visitor")
        services, caller = await self._homes.recognise(call.headers, peer, visiting)
        call.services = services
        auth.demand_own_page(caller, scope["method"], call.headers, services.gate, is_tls=call.is_secure)
        call.caller, call.known_actor = caller, caller.actor
        if caller.session is not None and caller.session.renew:
            extra.append(auth.session_cookie(caller.session, services.clock.now(), secure=call.is_secure))

    async def _stream(self, stream: Stream, call: Call, send: Send, extra: Headers, *, is_head: bool) -> None:
        """Send events until they end, the caller hangs up or the server stops."""
        kind = _STREAM_TYPE if stream.media is None else (b"content-type", stream.media)
        about = [kind, *stream.headers, (b"x-request-id", call.request_id.encode()), (b"x-accel-buffering", b"no")]
        headers = [*about, *SECURITY_HEADERS, *extra]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if is_head:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
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
        if not stopped[0].cancelled() or (stream.media is not None and outcomes[0] is not None):
            # Half a file must not look like a whole one: the connection ends without its end.
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _refused(
        self, answer: tuple[int, Problem, Headers], call: Call, scope: Scope, extra: Headers
    ) -> tuple[int, bytes, tuple[bytes, bytes]]:
        """A problem document, or a page that says the same to whoever asked for a page."""
        status, problem, headers = answer
        extra.extend(headers)
        if self._pages is not None and scope["method"] in ("GET", "HEAD") and b"text/html" in call.headers.get(b"accept", b""):
            body, headers = self._pages.refusal(problem, call.prefix)
            extra.extend(headers)
            return status, body, _PAGE_TYPE
        return status, _encoder.encode(problem), _PROBLEM_TYPE

    def _told(self, method: str, route: Route | None, status: int, asked: Micros | None) -> None:
        """What was answered, and since when it was asked; of paths and methods that we do not have no name is kept."""
        telemetry = self._services.telemetry
        path = OTHER if route is None else route.path
        telemetry.count(REQUESTS, (method if route is not None else OTHER, path, str(status)))
        if asked is not None:
            telemetry.observe(REQUEST_SECONDS, (self._services.clock.boottime() - asked) / SECOND, (path,))

    def _request_id(self, headers: dict[bytes, bytes]) -> str:
        sent = headers.get(b"x-request-id")
        if sent is not None and _REQUEST_ID.fullmatch(sent):
            return sent.decode()
        return f"req_{self._entropy(96):024x}"


def _headers_of(scope: Scope, read: frozenset[bytes]) -> dict[bytes, bytes]:
    """The headers that are read. A repeated one is joined by commas, as if it were a list; none of ours that matters takes one."""
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in read:
            found[name] = found[name] + b", " + value if name in found else value
    return found


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
