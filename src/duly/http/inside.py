"""The public API, asked from inside by a page: the same routes with the caller's own identity, and the same problems.

A page is a GET, and a GET changes nothing: only routes that read can be asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec

from duly.http import auth

if TYPE_CHECKING:
    from duly.http.routing import Call, Table

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()

Wanted = Mapping[str, str | int | None]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API has answered: the JSON of its body, and the headers of its own."""

    content: Any
    headers: list[tuple[bytes, bytes]]


async def ask(table: Table, call: Call, path: str, wanted: Wanted | None = None) -> Answer:
    """Ask `GET path` as the caller of `call`. Raises what the route raises: the problem is the same as over the wire."""
    found = table.find(path.encode())
    route = None if found is None else found[0].get("GET")
    if found is None or route is None or route.role is None:
        raise LookupError(f"GET {path} is no route of the API")
    auth.demand(call.actor, route.role)
    pairs = [(name, str(value)) for name, value in (wanted or {}).items() if value is not None]
    # What the page's own request says of itself (what it accepts, which version it has) is not said of this one.
    asked = replace(call, headers={}, listing="")
    reply = await route.answer_to(asked, b"GET", path.encode(), found[1], urlencode(pairs).encode())
    content, headers = getattr(reply, "content", None), getattr(reply, "headers", ())
    return Answer(_decoder.decode(_encoder.encode(content)), list(headers))
