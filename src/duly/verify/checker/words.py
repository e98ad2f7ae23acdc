"""Instants and lengths of time as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from duly.verify.history import SECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def when(at: int) -> str:
    """An instant, to the microsecond where it has any."""
    return (_EPOCH + timedelta(microseconds=at)).isoformat().replace("+00:00", "Z")


def span(micros: int) -> str:
    """A length of time, with all its digits: what is early by a microsecond is early."""
    return f"{micros / SECOND:.6f}".rstrip("0").rstrip(".") + " s"
