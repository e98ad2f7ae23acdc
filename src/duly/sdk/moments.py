"""Times as somebody writes them in code."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from duly.domain.errors import Invalid
from duly.domain.instants import Instant, from_datetime


def instant_of(when: Any, field: str = "when") -> Instant:
    """An instant. Raises Invalid (DULY-E105) for what is no datetime, or one without a zone."""
    hint = "Use datetime.now(UTC) or a ZoneInfo."
    if not isinstance(when, datetime):
        raise Invalid("DULY-E105", f"{repr(when)[:60]} is not a datetime.", field=field, hint=hint)
    if when.tzinfo is None:
        raise Invalid("DULY-E105", "the time has no zone.", field=field, hint=hint)
    return from_datetime(when)
