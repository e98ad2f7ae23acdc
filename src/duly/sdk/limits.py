"""Limits as they are written in code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from duly.domain import limits
from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND, Micros
from duly.sdk.checks import whole

Key = str | Sequence[str]

_SHORT = re.compile(r"\s*([0-9]{1,9})\s*(?:/|\bper\b)\s*(.+?)\s*", re.IGNORECASE)
_UNITS = {
    "s": SECOND,
    "sec": SECOND,
    "second": SECOND,
    "m": MINUTE,
    "min": MINUTE,
    "minute": MINUTE,
    "h": HOUR,
    "hour": HOUR,
    "d": DAY,
    "day": DAY,
}


class Concurrency:
    """`Concurrency(3, key="user_id")`: at most three at a time for each user. With a `name`, together with every job that uses it."""

    __slots__ = ("limit",)

    def __init__(self, max: int, *, key: Key = (), name: str | None = None) -> None:
        self.limit = limits.Concurrency(max=whole(max, "concurrency", 'Concurrency(3, key="user_id")'), key=_fields(key), name=name)


class Rate:
    """`Rate(100, per="1m")`: at most a hundred starts in any minute; per value of `key`, shared by `name`."""

    __slots__ = ("limit",)

    def __init__(self, count: int, *, per: str | float | timedelta = "1s", key: Key = (), name: str | None = None) -> None:
        count = whole(count, "rate", 'Rate(100, per="1m"), or rate="100/m"')
        self.limit = limits.Rate(count=count, per=parse_duration(per, field="per"), key=_fields(key), name=name)


def rate_of(given: Any) -> Rate | None:
    """What `rate=` may be: a Rate, or text such as "100/m", "10/s", "5 per minute" or "20/15m"."""
    if given is None or isinstance(given, Rate):
        return given
    hint = 'Write rate="100/m", or Rate(100, per="1m", key="user_id").'
    short = _SHORT.fullmatch(given) if isinstance(given, str) else None
    if short is None:
        raise Invalid("DULY-E118", f"{repr(given)[:60]} is not a rate.", field="rate", hint=hint)
    try:
        return Rate(int(short[1]), per=timedelta(microseconds=_period(short[2])))
    except Invalid as error:
        # The text is one option: a fault in its parts is told with all of it.
        raise Invalid("DULY-E118", f"{given[:60]!r} is not a rate: {error.message}", field="rate", hint=hint) from None


def _period(text: str) -> Micros:
    unit = _UNITS.get(text.lower())
    return parse_duration(text, field="rate") if unit is None else unit


def unique_of(unique: Any, window: str | float | timedelta | None) -> limits.Unique | None:
    """`unique="user_id"`: one per user until it is final; True: one per payload; `unique_for="1h"`: one in that time."""
    if unique is None or unique is False:
        if window is not None:
            raise Invalid("DULY-E118", "unique_for goes with unique.", field="unique_for", hint="For example unique=True.")
        return None
    if unique is not True and not isinstance(unique, str | Sequence):
        hint = 'Write unique="user_id", unique=["user_id", "day"], or unique=True for the whole payload.'
        raise Invalid("DULY-E118", f"{repr(unique)[:60]} names no argument.", field="unique", hint=hint)
    span = None if window is None else parse_duration(window, field="unique_for")
    return limits.Unique(key=() if unique is True else _fields(unique), window=span)


def _fields(key: Key) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)
