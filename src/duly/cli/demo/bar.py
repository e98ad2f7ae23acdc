"""How fast the demo's time passes: a bar on top of every page, its files, and the route behind it. Nothing of it is in a server.

Pages come as the dashboard makes them, and the bar is put into them here. It is the same in all of them, so what they say of themselves
(their ETags) stays true: how fast time passes is asked for by its script.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import replace
from html import escape
from importlib import resources
from typing import Literal

from msgspec import Struct

from duly.cli.demo.town import SPEEDS, Town
from duly.dashboard.assets import TYPES
from duly.domain.access import Role
from duly.domain.instants import to_rfc3339
from duly.http.routing import Call, Handler, Reply, Route, Stream, route

FILES = {name: resources.files("duly.cli.demo").joinpath("static", name).read_bytes() for name in ("time.css", "time.js")}
HEAD_ENDS, CONTENT_BEGINS = b"</head>", b'<main id="main" tabindex="-1">'

_HEAD = '<link rel="stylesheet" href="{root}/demo/time.css"><script src="{root}/demo/time.js"></script>'
_BAR = """
<form class="demo-time" data-demo-time aria-label="Demo time">
<p><strong>Demo time</strong> <time data-demo-now>&nbsp;</time></p>
<fieldset><legend class="visually-hidden">How fast demo time passes</legend>{choices}</fieldset>
<p class="demo-note" data-demo-note></p>
<p class="visually-hidden" role="status" data-demo-said></p>
</form>
"""
_CHOICE = '<label><input type="radio" name="speed" value="{speed}"><span>{speed}×</span></label>'


class TimeView(Struct, rename="camel", kw_only=True):
    """What time it is in the demo, how fast it is to pass, and how fast it does."""

    now: str
    speed: int
    reached: float


class TimeShape(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """How fast it is to pass."""

    speed: Literal[1, 10, 60, 600, 3600]


def routes(town: Town) -> list[Route]:
    """Those that only the demo has."""

    def seen() -> TimeView:
        return TimeView(now=to_rfc3339(town.now), speed=town.speed, reached=round(town.reached, 1))

    @route("GET", "/demo/time", role=Role.VIEWER, answer=TimeView)
    async def show_demo_time(call: Call) -> Reply:
        """What time it is in the demo"""
        return Reply(seen())

    @route("PUT", "/demo/time", role=Role.OPERATOR, answer=TimeView)
    async def set_demo_speed(call: Call, body: TimeShape) -> Reply:
        """Let the demo's time pass faster or slower"""
        town.set_speed(body.speed)
        return Reply(seen())

    return [show_demo_time, set_demo_speed, *(_file(name, content) for name, content in FILES.items())]


def on_top_of(routes: Iterable[Route]) -> list[Route]:
    """The pages among these with the bar on top."""
    return [replace(each, handle=_with_bar(each)) if each.html else each for each in routes]


def _with_bar(page: Route) -> Handler:
    @functools.wraps(page.handle)
    async def handle(call: Call, *arguments: object) -> Reply | Stream:
        reply = await page.handle(call, *arguments)
        if isinstance(reply, Reply) and isinstance(reply.content, bytes) and HEAD_ENDS in reply.content:
            reply.content = _put_in(reply.content, call.prefix)
        return reply

    return handle


def _put_in(content: bytes, root: str) -> bytes:
    head = _HEAD.format(root=escape(root, quote=True)).encode()
    whole = _BAR.format(choices="".join(_CHOICE.format(speed=speed) for speed in SPEEDS)).encode()
    return content.replace(HEAD_ENDS, head + HEAD_ENDS, 1).replace(CONTENT_BEGINS, CONTENT_BEGINS + whole, 1)


def _file(name: str, content: bytes) -> Route:
    async def show_demo_file(call: Call) -> Reply:
        """A file that the bar needs"""
        return Reply(content, headers=[(b"cache-control", b"no-cache")], media=TYPES[name[name.rfind(".") :]])

    return route("GET", f"/demo/{name}", role=Role.VIEWER, answer=None, text=name)(show_demo_file)
