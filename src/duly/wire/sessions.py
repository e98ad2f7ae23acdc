"""Sessions of browsers on the wire."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from duly.wire.keys import RoleName
from duly.wire.shapes import NO_NUL, Shape, View

Token = Annotated[str, Meta(max_length=200, extra_json_schema=NO_NUL)]


class SessionRole(StrEnum):
    """What a session may do."""

    VIEWER = "VIEWER"
    OPERATOR = "OPERATOR"
    ADMIN = "ADMIN"


class LinkShape(Shape, kw_only=True):
    """A login link to be made. A role below the key's own makes a session that may do less."""

    role: SessionRole | None = None


class LinkView(View, kw_only=True):
    """A link for one login: open it in a browser. It works once, until it expires."""

    url: str
    tenant: str
    role: RoleName
    expires_at: str


class LoginShape(Shape, kw_only=True):
    """The form of the login page."""

    token: Token


class SessionView(View, kw_only=True):
    """Who you are. `csrfToken` is for browsers: it goes into X-CSRF-Token of every request that changes something."""

    tenant: str
    role: RoleName
    # The key behind it, or the user whom a proxy named.
    actor: str
    channel: str
    expires_at: str | None
    csrf_token: str | None
