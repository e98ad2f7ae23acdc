"""A stored error in a few words."""

from __future__ import annotations

from json import loads
from typing import Any

_LONGEST = 200


def error_of(text: str | None) -> dict[str, Any]:
    """What is stored of an error, as an object; empty when there is none."""
    if text is None:
        return {}
    told = loads(text)
    return told if isinstance(told, dict) else {"message": str(told)}


def error_words(text: str | None) -> str | None:
    """Type and first line of the message, such as `ValueError: no such table`; None when nothing is said."""
    told = error_of(text)
    line = ": ".join(str(told[key]) for key in ("type", "message") if told.get(key)).partition("\n")[0]
    if not line:
        return None
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
