"""The dashboard beside a Django project, in its ASGI process:

    application = with_dashboard(get_asgi_application())                          # who comes needs a link or a key, as ever
    application = with_dashboard(get_asgi_application(), auth=by_permission)      # or is a user of yours who may

`DULY_DASHBOARD = "/duly/"` in the settings says where; the admin leads there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlsplit

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections
from django.http import HttpRequest
from django.utils.module_loading import import_string

from duly.django.jobs import application
from duly.domain.access import Visitor

Asgi = Callable[[Any, Any, Any], Awaitable[None]]
# What a user of the project may do in the dashboard: "viewer", "operator", "admin", or None for nothing.
Roles = Callable[[Any], str | None]


def by_permission(user: Any) -> str | None:
    """As the permissions of the app `duly` say: `view_dashboard`, `operate_dashboard`, `administer_dashboard`. Superusers have all."""
    wanted = (("admin", "administer"), ("operator", "operate"), ("viewer", "view"))
    return next((role for role, verb in wanted if user.has_perm(f"duly.{verb}_dashboard")), None)


def with_dashboard(project: Asgi, auth: Roles | None = None) -> Asgi:
    """The project with the dashboard below the path of `DULY_DASHBOARD`. The server's lifespan opens and closes it, where there is one."""
    prefix = urlsplit(str(getattr(settings, "DULY_DASHBOARD", None) or "")).path.rstrip("/")
    if not prefix:
        raise ImproperlyConfigured('DULY_DASHBOARD says where the dashboard is, such as "/duly/".')

    async def visitor(request: Any) -> Visitor | None:
        return await sync_to_async(_visitor)(request.headers.get("cookie", ""), auth)

    dashboard = application().dashboard(auth=None if auth is None else visitor)

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] == "lifespan" or path.startswith(f"{prefix}/"):
            inside = scope if scope["type"] == "lifespan" else {**scope, "root_path": scope.get("root_path", "") + prefix}
            await dashboard(inside, receive, send)
        elif path == prefix and scope["type"] == "http":
            location = f"{scope.get('root_path', '')}{prefix}/".encode()
            await send({"type": "http.response.start", "status": 307, "headers": [(b"location", location), (b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
        else:
            await project(scope, receive, send)

    return serve


def _visitor(cookies: str, roles: Roles | None) -> Visitor | None:
    """The user of the project's session, with Django's own checks; nobody when there is none, or it may not."""
    kept = SimpleCookie(cookies).get(settings.SESSION_COOKIE_NAME)
    if kept is None or roles is None:
        return None
    close_old_connections()
    try:
        request = HttpRequest()
        request.session = import_string(f"{settings.SESSION_ENGINE}.SessionStore")(kept.value)
        user = get_user(request)
        role = roles(user) if user.is_authenticated and user.is_active else None
        return None if role is None else Visitor(user.get_username(), role)
    finally:
        close_old_connections()
