"""Times and spans as a test writes them: `2026-10-24 12:00 Europe/Berlin`, `3 days`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid
from duly.domain.instants import Instant, Micros, from_datetime, to_datetime
from duly.domain.zones import load_zone

Moment = str | datetime
Span = str | float | timedelta

_UNIT = re.compile(r"(?<=\d)\s*(weeks?|days?|hours?|minutes?|mins?|seconds?|secs?)\b", re.IGNORECASE)
_ZONED = re.compile(r"\s*(\S+(?:[ T]\S+)?)\s+([A-Za-z][\w+\-/]*)\s*")


def span_of(given: Span, field: str) -> Micros:
    """How long: what durations are everywhere, and the units in full as well. Raises Invalid (DULY-E104)."""
    if isinstance(given, str):
        given = _UNIT.sub(lambda unit: unit[1][0].lower(), given)
    return parse_duration(given, field=field)


def moment_of(given: Any, field: str, zone: str | None = None) -> tuple[Instant, str | None]:
    """When, and the zone that it is told in, if that is named; `zone` counts where none is. Raises Invalid (DULY-E105).

    Of a time that the clocks show twice the first is meant.
    """
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise _refuse(repr(given), field)
        return from_datetime(given), getattr(given.tzinfo, "key", None)
    if not isinstance(given, str):
        raise _refuse(repr(given), field)
    text, named = given.strip(), zone
    if (zoned := _ZONED.fullmatch(text)) is not None:
        text, named = zoned[1], zoned[2]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _refuse(given, field) from None
    if moment.tzinfo is not None:
        return from_datetime(moment), zone
    if named is None:
        raise _refuse(given, field)
    local = moment.replace(tzinfo=UTC if named == "UTC" else load_zone(named))
    if local.astimezone(UTC).astimezone(local.tzinfo).replace(tzinfo=None) != moment:
        hint = "The clocks jump over it there: write the time before or after the jump."
        raise Invalid("DULY-E105", f"{given!r} does not exist.", field=field, hint=hint)
    return from_datetime(local), named


def shown(at: Instant, zone: str) -> str:
    """An instant on the clocks of a zone, as tests compare it: `2026-10-25 02:30+02:00`, with seconds only when there are some."""
    local = to_datetime(at).astimezone(load_zone(zone))
    precision = "minutes" if not local.second and not local.microsecond else "auto"
    return local.isoformat(sep=" ", timespec=precision)


def _refuse(given: str, field: str) -> Invalid:
    hint = "Write it with its zone: '2026-10-24 12:00 Europe/Berlin', '2026-10-24T10:00Z', or a datetime with a zone."
    return Invalid("DULY-E105", f"{given[:60]!r} names no instant.", field=field, hint=hint)
