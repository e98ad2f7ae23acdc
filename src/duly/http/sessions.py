"""Browsers: a link for one login, the page that uses it, who you are, and the way out.

Opening the link changes nothing, because mail programs and messengers open links by themselves: its page has one button, and
only the form behind it uses the link up.
"""

from __future__ import annotations

from html import escape
from secrets import token_hex

from msgspec import Struct

from duly.domain.access import Role
from duly.domain.codes import CODES
from duly.domain.errors import Forbidden
from duly.http.auth import CSRF_COOKIE, SESSION_COOKIE, Headers, cookie, is_foreign, session_cookie, set_cookie
from duly.http.homes import begin_session
from duly.http.routing import Call, Reply, route
from duly.usecases.sessions import csrf_token
from duly.wire.keys import RoleName
from duly.wire.sessions import LinkShape, LinkView, LoginShape, SessionView, Token
from duly.wire.shapes import shown

HTML = b"text/html; charset=utf-8"
PAGE_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"),
    # With no referrer at all the form's request would not say where it comes from.
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"x-robots-tag", b"noindex"),
)
HOW = "Run <code>duly login</code> where your key is, and open the link that it prints."

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Duly: log in</title></head>
<body><main><h1>Duly</h1>{content}</main></body>
</html>
"""
_FORM = """
<form method="post" action="{prefix}/login">
<input type="hidden" name="token" value="{token}">
<p>This link logs this browser in, once.</p>
<button type="submit">Log in</button>
</form>
"""


class LoginQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """What a link carries."""

    token: Token | None = None


@route(
    "POST",
    "/v1/sessions/link",
    role=Role.VIEWER,
    status=201,
    answer=LinkView,
    problems=("DULY-E213", "DULY-E313"),
    body_optional=True,
    idempotent=True,
    examples={"to look around": {"role": "VIEWER"}},
)
async def create_login_link(call: Call, body: LinkShape) -> Reply:
    """Make a link that logs one browser in, once, within five minutes"""
    actor = call.actor
    token, link = await call.services.sessions.link(actor, None if body.role is None else Role[body.role.name], call.idempotency)
    url = f"{(call.services.gate.public_url or '').rstrip('/')}/login?token={token}"
    return Reply(LinkView(url=url, tenant=actor.tenant_name, role=RoleName[link.role], expires_at=shown(link.expires_at) or ""))


@route("GET", "/login", role=None, answer=None, html=True, problems=("DULY-E106", "DULY-E110"))
async def show_login(call: Call, query: LoginQuery) -> Reply:
    """The page of a login link; opening it changes nothing"""
    return _page(f"<p>{HOW}</p>" if not query.token else _FORM.format(token=escape(query.token, quote=True), prefix=escape(call.prefix)))


@route(
    "POST",
    "/login",
    role=None,
    answer=None,
    status=303,
    form=True,
    problems=("DULY-E309", "DULY-E312", "DULY-E501"),
    limit=4096,
    response_headers={"Location": "The dashboard.", "Set-Cookie": "The session."},
    examples={"a link's token": {"token": "duly_0123456789abcdef"}},
)
async def log_in(call: Call, body: LoginShape) -> Reply:
    """Use a login link up: sets the session's cookie and leads to the dashboard"""
    services, headers = call.services, call.headers
    try:
        if is_foreign(headers, services.gate, is_tls=call.is_secure):
            raise Forbidden("DULY-E309", "The form was sent from another site.", field="Origin")
        session = await begin_session(services, body.token, cookie(headers, SESSION_COOKIE), call.request_id)
    except Forbidden as error:
        if not _wants_page(headers):
            raise
        code = CODES[error.code]
        return _page(f"<p>{escape(code.title)}.</p><p>{HOW}</p>", code.status)
    given = session_cookie(session, services.clock.now(), secure=call.is_secure)
    return Reply(None, headers=[(b"location", f"{call.prefix}/".encode()), given])


@route("POST", "/logout", role=Role.VIEWER, answer=None, status=204)
async def log_out(call: Call) -> Reply:
    """End this browser's session; a key goes on working"""
    if call.caller is not None and call.caller.session is not None:
        await call.services.sessions.log_out(call.actor, call.caller.session.id)
    return Reply(None, headers=[set_cookie(name, "", seconds=0, secure=call.is_secure) for name in (SESSION_COOKIE, CSRF_COOKIE)])


@route("GET", "/v1/session", role=Role.VIEWER, answer=SessionView)
async def show_session(call: Call) -> Reply:
    """Who you are, and for browsers the token that every change must carry"""
    caller, actor = call.caller, call.actor
    assert caller is not None
    csrf, headers = caller.csrf, []
    if caller.user is not None and csrf is None:
        # Beside a proxy there is no session to bind the token to: a secret of this browser's own takes its place.
        secret = token_hex(32)
        csrf = csrf_token(secret, caller.user)
        headers.append(set_cookie(CSRF_COOKIE, secret, seconds=7 * 86_400, secure=call.is_secure))
    return Reply(
        SessionView(
            tenant=actor.tenant_name,
            role=RoleName[actor.role.name],
            actor=actor.key_id,
            channel=actor.channel,
            expires_at=None if caller.session is None else shown(caller.session.ends_at),
            csrf_token=csrf,
        ),
        headers=headers,
    )


def _page(content: str, status: int = 200) -> Reply:
    return Reply(_PAGE.format(content=content).encode(), status, PAGE_HEADERS, HTML)


def _wants_page(headers: Headers) -> bool:
    return b"text/html" in headers.get(b"accept", b"")


ROUTES = [create_login_link, show_login, log_in, log_out, show_session]
