"""The typed-route layer: a route is declared once, and routing, checking, decoding and the OpenAPI document follow from it.

    @route("GET", "/v1/jobs/{jobId}", role=Role.VIEWER, answer=JobDetailView, problems=("DULY-E204",))
    async def show_job(call: Call, job_id: JobId) -> Reply: ...

The signature says what a route takes: `name` and ids such as `job_id` come from the path, `query`
and `body` are msgspec structs. Matching is exact and on the raw bytes of the path: nothing is
decoded, normalised, redirected or case-folded, so there is one spelling of every path. Whoever
is not in PUBLIC needs a key, whether the path exists or not.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Receive

from duly.domain.access import Actor, Role
from duly.domain.alerts.evaluate import parse_incident_id
from duly.domain.calendars import parse_calendar_name
from duly.domain.errors import Forbidden, Invalid, NotFound
from duly.domain.ids import parse_batch_id, parse_execution_id, parse_job_id, parse_key_id, parse_worker_id
from duly.domain.instants import HOUR, Instant
from duly.domain.job import parse_pool_name
from duly.domain.tenants import parse_tenant_name
from duly.http.auth import Caller, is_secure
from duly.http.inside import Answer, Wanted, ask
from duly.http.limits import FORM, JSON, check_text, read_body
from duly.http.problems import refusal
from duly.http.services import Services
from duly.ports.links import LinkAddress
from duly.ports.store import Idempotency
from duly.usecases.links import parse_link_id
from duly.wire.shapes import LARGEST_OBJECT

# The whole of it: a login must be possible without a key, and nothing else will be added.
PUBLIC = frozenset({"/healthz", "/readyz", "/version", "/login"})
KEEP_IDEMPOTENCY_KEYS = 24 * HOUR

_PATH_IDS: dict[str, tuple[str, Callable[[str], object]]] = {
    "{jobId}": ("job_id", parse_job_id),
    "{executionId}": ("execution_id", parse_execution_id),
    "{workerId}": ("worker_id", parse_worker_id),
    "{keyId}": ("key_id", parse_key_id),
    "{batchId}": ("batch_id", parse_batch_id),
    "{name}": ("name", parse_calendar_name),
    "{tenant}": ("tenant", parse_tenant_name),
    "{pool}": ("pool", parse_pool_name),
    # Stands for the contents of all files that pages load, so that a browser may keep each for good.
    "{edition}": ("edition", str),
    "{incidentId}": ("incident_id", parse_incident_id),
    "{linkId}": ("link_id", parse_link_id),
}
_SEGMENT = re.compile(rb"[A-Za-z0-9_~-][A-Za-z0-9_.~:@!$&'()*+,=-]*")
# One value of a map: `payload.customer` or, as OpenAPI's deepObject has it, `payload[customer]`.
_MEMBER = re.compile(r"(?P<of>[A-Za-z]+)(?:\.(?P<dotted>.+)|\[(?P<bracketed>[^\]]+)\])", re.DOTALL)
_OF_PAGES = frozenset({"limit", "cursor"})
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_IDEMPOTENCY_KEY = re.compile(rb"[!-~]{1,200}")


@dataclass(slots=True)
class Reply:
    """What a handler answers. Status 0 means the route's own."""

    content: object
    status: int = 0
    headers: Sequence[tuple[bytes, bytes]] = ()
    # With a type of its own the content is bytes, sent as they are; JSON otherwise.
    media: bytes | None = None


@dataclass(slots=True)
class Stream:
    """An answer that goes on: server-sent events until the iterator ends, the caller hangs up or the server stops.

    With a type of its own it is a file, sent as it is made: whoever reads it sees by how it ends whether it is whole.
    """

    events: AsyncIterator[bytes]
    media: bytes | None = None
    headers: Sequence[tuple[bytes, bytes]] = ()


@dataclass(slots=True)
class Call:
    """One request on its way to a handler."""

    services: Services
    headers: dict[bytes, bytes]
    request_id: str
    closing: asyncio.Event
    sleep: Callable[[float], Awaitable[None]]
    receive: Receive
    scheme: str = "http"
    caller: Caller | None = None
    idempotency: Idempotency | None = None
    known_actor: Actor | None = None
    # What stands for the list that is asked for: its path and filter, whatever the page.
    listing: str = ""
    # The path below which browsers see this server; empty when it has a host name of its own.
    prefix: str = ""
    # The routes there are, for pages that ask the API from inside.
    table: Table | None = None
    # What has let the caller in, where it was no key: an address that shows one thing.
    link: LinkAddress | None = None

    @property
    def actor(self) -> Actor:
        """Who asks. A public route has nobody to ask for."""
        if self.known_actor is None:
            raise Forbidden("DULY-E301", "This needs a key.", field="Authorization")
        return self.known_actor

    def walled_tenant(self, route: Route) -> int | None:
        """Behind whose wall the store is asked. A worker takes from the queues of all whom it serves; its leases say what is its."""
        return None if self.known_actor is None or route.role is Role.WORKER else self.known_actor.tenant

    async def is_still_known(self) -> bool:
        """Whether whoever asked is still let in: for answers that go on, a revoked key or an ended session ends them."""
        return self.caller is not None and await self.caller.again() is not None

    async def ask(self, path: str, wanted: Wanted | None = None) -> Answer:
        """What the public API answers this caller to `GET path`, from inside. Raises as the route does."""
        assert self.table is not None
        return await ask(self.table, self, path, wanted)

    @property
    def now(self) -> Instant:
        """The time by the store's clock."""
        return self.services.clock.now()

    @property
    def is_secure(self) -> bool:
        """Whether the browser's way to us is https."""
        return is_secure(self.headers, self.services.gate, self.scheme)


Handler = Callable[..., Awaitable[Reply | Stream]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A declared route. `role` None is public; `problems` are the codes that its own work may raise.

    One that `streams` answers events, on demand; with `answer` None it answers nothing else.
    """

    method: str
    path: str
    handle: Handler
    role: Role | None
    status: int
    answer: Any
    also: Mapping[int, str]
    problems: Sequence[str]
    query: type[msgspec.Struct] | None
    body: type[msgspec.Struct] | None
    body_optional: bool
    limit: int
    idempotent: bool
    request_headers: Mapping[str, Mapping[str, Any]]
    response_headers: Mapping[str, str]
    examples: Mapping[str, Any]
    streams: bool
    form: bool
    html: bool
    # One whose answer is text of its own: an example of it, and its kind.
    text: str
    media: str
    # The kind of link that opens it without a key.
    by_link: str | None
    decoder: msgspec.json.Decoder[Any] | None
    path_id: Callable[[str], object] | None
    integers: frozenset[str] = frozenset()
    maps: frozenset[str] = frozenset()
    has_pages: bool = False

    @property
    def name(self) -> str:
        """The operation's id: the handler's name as the wire writes names."""
        first, *rest = self.handle.__name__.split("_")
        return first + "".join(word.capitalize() for word in rest)

    async def answer_to(self, call: Call, method: bytes, path: bytes, segment: bytes | None, query_string: bytes) -> Reply | Stream:
        """Check and decode what was sent, in the order of cost, and let the handler answer."""
        arguments: list[object] = []
        if self.path_id is not None:
            arguments.append(self.path_id((segment or b"").decode("latin-1")))
        if self.query is not None:
            arguments.append(self.parse_query(query_string))
            if self.has_pages:
                call.listing = _listing(path, query_string)
        elif query_string and self.role is not None:
            raise Invalid("DULY-E106", "This route takes no query parameters.", field=_first_name(query_string))
        if self.body is not None:
            body = await read_body(call.receive, call.headers, self.limit, FORM if self.form else JSON)
            arguments.append(self.parse_form(body) if self.form else self.decode(body))
            if self.idempotent:
                call.idempotency = idempotency_of(call, method, path, body)
        return await self.handle(call, *arguments)

    def decode(self, body: bytes) -> Any:
        """The body as its struct. An optional one that was not sent is all defaults."""
        assert self.body is not None
        assert self.decoder is not None
        if not body:
            if self.body_optional:
                return self.body()
            raise Invalid("DULY-E107", "The body is empty.", hint="Send a JSON object.")
        check_text(body)
        try:
            return self.decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise refusal(exc) from None

    def parse_query(self, query_string: bytes) -> Any:
        """The query as its struct. Unknown names, repeated names and malformed numbers are refused, never ignored."""
        assert self.query is not None
        return self._parsed(query_string, self.query)

    def parse_form(self, body: bytes) -> Any:
        """The body of a browser's form as its struct."""
        assert self.body is not None
        return self._parsed(body, self.body)

    def _parsed(self, query_string: bytes, kind: type[msgspec.Struct]) -> Any:
        found: dict[str, object] = {}
        seen: set[str] = set()
        for name, value in _pairs(query_string) if query_string else ():
            if name in seen:
                raise Invalid("DULY-E106", "stands twice in the query.", field=name)
            seen.add(name)
            if "\x00" in value or "\x00" in name:
                raise Invalid("DULY-E110", "contains a NUL character.", field=name.replace("\x00", ""))
            if (member := _MEMBER.fullmatch(name)) and member["of"] in self.maps:
                inside = found.setdefault(member["of"], {})
                assert isinstance(inside, dict)
                key = member["dotted"] or member["bracketed"]
                if key in inside:
                    raise Invalid("DULY-E106", "stands twice in the query.", field=name)
                inside[key] = value
            elif name in self.integers:
                if not _INTEGER.fullmatch(value):
                    raise Invalid("DULY-E106", "must be a whole number.", field=name)
                found[name] = int(value)
            else:
                found[name] = value
        try:
            return msgspec.convert(found, kind)
        except msgspec.ValidationError as exc:
            raise refusal(exc) from None


def route(
    method: str,
    path: str,
    *,
    role: Role | None,
    answer: Any,
    status: int = 200,
    also: Mapping[int, str] | None = None,
    problems: Sequence[str] = (),
    body_optional: bool = False,
    limit: int = LARGEST_OBJECT,
    idempotent: bool = False,
    request_headers: Mapping[str, Mapping[str, Any]] | None = None,
    response_headers: Mapping[str, str] | None = None,
    examples: Mapping[str, Any] | None = None,
    streams: bool = False,
    form: bool = False,
    html: bool = False,
    text: str = "",
    media: str = "text/plain",
    by_link: str | None = None,
) -> Callable[[Handler], Route]:
    """Declare a handler's route; see the top of this module."""
    if (role is None) is not (path in PUBLIC):
        raise ValueError(f"{path}: a route has a role unless it is one of {sorted(PUBLIC)}")
    if by_link is not None and (method != "GET" or role is not Role.VIEWER):
        raise ValueError(f"{path}: a link shows what a viewer may read, and changes nothing")

    def declare(handle: Handler) -> Route:
        hints = get_type_hints(handle)
        takes = list(inspect.signature(handle).parameters)[1:]
        ids = [_PATH_IDS[segment] for segment in path.split("/") if segment.startswith("{")]
        if takes != [name for name, _ in ids] + [name for name in ("query", "body") if name in hints]:
            raise ValueError(f"{handle.__name__} takes {takes}; {path} has {[name for name, _ in ids]}, then come query and body")
        query, body = hints.get("query"), hints.get("body")
        return Route(
            method=method,
            path=path,
            handle=handle,
            role=role,
            status=status,
            answer=answer,
            also=also or {},
            problems=problems,
            query=query,
            body=body,
            body_optional=body_optional,
            limit=limit,
            idempotent=idempotent,
            request_headers=request_headers or {},
            response_headers=response_headers or {},
            examples=examples or {},
            streams=streams,
            form=form,
            html=html,
            text=text,
            media=media,
            by_link=by_link,
            decoder=None if body is None else msgspec.json.Decoder(body),
            path_id=ids[0][1] if ids else None,
            integers=frozenset() if query is None else _named(query, msgspec.inspect.IntType),
            maps=frozenset() if query is None else _named(query, msgspec.inspect.DictType),
            has_pages=query is not None and "cursor" in query.__struct_encode_fields__,
        )

    return declare


@dataclass(slots=True)
class Table:
    """All routes, by the exact bytes of their paths."""

    routes: Sequence[Route]
    _fixed: dict[bytes, dict[str, Route]] = field(default_factory=dict)
    _shaped: dict[tuple[bytes, ...], dict[str, Route]] = field(default_factory=dict)
    # By number of segments: where an id may stand.
    _places: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for declared in self.routes:
            parts = declared.path.encode().split(b"/")
            places = [place for place, part in enumerate(parts) if part.startswith(b"{")]
            if not places:
                found = self._fixed.setdefault(declared.path.encode(), {})
            else:
                (place,) = places
                parts[place] = b"{}"
                found = self._shaped.setdefault(tuple(parts), {})
                if place not in self._places.setdefault(len(parts), []):
                    self._places[len(parts)].append(place)
            if declared.method in found:
                raise ValueError(f"{declared.method} {declared.path} is declared twice")
            found[declared.method] = declared

    def find(self, path: bytes) -> tuple[dict[str, Route], bytes | None] | None:
        """The routes of a path by method, and the id that stands in it; None when there are none."""
        fixed = self._fixed.get(path)
        if fixed is not None:
            return fixed, None
        parts = path.split(b"/")
        for place in self._places.get(len(parts), ()):
            segment = parts[place]
            parts[place] = b"{}"
            shaped = self._shaped.get(tuple(parts))
            if shaped is not None and _SEGMENT.fullmatch(segment):
                return shaped, segment
            parts[place] = segment
        return None


def no_such_route() -> NotFound:
    """The answer to whoever has a key and asks for what there is not."""
    return NotFound("DULY-E201", "There is no such route.")


def idempotency_of(call: Call, method: bytes, path: bytes, body: bytes) -> Idempotency | None:
    """The caller's Idempotency-Key with the hash of what it stands for; None when there is none."""
    sent = call.headers.get(b"idempotency-key")
    if sent is None:
        return None
    if not _IDEMPOTENCY_KEY.fullmatch(sent):
        raise Invalid("DULY-E116", "must be 1 to 200 visible ASCII characters.", field="Idempotency-Key")
    digest = sha256(b"%b %b\n%b" % (method, path, body)).digest()
    return Idempotency(key=sent.decode(), body_hash=digest, expires_at=call.services.clock.now() + KEEP_IDEMPOTENCY_KEYS)


def _pairs(query_string: bytes) -> list[tuple[str, str]]:
    try:
        text = query_string.decode("ascii")
        return parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=32)
    except ValueError:
        raise Invalid("DULY-E106", "The query string is malformed.", hint="name=value pairs joined by &, percent-encoded UTF-8.") from None


def _first_name(query_string: bytes) -> str:
    return query_string.split(b"&")[0].split(b"=")[0].decode("latin-1")[:64]


def _listing(path: bytes, query_string: bytes) -> str:
    pairs = sorted(pair for pair in (_pairs(query_string) if query_string else ()) if pair[0] not in _OF_PAGES)
    return repr((path, pairs))


def _named(query: type[msgspec.Struct], kind: type[msgspec.inspect.Type]) -> frozenset[str]:
    """The wire names of a query's fields of one kind: numbers arrive as text, and maps member by member."""
    info = msgspec.inspect.type_info(query)
    assert isinstance(info, msgspec.inspect.StructType)
    return frozenset(item.encode_name for item in info.fields if _is_of(item.type, kind))


def _is_of(found: msgspec.inspect.Type, kind: type[msgspec.inspect.Type]) -> bool:
    if isinstance(found, msgspec.inspect.Metadata):
        return _is_of(found.type, kind)
    if isinstance(found, msgspec.inspect.UnionType):
        return any(_is_of(member, kind) for member in found.types)
    return isinstance(found, kind)
