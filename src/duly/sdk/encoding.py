"""Bodies of requests as JSON: a Secret in a payload goes as the server knows it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec

from duly.domain.secrets import Secret


def given(**values: Any) -> dict[str, Any]:
    """Only what was given; a payload of None is given."""
    return {name: value for name, value in values.items() if value is not msgspec.UNSET and (value is not None or name == "payload")}


def encoded(body: Any) -> bytes:
    """A request's body. Raises TypeError for what is not JSON."""
    return msgspec.json.encode(body, enc_hook=_as_json)


def _as_json(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.to_json()
    raise TypeError(f"{type(value).__name__} is not JSON")


def with_query(path: str, **values: str | int | None) -> str:
    """A path with what is asked for; None is not asked for."""
    asked = {name: value for name, value in values.items() if value is not None}
    return f"{path}?{urlencode(asked)}" if asked else path
