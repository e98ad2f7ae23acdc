"""What a query parameter may be: the texts that lists are filtered by."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from duly.wire.shapes import NO_NUL, pattern

FilterText = Annotated[str, Meta(min_length=1, max_length=128, extra_json_schema=NO_NUL)]
WorkerIdText = Annotated[str, Meta(extra_json_schema=pattern("^[0-9]{1,18}$"))]
_PathText = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=400,
        extra_json_schema=pattern("^[A-Za-z_][A-Za-z0-9_-]{0,63}([.][A-Za-z_][A-Za-z0-9_-]{0,63}){0,4}$"),
    ),
]
_ValueText = Annotated[str, Meta(max_length=256, extra_json_schema=NO_NUL)]
PayloadQuery = Annotated[
    dict[_PathText, _ValueText],
    Meta(
        max_length=4,
        description="The payload has this value at this path of object keys: payload.customer.id=42, or payload[customer.id]=42. "
        "Strings match whole; numbers, true, false and null as they are written.",
    ),
]
