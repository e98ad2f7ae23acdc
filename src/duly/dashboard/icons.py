"""Icons as paths on a grid of 16, drawn with the colour of the text beside them."""

from __future__ import annotations

from functools import cache

from markupsafe import Markup

_STROKED = {
    "overview": "M2.5 9.5v4M6.2 5.5v8M9.9 8v5.5M13.5 2.5v11",
    "upcoming": "M2.5 3.5h11v10h-11zM2.5 6.5h11M5.5 1.8v3M10.5 1.8v3M5 9h2M9 9h2M5 11.3h2",
    "jobs": "M2.5 4h1M6 4h7.5M2.5 8h1M6 8h7.5M2.5 12h1M6 12h7.5",
    "executions": "M8 2a6 6 0 1 0 .01 0M6.7 5.6v4.8L10.6 8z",
    "dead-letters": "M2 4h12v8.5H2zM2.3 4.4 8 9l5.7-4.6M5 7.5",
    "workers": "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
    "workflows": "M3.2 2.5h3v3h-3zM9.8 10.5h3v3h-3zM3.2 10.5h3v3h-3zM4.7 5.5v5M6.2 12h3.6M6.2 4h3.6a1.5 1.5 0 0 1 1.5 1.5v5",
    "tenants": "M6 7.5a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4M2 13c0-2.4 1.7-3.9 4-3.9s4 1.5 4 3.9M10.6 7.6a1.9 1.9 0 1 0-.8-3.7M11.7 9.4c1.5.3 2.4 1.6 2.4 3.3",
    "alerts": "M8 2.2c-2.4 0-4 1.8-4 4.2 0 3.4-1.4 4.4-1.4 4.4h10.8S12 9.8 12 6.400c0-2.4-1.6-4.2-4-4.200M6.7 13.200a1.4 1.4 0 0 0 2.6 0",
    "audit": "M4 2h6l2.5 2.500V14H4zM6 7.500h4.500M6 10h4.500M9.8 2.200v2.600h2.5",
    "cluster": "M8 2.2 13 5v6l-5 2.800L3 11V5zM3.2 5.1 8 8l4.8-2.900M8 8v5.6",
    "search": "M7 2.500a4.5 4.5 0 1 0 .01 0M10.3 10.300l3.4 3.4",
    "theme": "M8 2.200a5.8 5.8 0 1 0 .01 0M8 2.200v11.6",
    "code": "M5.5 4.5 2 8l3.5 3.500M10.5 4.5 14 8l-3.5 3.500M9.2 3l-2.4 10",
    "clock": "M8 2a6 6 0 1 0 .01 0M8 4.800V8l2.3 1.5",
    "pause": "M5.8 3.500v9M10.2 3.500v9",
    "play": "M5 3.200v9.600L12.5 8z",
    "skip": "M3.5 3.500v9L10 8zM12.2 3.500v9",
    "stop": "M4 4h8v8H4z",
    "retry": "M13 8a5 5 0 1 1-1.6-3.700M13.3 2.200v3h-3",
    "replay": "M3 8a5 5 0 1 0 1.6-3.700M2.7 2.200v3h3",
    "why": "M6 6a2 2 0 1 1 2.9 1.800c-.6.3-.9.7-.9 1.400M8 11.600h.01M8 2a6 6 0 1 0 .01 0",
    "discard": "M3 4.500h10M6.5 4.500V3h3v1.500M4.3 4.500l.6 8.500h6.200l.6-8.500M6.8 7v3.800M9.2 7v3.8",
    "link": "M6.8 9.200a2.6 2.6 0 0 0 3.7 0l2-2a2.6 2.6 0 0 0-3.7-3.700l-.9.900M9.2 6.800a2.6 2.6 0 0 0-3.7 0l-2 2a2.6 2.6 0 0 0 3.7 3.700l.9-.9",
    "copy": "M5.5 5.500h7.500V13H5.500zM3 10.500V3h7.5",
    "check": "M3 8.5 6.5 12 13 4.5",
    "cross": "M4 4l8 8M12 4l-8 8",
    "warning": "M8 2.5 14 13H2zM8 6.500v3M8 11.300h.01",
    "menu": "M2.5 4.500h11M2.5 8h11M2.5 11.500h11",
    "chevron": "M6 4l4 4-4 4",
    "download": "M8 2.500v7.500M5 7.3 8 10.300l3-3M3 13h10",
    "hourglass": "M4.5 2.500h7M4.5 13.500h7M5.2 2.500c0 3 2.8 3.5 2.8 5.500s-2.8 2.5-2.8 5.500M10.8 2.500c0 3-2.8 3.5-2.8 5.500s2.8 2.5 2.8 5.5",
    "lock": "M4 7.500h8V13H4zM5.5 7.500V5.300a2.5 2.5 0 0 1 5 0v2.2",
}
# States, each of a shape of its own, so that none is told by its colour alone.
_STATES = {
    "succeeded": "M8 1.800a6.2 6.2 0 1 0 0 12.400A6.2 6.2 0 0 0 8 1.800m3 4.7-3.7 4.200a.7.7 0 0 1-1 0L4.9 9.300a.7.7 0 0 1 1-1l.9.9 3.2-3.600a.7.7 0 1 1 1 .9",
    "dead": "M5.4 1.800h5.200l3.6 3.600v5.200l-3.6 3.600H5.400l-3.6-3.600V5.400zM6.3 5.300a.7.7 0 0 0-1 1L7 8 5.3 9.700a.7.7 0 0 0 1 1L8 9l1.7 1.700a.7.7 0 0 0 1-1L9 8l1.7-1.700a.7.7 0 0 0-1-1L8 7z",
    "running": "M8 1.800a6.2 6.2 0 1 0 0 12.400A6.2 6.2 0 0 0 8 1.800M6.6 5.2 11 8l-4.4 2.800z",
    "pending": "M8 1.800a6.2 6.2 0 1 0 0 12.400A6.2 6.2 0 0 0 8 1.800m0 1.500a4.7 4.7 0 1 1 0 9.4 4.7 4.7 0 0 1 0-9.400m0 2.200a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5",
    "scheduled": "M8 1.800a6.2 6.2 0 1 0 0 12.400A6.2 6.2 0 0 0 8 1.800m0 1.500a4.7 4.7 0 1 1 0 9.4 4.7 4.7 0 0 1 0-9.400m-.7 1.700v3.300l2.5 1.5.7-1.2-1.8-1V5z",
    "retrying": "M8 1.800a6.2 6.2 0 1 0 6.2 6.200h-1.600A4.6 4.6 0 1 1 11 4.500L9.3 6.200h4.900V1.400l-2 2A6.1 6.1 0 0 0 8 1.8",
    "blocked": "M8 1.3 14.7 8 8 14.7 1.3 8zM5 7.200v1.600h6V7.200z",
    "cancelled": "M8 1.800a6.2 6.2 0 1 0 0 12.400A6.2 6.2 0 0 0 8 1.800M4.8 7.200h6.400v1.600H4.800z",
    "skipped": "M3 3.200v9.600l6-4.800zM10.5 3.200H13v9.600h-2.500z",
    "active": "M8 3.200a4.8 4.8 0 1 0 0 9.6 4.8 4.8 0 0 0 0-9.6",
    "paused": "M4 2.800h2.800v10.400H4zM9.2 2.800H12v10.400H9.200z",
    "completed": "M6.5 12.5 2.3 8.300l1.3-1.3 2.9 2.9 6-6.2 1.3 1.300z",
    "live": "M8 3.200a4.8 4.8 0 1 0 0 9.6 4.8 4.8 0 0 0 0-9.6",
    "draining": "M8 2.200a5.8 5.8 0 1 0 0 11.600A5.8 5.8 0 0 0 8 2.200m0 1.600v8.400a4.2 4.2 0 0 0 0-8.4",
    "lost": "M8 1.5 15 14H1zM7.2 6v4h1.600V6zm0 5v1.500h1.600V11z",
}


def sign(name: str) -> str:
    """The shape of a state as a path on a grid of 16, for drawings; nothing for what has none."""
    return _STATES.get(name, "")


@cache
def icon(name: str) -> Markup:
    """An icon; it says nothing to those who hear the page."""
    path = _STATES.get(name)
    if path is not None:
        return Markup('<svg class="icon solid" viewBox="0 0 16 16" aria-hidden="true"><path fill-rule="evenodd" d="{}"/></svg>').format(
            path
        )
    return Markup('<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d="{}"/></svg>').format(_STROKED.get(name, ""))
