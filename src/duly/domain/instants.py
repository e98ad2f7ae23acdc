"""Instants: integer microseconds since 1970-01-01 UTC, the one representation of a moment.

The same number stands in both stores, in `rank`, and on the hot path; datetimes and
RFC 3339 text are made from it at the edges only.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

Instant = int
Micros = int

SECOND: Micros = 1_000_000
MINUTE: Micros = 60 * SECOND
HOUR: Micros = 60 * MINUTE
DAY: Micros = 24 * HOUR

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Nothing before 1970 fires, and datetimes end with the year 9999.
LATEST: Instant = 253_402_300_799 * SECOND


def from_datetime(moment: datetime) -> Instant:
    """The instant of an aware datetime, exact to the microsecond."""
    if moment.tzinfo is None:
        raise ValueError("a datetime without a zone names no instant")
    return (moment - EPOCH) // timedelta(microseconds=1)


def to_datetime(instant: Instant) -> datetime:
    """The instant as an aware datetime in UTC."""
    return EPOCH + timedelta(microseconds=instant)


def to_rfc3339(instant: Instant) -> str:
    """RFC 3339 in UTC with a Z; fractions only when there are some."""
    text = to_datetime(instant).isoformat()
    return text.removesuffix("+00:00") + "Z"


def from_rfc3339(text: str) -> Instant:
    """Parse RFC 3339 with an offset. Raises ValueError for anything else, local times included."""
    if len(text) > 40 or "T" not in text.upper():
        raise ValueError("expected a time such as 2026-03-08T07:00:00Z")
    moment = datetime.fromisoformat(text.upper())
    if moment.tzinfo is None:
        raise ValueError("the time needs an offset, such as Z or +02:00")
    return from_datetime(moment)


# A week has ten thousand minutes, which are told and read at once: those of an hour share all but two digits.
_HOURS_KEPT = 2_000


def minute_text(minute: Instant) -> str:
    """`to_rfc3339` of an instant that is a whole minute."""
    return f"{_hour_text(minute // HOUR)}{minute // MINUTE % 60:02}:00Z"


def minute_of(text: str) -> Instant:
    """The instant of what `minute_text` has told."""
    return _hour_of(text[:14]) + int(text[14:16]) * MINUTE


@lru_cache(_HOURS_KEPT)
def _hour_text(hour: int) -> str:
    return to_rfc3339(hour * HOUR)[:14]


@lru_cache(_HOURS_KEPT)
def _hour_of(text: str) -> Instant:
    return from_rfc3339(f"{text}00:00Z")
