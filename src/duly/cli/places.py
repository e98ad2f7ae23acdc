"""Paths and addresses as they are shown."""

from __future__ import annotations

import os
from urllib.parse import urlsplit


def near(path: str | os.PathLike[str]) -> str:
    """A path as it is shortest from here."""
    full = os.path.abspath(path)
    relative = os.path.relpath(full)
    return full if relative.startswith("..") else relative


def masked(url: str) -> str:
    """A store's address without its password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":…@")).geturl()
