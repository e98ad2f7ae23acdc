"""Durations as people write them: `90s`, `15m`, `2h`, `1h30m`, `3d`, or a number of seconds."""

from __future__ import annotations

import re
from datetime import timedelta

from duly.domain.errors import Invalid
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND, Micros

_UNITS: dict[str, Micros] = {"us": 1, "ms": 1000, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(us|ms|s|m|h|d|w)")
LONGEST: Micros = 3660 * DAY


def parse_duration(value: str | int | float | timedelta, *, field: str | None = None) -> Micros:
    """Microseconds of a duration; a bare number means seconds. Raises Invalid for anything else, negatives included."""
    if isinstance(value, timedelta):
        micros = value // timedelta(microseconds=1)
    elif isinstance(value, bool):
        raise _refuse(value, field)
    elif isinstance(value, int | float):
        if value != value or abs(value) > LONGEST:
            raise _refuse(value, field)
        micros = round(value * SECOND)
    else:
        micros = _from_text(value, field)
    if not 0 <= micros <= LONGEST:
        raise _refuse(value, field)
    return micros


def _from_text(text: str, field: str | None) -> Micros:
    compact = text.strip().replace(" ", "") if len(text) <= 64 else ""
    micros, at = 0.0, 0
    while at < len(compact):
        part = _PART.match(compact, at)
        if part is None:
            raise _refuse(text, field)
        micros += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    if not compact:
        raise _refuse(text, field)
    return round(micros)


def format_duration(micros: Micros) -> str:
    """The shortest exact text: `90s` is `1m30s`, half a second `500ms`."""
    if micros == 0:
        return "0s"
    parts: list[str] = []
    rest = micros
    for unit in ("d", "h", "m", "s", "ms", "us"):
        size = _UNITS[unit]
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def _refuse(value: object, field: str | None) -> Invalid:
    shown = repr(value)[:60]
    return Invalid("DULY-E104", f"{shown} is not a duration.", field=field, hint="Write 90s, 15m, 2h, 1h30m or 3d (at most ten years).")
