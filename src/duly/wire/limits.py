"""Limits on the wire, and their translation to and from the domain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from duly.domain.instants import SECOND
from duly.wire.shapes import NO_NUL, Name, Shape

if TYPE_CHECKING:
    from duly.domain.limits import Limits

Field = Annotated[str, Meta(min_length=1, max_length=128, examples=["user_id"], extra_json_schema=NO_NUL)]
Key = Field | Annotated[list[Field], Meta(max_length=8)]
Capacity = Annotated[int, Meta(ge=1, le=100_000)]


class ConcurrencyShape(Shape, kw_only=True):
    """At most `max` attempts at a time: per value of the payload's fields `key`; with a `name`, together with every job that uses it."""

    max: Capacity
    key: Key = []
    name: Name | None = None


class RateShape(Shape, kw_only=True):
    """At most `count` starts in any `perSec` seconds: per value of the payload's fields `key`, shared by `name`."""

    count: Capacity
    per_sec: Annotated[float, Meta(ge=0.001, le=2_678_400)] = 1.0
    key: Key = []
    name: Name | None = None


class UniqueShape(Shape, kw_only=True):
    """Enqueued once per value of the payload's fields `key` (none: of the whole payload): until it is final, or for `forSec`."""

    key: Key = []
    for_sec: Annotated[float, Meta(ge=0.001, le=2_678_400)] | None = None


def limit_fields(limits: Limits) -> dict[str, Any]:
    """The fields of a job's view that say its limits."""
    running, rate, unique = limits.concurrency, limits.rate, limits.unique
    return {
        "max_concurrent": limits.max_concurrent,
        "concurrency": None if running is None else ConcurrencyShape(max=running.max, key=list(running.key), name=running.name),
        "rate_limit": None if rate is None else RateShape(count=rate.count, per_sec=rate.per / SECOND, key=list(rate.key), name=rate.name),
        "unique": None
        if unique is None
        else UniqueShape(key=list(unique.key), for_sec=None if unique.window is None else unique.window / SECOND),
    }
