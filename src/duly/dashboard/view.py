"""One page on its way to a browser: who looks, what the API answers them, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from jinja2 import TemplateNotFound, UndefinedError
from msgspec import Meta, Struct

from duly.dashboard import navigation, rendering
from duly.dashboard.assets import edition
from duly.dashboard.commands import Commands
from duly.dashboard.preferences import Preferences, preferences_of
from duly.domain.access import Role
from duly.domain.errors import Invalid
from duly.domain.instants import Instant, to_rfc3339
from duly.http.routing import Call, Reply, route

HTML = b"text/html; charset=utf-8"
NOT_MODIFIED = 304
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    b"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    (b"x-robots-tag", b"noindex"),
    # Kept, but asked about each time: the back button shows what is so now.
    (b"cache-control", b"private, no-cache"),
    (b"vary", b"Cookie"),
)

# Declares a page: `@page("/jobs")` on a handler that takes the call, the path's id if there is one, and a PageQuery.
page = partial(route, "GET", role=Role.VIEWER, answer=None, html=True)


class PageQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """What every page's address may carry. With `part` a fragment of that name is answered instead of the page."""

    part: Annotated[str, Meta(pattern=r"^[a-z]{1,20}\Z")] | None = None


@dataclass(slots=True)
class View:
    """A page for one caller. All that it shows comes from `get`."""

    call: Call
    path: str
    query: PageQuery
    session: dict[str, Any]
    preferences: Preferences
    now: Instant
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)

    @classmethod
    async def of(cls, call: Call, path: str, query: PageQuery) -> View:
        """The view of whoever calls. A browser that has no token against forged requests yet is given one."""
        answer = await call.ask("/v1/session")
        return cls(call, path, query, answer.content, preferences_of(call.headers), call.now, answer.headers)

    async def get(self, path: str, **wanted: str | int | None) -> Any:
        """What the public API answers to `GET path`, as JSON. Names of parameters are those of the API. Raises as it does."""
        return (await self.call.ask(path, wanted)).content

    async def get_if(self, is_wanted: bool, path: str, **wanted: str | int | None) -> Any:
        """The same where it is wanted, else None: for what is asked for side by side."""
        return await self.get(path, **wanted) if is_wanted else None

    @property
    def root(self) -> str:
        """What comes before every path."""
        return self.call.prefix

    @property
    def static(self) -> str:
        """Where the files of the dashboard are."""
        return f"{self.root}/static/{edition()}"

    @property
    def places(self) -> tuple[navigation.Place, ...]:
        """The sidebar: where the caller may go."""
        return tuple(place for place in navigation.PLACES if self.may(place.role))

    @property
    def now_text(self) -> str:
        """The server's time."""
        return to_rfc3339(self.now)

    def may(self, role: str) -> bool:
        """Whether the caller's role suffices: what it may not do is not offered."""
        return self.call.actor.may(Role[role])

    def wants(self, *parts: str) -> bool:
        """Whether one of these parts is asked for: all of them are on the page."""
        return self.query.part is None or self.query.part in parts

    def here(self, **changed: str | int | None) -> str:
        """This page's address with some of its parameters changed, and without what stands for a page of a list."""
        said = {name: value for name, value in msgspec.to_builtins(self.query).items() if value not in (None, "", [])}
        said.pop("part", None)
        said.pop("cursor", None)
        for name, value in changed.items():
            said.pop(name, None) if value is None else said.update({name: value})
        default = msgspec.to_builtins(type(self.query)())
        said = {name: value for name, value in said.items() if default.get(name) != value or name in changed}
        return f"{self.root}{self.path}" + (f"?{urlencode(said)}" if said else "")

    def page(self, screen: str, title: str, commands: Commands | None = None, **context: Any) -> Reply:
        """The page of a screen, or the part of it that is asked for, with an ETag either way."""
        part = self.query.part
        template = f"pages/{screen}.html" if part is None else f"fragments/{screen}/{part}.html"
        try:
            content = rendering.render(template, self, {"title": title, "commands": commands, **context})
        except (TemplateNotFound, UndefinedError):
            if part is None:
                raise
            # No page of ours asks for a part that it does not show.
            raise Invalid("DULY-E106", "is no part of this page.", field="part") from None
        tag = b'"%b"' % sha256(content).hexdigest()[:20].encode()
        headers = [*HEADERS, *self.headers, (b"etag", tag)]
        if self.call.headers.get(b"if-none-match") == tag:
            return Reply(None, status=NOT_MODIFIED, headers=headers)
        return Reply(content, headers=headers, media=HTML)
