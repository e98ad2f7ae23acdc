"""Who asks: a key, a browser's session, or a user whom a believed proxy names. Tenant and role come from there and from nowhere else.

A key in `Authorization: Bearer` comes before all else. What a browser sends by itself (the cookie, whatever makes its proxy
vouch for it) is not enough to change anything: such a request must also come from our own pages, and carry the token that
only they can read.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network, IPv6Network, ip_address
from urllib.parse import urlsplit

from duly.domain.access import VISITING, Actor, Role, Visitor
from duly.domain.errors import Forbidden
from duly.domain.instants import SECOND, Instant
from duly.usecases.access import Access
from duly.usecases.sessions import Session, Sessions, csrf_token

SCHEME = "bearer "
SESSION_COOKIE = "duly_session"
# Beside a proxy's word there is no session; this cookie's secret is what the CSRF token of such a browser is derived from.
CSRF_COOKIE = "duly_csrf"
LINK_PARAMETER = b"token="
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

Headers = Mapping[bytes, bytes]
# Asks the application that we are mounted in whom it has logged in.
Visiting = Callable[[], Awaitable[Visitor | None]]
_SECRET = re.compile(r"[!-~]{8,200}")


@dataclass(frozen=True, slots=True)
class Gate:
    """How people come in besides keys. `public_url` is the address that their browsers see, if it is known.

    A proxy is believed when it connects from one of `networks`; `header` then names the user, and `users` says who that is:
    the tenant's name and the role.
    """

    public_url: str | None = None
    header: bytes | None = None
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    users: Mapping[str, tuple[str, Role]] = field(default_factory=dict)

    @property
    def public_origin(self) -> str | None:
        """Scheme, host and port of the public address."""
        if self.public_url is None:
            return None
        parts = urlsplit(self.public_url)
        return f"{parts.scheme}://{parts.netloc}".lower()

    @property
    def prefix(self) -> str:
        """The path of the public address: a proxy takes it away before it asks us."""
        return "" if self.public_url is None else urlsplit(self.public_url).path.rstrip("/")

    def believes(self, peer: str | None) -> bool:
        """Whether the header of whoever connects from here is taken."""
        if peer is None or not self.networks:
            return False
        try:
            address = ip_address(peer)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self.networks)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. `again` asks once more whether that still holds; `csrf` is what a browser must show to change something."""

    actor: Actor
    again: Callable[[], Awaitable[object | None]]
    csrf: str | None = None
    is_browser: bool = False
    session: Session | None = None
    user: str | None = None


async def recognise(
    access: Access, sessions: Sessions, gate: Gate, headers: Headers, peer: str | None, visiting: Visiting | None = None
) -> Caller:
    """The one who asks. Raises Forbidden: a 401 for nobody we know (why, is not said), a 403 for a user who is not let in."""
    key = bearer(headers)
    if key is not None:
        actor = await access.recognise(key)
        if actor is None:
            raise Forbidden("DULY-E302", "The key is not valid.", field="Authorization")
        return Caller(actor, lambda: access.recognise(key))
    id = cookie(headers, SESSION_COOKIE)
    session = None if id is None else await sessions.recognise(id)
    if id is not None and session is not None:
        return Caller(session.actor, lambda: sessions.recognise(id, is_use=False), session.csrf_token, True, session)
    visitor = None if visiting is None else await visiting()
    if visitor is not None:
        return await _visit(sessions, headers, visitor, visiting)
    user = _vouched_for(gate, headers, peer)
    if user is not None:
        return await _user(sessions, gate, headers, user)
    if id is not None:
        raise Forbidden("DULY-E308", "The session is not valid.", field="Cookie")
    raise Forbidden("DULY-E301", "This needs a key.", field="Authorization")


def link_token(query_string: bytes) -> str | None:
    """The token of an address that shows one thing; None when there is none, or more than one."""
    found = [pair[len(LINK_PARAMETER) :] for pair in query_string.split(b"&") if pair.startswith(LINK_PARAMETER)]
    return found[0].decode("latin-1") if len(found) == 1 else None


def demand(actor: Actor, role: Role) -> None:
    """Raises Forbidden when the actor's role does not suffice."""
    if not actor.may(role):
        raise Forbidden("DULY-E303", f"This needs the role {role.name}; the key has {actor.role.name}.", field="Authorization")


def demand_own_page(caller: Caller, method: str, headers: Headers, gate: Gate, *, is_tls: bool) -> None:
    """Raises Forbidden when a browser would change something by a request that is not surely from our own pages."""
    if not caller.is_browser or method in SAFE_METHODS:
        return
    if not is_own_origin(headers, gate, is_tls=is_tls):
        raise Forbidden("DULY-E309", "The request does not come from a page of this server.", field="Origin")
    shown = headers.get(b"x-csrf-token", b"")
    if caller.csrf is None or not hmac.compare_digest(shown, caller.csrf.encode()):
        raise Forbidden("DULY-E310", "The CSRF token is missing or wrong.", field="X-CSRF-Token")


def is_own_origin(headers: Headers, gate: Gate, *, is_tls: bool) -> bool:
    """Whether the browser says that the request comes from a page of ours. One that says nothing is not believed."""
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site is not None and site != b"same-origin":
        return False
    if origin is None or (origin == b"null" and site is not None):
        # A page that sends no referrer has the origin null; the browser's own word about the site is as good.
        return site is not None
    return _is_ours(origin, headers, gate, is_tls=is_tls)


def is_foreign(headers: Headers, gate: Gate, *, is_tls: bool) -> bool:
    """Whether a browser says that the request comes from somewhere else. What is no browser says nothing."""
    return (b"sec-fetch-site" in headers or b"origin" in headers) and not is_own_origin(headers, gate, is_tls=is_tls)


def is_secure(headers: Headers, gate: Gate, scheme: str) -> bool:
    """Whether the browser's way to us is https, here or at a proxy. Only ever makes a cookie stricter, so anybody may say so."""
    said = headers.get(b"x-forwarded-proto", b"").strip().lower()
    return scheme == "https" or said == b"https" or (gate.public_url or "").startswith("https://")


def bearer(headers: Headers) -> str | None:
    """The key that was sent; None when there is none. An Authorization of another scheme is not ours: a proxy may need it."""
    sent = headers.get(b"authorization")
    if sent is None:
        return None
    text = sent.decode("latin-1")
    return text[len(SCHEME) :].strip(" ") if text[: len(SCHEME)].lower() == SCHEME else None


def cookie(headers: Headers, name: str) -> str | None:
    """The value of a cookie; None when there is none. Two of one name are none: one of them was set by somebody else."""
    sent = headers.get(b"cookie")
    if sent is None:
        return None
    # Two Cookie headers were joined by a comma on the way; ours never has one.
    pairs = (pair.partition("=") for pair in re.split("[;,]", sent.decode("latin-1")))
    found = [value.strip() for key, _, value in pairs if key.strip() == name]
    return found[0] if len(found) == 1 and _SECRET.fullmatch(found[0]) else None


def set_cookie(name: str, value: str, *, seconds: int, secure: bool) -> tuple[bytes, bytes]:
    """A header that sets a cookie for our own pages only; 0 seconds take it away."""
    words = f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict"
    return b"set-cookie", (words + ("; Secure" if secure else "")).encode()


def session_cookie(session: Session, now: Instant, *, secure: bool) -> tuple[bytes, bytes]:
    """The cookie of a session, which lasts as long as it does."""
    return set_cookie(SESSION_COOKIE, session.id, seconds=max(session.ends_at - now, 0) // SECOND, secure=secure)


def _is_ours(origin: bytes, headers: Headers, gate: Gate, *, is_tls: bool) -> bool:
    text = origin.decode("latin-1").lower()
    if text == gate.public_origin:
        return True
    scheme, separator, place = text.partition("://")
    host = headers.get(b"host", b"").decode("latin-1").lower()
    # On the way of https a page of plain http is somebody else's, whatever its name.
    return bool(separator and host) and place == host and scheme in (("https",) if is_tls else ("http", "https"))


def _vouched_for(gate: Gate, headers: Headers, peer: str | None) -> str | None:
    """The user whom a believed proxy names; anybody else's header is as if it were not there."""
    if gate.header is None or not gate.users or not gate.believes(peer):
        return None
    sent = headers.get(gate.header)
    return None if sent is None else sent.decode("utf-8", "replace").strip()


async def _user(sessions: Sessions, gate: Gate, headers: Headers, user: str) -> Caller:
    known = gate.users.get(user)
    caller = None if known is None else await _let_in(sessions, headers, user, known, "proxy")
    if caller is None:
        raise Forbidden("DULY-E311", "This user may not enter.", field=(gate.header or b"").decode())
    return caller


async def _visit(sessions: Sessions, headers: Headers, visitor: Visitor, visiting: Visiting | None) -> Caller:
    """A visitor stays one for as long as the application around us says the same."""
    caller = await _let_in(sessions, headers, visitor.name, (visitor.tenant, VISITING[visitor.role]), "dashboard")
    if caller is None:
        raise Forbidden("DULY-E311", "This user may not enter.", field="tenant")

    async def again() -> object | None:
        found = None if visiting is None else await visiting()
        return found if found == visitor else None

    return replace(caller, again=again)


async def _let_in(sessions: Sessions, headers: Headers, user: str, known: tuple[str, Role], channel: str) -> Caller | None:
    """Somebody whom another has logged in; None when there is no such tenant."""
    tenant, role = known
    number = await sessions.tenant(tenant)
    if number is None:
        return None
    secret = cookie(headers, CSRF_COOKIE)

    async def again() -> object:
        return await sessions.tenant(tenant)

    csrf = None if secret is None else csrf_token(secret, user)
    return Caller(Actor(number, tenant, role, user, channel=channel), again, csrf, True, user=user)
