"""What every shape shares: camelCase names, unknown keys refused, bounded text."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from duly.domain.errors import Invalid, TooLarge
from duly.domain.instants import LATEST, Instant, from_datetime, to_rfc3339

Item = TypeVar("Item")

# One job or execution, payload included; a batch holds many of them.
LARGEST_OBJECT = 256 * 1024


def pattern(expression: str) -> dict[str, Any]:
    """A pattern for the OpenAPI document only: the domain enforces it, with a better message and without the `$` that takes a newline."""
    return {"pattern": expression}


def held_to(expression: str) -> dict[str, Any]:
    """A pattern that the decoder enforces, for texts that nothing behind it looks at: `$` would take a newline, `\\Z` does not."""
    return {"pattern": rf"{expression.removesuffix('$')}\Z", "extra_json_schema": pattern(expression)}


NO_NUL = pattern("^[^\\u0000]*$")

# Milliseconds and seconds on the wire are bounded well inside what a microsecond bigint holds.
Text = Annotated[str, Meta(max_length=1024, extra_json_schema=NO_NUL)]
Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        description="Letters, digits and . _ : / @ -, starting with a letter or digit.",
        extra_json_schema=pattern("^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"),
    ),
]
PoolName = Annotated[str, Meta(min_length=1, max_length=64, extra_json_schema=pattern("^[A-Za-z0-9][A-Za-z0-9._-]*$"))]
Label = Annotated[str, Meta(min_length=1, max_length=63, extra_json_schema=pattern("^[A-Za-z0-9][A-Za-z0-9._/-]*$"))]
LabelValue = Annotated[str, Meta(max_length=63, extra_json_schema=pattern("^([A-Za-z0-9][A-Za-z0-9._/-]*)?$"))]
ZoneName = Annotated[
    str, Meta(min_length=1, max_length=64, examples=["Europe/Berlin"], extra_json_schema=pattern("^[A-Za-z][A-Za-z0-9_+/-]*$"))
]
ScheduleText = Annotated[
    str,
    Meta(
        max_length=512,
        description="A cron expression, or words that mean one; with type RRULE a recurrence rule (RFC 5545).",
        examples=["0 3 * * *", "every weekday at 07:30", "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9"],
        extra_json_schema=pattern("^[A-Za-z0-9*/,#?@ ;=:+-]+$"),
    ),
]
CalendarName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        description="Letters, digits and . _ -, starting with a letter or digit.",
        examples=["de-holidays"],
        extra_json_schema=pattern("^[A-Za-z0-9][A-Za-z0-9._-]*$"),
    ),
]
Moment = Annotated[
    datetime,
    Meta(
        tz=True,
        description="RFC 3339 with an offset, such as 2026-03-08T07:00:00Z, from 1970 to 9999.",
        extra_json_schema=pattern("^(19[7-9][0-9]|[2-9][0-9]{3})-"),
    ),
]
Seconds = Annotated[float, Meta(ge=0, le=315_360_000)]
Millis = Annotated[int, Meta(ge=0, le=2_592_000_000)]


class Shape(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True, omit_defaults=False):
    """A request body: a key that is not known is an error, never ignored."""


class NothingShape(Shape, kw_only=True):
    """An empty object: the request says all by its path."""


class View(Struct, rename="camel", kw_only=True):
    """An answer. New keys may be added in later versions; readers ignore what they do not know."""


class Page(View, Generic[Item], kw_only=True):
    """One page of a list; `nextCursor` is null on the last one."""

    items: list[Item]
    next_cursor: str | None = None


def moment(value: datetime | None, field: str) -> Instant | None:
    """An optional time from the wire as an instant. Raises Invalid when it lies outside 1970 to 9999."""
    if value is None:
        return None
    instant = from_datetime(value)
    if not 0 <= instant <= LATEST:
        raise Invalid("DULY-E105", "is out of range.", field=field, hint="Times lie between 1970 and 9999.")
    return instant


def shown(instant: Instant | None) -> str | None:
    """An optional instant as the wire shows it."""
    return None if instant is None else to_rfc3339(instant)


def shown_json(text: str | None) -> Any:
    """Stored JSON text as it is embedded in an answer, not decoded and encoded again."""
    return None if text is None else msgspec.Raw(text.encode())


_any_json = msgspec.json.Decoder()


def json_text(raw: msgspec.Raw | msgspec.UnsetType, field: str, most: int = LARGEST_OBJECT) -> str | None:
    """JSON from the wire as the text that is stored, exactly as it was sent; None when it was left out.

    Raw skips what a decoder would refuse, so it is decoded once here: what a worker could not read must not be accepted.
    """
    if isinstance(raw, msgspec.UnsetType):
        return None
    text = bytes(raw)
    if len(text) > most:
        raise TooLarge("DULY-E109", f"has {len(text):,} bytes; {most:,} are the limit.", field=field)
    try:
        _any_json.decode(text)
        return text.decode()
    except ValueError as exc:
        raise Invalid("DULY-E106", f"{str(exc).partition(' - at ')[0]}.", field=field, hint="Send large numbers as strings.") from exc
