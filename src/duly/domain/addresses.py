"""Addresses on the web: whether one can be taken apart. Whether anything may be sent there is for whoever sends to say."""

from __future__ import annotations

from urllib.parse import urlsplit

from duly.domain.secrets import references_in


def fault_of(url: str) -> str | None:
    """Why this is no address; None when it is one. Host and port may come from a secret: then nobody knows yet."""
    try:
        parts = urlsplit(url)
        if references_in(url):
            return None
        if parts.port == 0:
            return "nobody listens on port 0"
    except ValueError as error:
        return str(error)
    return None if parts.hostname or parts.scheme not in ("http", "https") else "it names no host"
