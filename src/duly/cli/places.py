"""Paths and addresses as they are shown."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from duly.domain.redaction import without_credentials


def near(path: str | os.PathLike[str]) -> str:
    """A path as it is shortest from here."""
    full = os.path.abspath(path)
    relative = os.path.relpath(full)
    return full if relative.startswith("..") else relative


def masked(url: str) -> str:
    """A store's address without its password."""
    parts = urlsplit(without_credentials(url) if "?" in url else url)
    if parts.password is None:
        return parts.geturl() if parts.query else url
    return parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":…@")).geturl()
