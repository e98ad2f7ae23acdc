"""Limits as they are written in code."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from duly.domain import limits
from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid

Key = str | Sequence[str]


class Concurrency:
    """`Concurrency(3, key="user_id")`: at most three at a time for each user. With a `name`, together with every job that uses it."""

    __slots__ = ("limit",)

    def __init__(self, max: int, *, key: Key = (), name: str | None = None) -> None:
        self.limit = limits.Concurrency(max=max, key=_fields(key), name=name)


class Rate:
    """`Rate(100, per="1m")`: at most a hundred starts in any minute; per value of `key`, shared by `name`."""

    __slots__ = ("limit",)

    def __init__(self, count: int, *, per: str | float | timedelta = "1s", key: Key = (), name: str | None = None) -> None:
        self.limit = limits.Rate(count=count, per=parse_duration(per, field="per"), key=_fields(key), name=name)


def unique_of(unique: bool | Key | None, window: str | float | timedelta | None) -> limits.Unique | None:
    """`unique="user_id"`: one per user until it is final; True: one per payload; `unique_for="1h"`: one in that time."""
    if unique is None or unique is False:
        if window is not None:
            raise Invalid("DULY-E118", "unique_for goes with unique.", field="unique_for", hint="For example unique=True.")
        return None
    span = None if window is None else parse_duration(window, field="unique_for")
    return limits.Unique(key=() if unique is True else _fields(unique), window=span)


def _fields(key: Key) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)
