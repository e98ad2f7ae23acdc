"""The payload as it leaves the worker."""

from __future__ import annotations

import msgspec

from duly.ports.handlers import Attempt


def payload_json(attempt: Attempt) -> bytes:
    """The payload as JSON. Without one an empty object: many receivers refuse a bare `null` as a document."""
    return b"{}" if attempt.payload is None else msgspec.json.encode(attempt.payload)
