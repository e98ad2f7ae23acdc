"""The files that pages load: each has a route of its own, so nothing beside them can be asked for.

They are behind the session like everything else. The path carries a digest of all of them: a browser may keep a file for good,
and a new version has new paths. During an upgrade a page of one version may meet a server of the other: it gets what is there,
and keeps it no longer than the page.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable

from duly.domain.access import Role
from duly.http.routing import Call, Reply, Route, route

TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
FOREVER = b"private, max-age=31536000, immutable"


def _walk(folder: Traversable, below: str = "") -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found |= _walk(entry, f"{below}{entry.name}/")
        elif entry.name[entry.name.rfind(".") :] in TYPES:
            found[below + entry.name] = entry.read_bytes()
    return found


FILES = _walk(resources.files("duly.dashboard").joinpath("static"))


@cache
def edition() -> str:
    """Sixteen digits that stand for all files as they are."""
    whole = sha256()
    for name, content in FILES.items():
        whole.update(name.encode() + b"\0" + sha256(content).digest())
    return whole.hexdigest()[:16]


def _asset(name: str, content: bytes) -> Route:
    tag = b'"%b"' % sha256(content).hexdigest()[:16].encode()
    media = TYPES[name[name.rfind(".") :]]

    async def show_asset(call: Call, edition: str) -> Reply:
        """A file that pages load"""
        keep = FOREVER if edition == _own_edition() else b"no-cache"
        headers = [(b"etag", tag), (b"cache-control", keep), (b"cross-origin-resource-policy", b"same-origin")]
        if call.headers.get(b"if-none-match") == tag:
            return Reply(None, status=304, headers=headers)
        return Reply(content, headers=headers, media=media)

    return route("GET", f"/static/{{edition}}/{name}", role=Role.VIEWER, answer=None, text=name)(show_asset)


_own_edition = edition
ROUTES = [_asset(name, content) for name, content in FILES.items()]
