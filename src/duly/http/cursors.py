"""Pages and cursors: where a page ended, opaque to the caller. A version byte and the last id, in base64url without padding."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar
from uuid import UUID

from msgspec import Meta

from duly.domain.errors import DulyError, Invalid
from duly.wire.shapes import pattern

Row = TypeVar("Row")

VERSION = 1
# 17 bytes: `A`, the version's low bits, 20 characters, and a last one that carries four bits only.
CURSOR_PATTERN = "^A[Q-Za-f][A-Za-z0-9_-]{20}[AEIMQUYcgkosw048]$"
LOG_CURSOR_PATTERN = "^[0-9]{1,18}$"

Limit = Annotated[int, Meta(ge=1, le=200)]
Cursor = Annotated[str, Meta(description="nextCursor of the page before, unchanged.", extra_json_schema=pattern(CURSOR_PATTERN))]
LogCursor = Annotated[
    str, Meta(description="nextCursor of the page before, or a line's id.", extra_json_schema=pattern(LOG_CURSOR_PATTERN))
]

_CURSOR = re.compile(CURSOR_PATTERN.replace("$", r"\Z"))
_LOG_CURSOR = re.compile(LOG_CURSOR_PATTERN.replace("$", r"\Z"))


def to_cursor(last: UUID) -> str:
    """The cursor of the page that follows after this id."""
    return urlsafe_b64encode(bytes((VERSION,)) + last.bytes).rstrip(b"=").decode()


def from_cursor(text: str | None) -> UUID | None:
    """Where the page before ended. Raises Invalid for what was never handed out."""
    if text is None:
        return None
    if not _CURSOR.match(text):
        raise _malformed()
    return UUID(bytes=urlsafe_b64decode(text + "=")[1:])


def from_log_cursor(text: str | None) -> int:
    """The sequence number after which to go on reading; 0 is the beginning."""
    if text is None:
        return 0
    if not _LOG_CURSOR.match(text):
        raise _malformed()
    return int(text)


def paged(rows: Sequence[Row], limit: int, cursor: Callable[[Row], str]) -> tuple[Sequence[Row], str | None]:
    """Split what was read, one more than asked for, into the page and the cursor of the next; None when this is the last."""
    if len(rows) <= limit:
        return rows, None
    page = rows[:limit]
    return page, cursor(page[-1])


def _malformed() -> DulyError:
    return Invalid("DULY-E112", "This is not a cursor of ours.", field="cursor")
