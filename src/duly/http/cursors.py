"""Pages and cursors: where a page ended, opaque to the caller, and which list it was a page of.

A version byte, the place (the last id; in a forecast an instant before it) and four bytes that stand for the list and its filter,
in base64url without padding. A cursor that is used with another filter would show a page of neither list, so it is refused.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Annotated, TypeVar
from uuid import UUID

from msgspec import Meta

from duly.domain.errors import DulyError, Invalid
from duly.domain.ids import JobId
from duly.domain.instants import LATEST, Instant
from duly.wire.shapes import pattern

Row = TypeVar("Row")

VERSION = 2
MOMENT_VERSION = 3
# 21 bytes: `A`, the version's low bits, 26 characters.
CURSOR_PATTERN = "^A[g-v][A-Za-z0-9_-]{26}$"
# 29 bytes; the last character carries four bits only.
MOMENT_CURSOR_PATTERN = "^A[w-z0-9_-][A-Za-z0-9_-]{36}[AEIMQUYcgkosw048]$"
LOG_CURSOR_PATTERN = "^[0-9]{1,18}$"

Limit = Annotated[int, Meta(ge=1, le=200)]
Cursor = Annotated[str, Meta(description="nextCursor of the page before, unchanged.", extra_json_schema=pattern(CURSOR_PATTERN))]
MomentCursor = Annotated[
    str, Meta(description="nextCursor of the page before, unchanged.", extra_json_schema=pattern(MOMENT_CURSOR_PATTERN))
]
LogCursor = Annotated[
    str, Meta(description="nextCursor of the page before, or a line's id.", extra_json_schema=pattern(LOG_CURSOR_PATTERN))
]

_CURSOR = re.compile(CURSOR_PATTERN.replace("$", r"\Z"))
_MOMENT_CURSOR = re.compile(MOMENT_CURSOR_PATTERN.replace("$", r"\Z"))
_LOG_CURSOR = re.compile(LOG_CURSOR_PATTERN.replace("$", r"\Z"))


def to_cursor(last: UUID, listing: str = "") -> str:
    """The cursor of the page that follows after this id in this list."""
    return _text(VERSION, last.bytes, listing)


def from_cursor(text: str | None, listing: str = "") -> UUID | None:
    """Where the page before ended. Raises Invalid for what was never handed out for this list."""
    if text is None:
        return None
    return UUID(bytes=_place(text, _CURSOR, listing))


def to_moment_cursor(at: Instant, last: JobId, listing: str) -> str:
    """The cursor of the page that follows after this job's fire at this instant."""
    return _text(MOMENT_VERSION, at.to_bytes(8, "big") + last.bytes, listing)


def from_moment_cursor(text: str | None, listing: str) -> tuple[Instant, JobId] | None:
    """The fire with which the page before ended. Raises as `from_cursor`."""
    if text is None:
        return None
    place = _place(text, _MOMENT_CURSOR, listing)
    at = int.from_bytes(place[:8], "big")
    if at > LATEST:
        raise _malformed()
    return at, UUID(bytes=place[8:])


def from_log_cursor(text: str | None) -> int:
    """The sequence number after which to go on reading; 0 is the beginning."""
    if text is None:
        return 0
    if not _LOG_CURSOR.match(text):
        raise _malformed()
    return int(text)


def from_event_id(sent: bytes) -> int:
    """What Last-Event-ID names: the place after which to go on. Raises Invalid."""
    text = sent.decode("latin-1")
    if not _LOG_CURSOR.match(text):
        hint = "Send the id of the last event that you have received, or leave it out."
        raise Invalid("DULY-E112", "is not the id of an event of ours.", field="Last-Event-ID", hint=hint)
    return int(text)


def paged(rows: Sequence[Row], limit: int, cursor: Callable[[Row], str]) -> tuple[Sequence[Row], str | None]:
    """Split what was read, one more than asked for, into the page and the cursor of the next; None when this is the last."""
    if len(rows) <= limit:
        return rows, None
    page = rows[:limit]
    return page, cursor(page[-1])


def _text(version: int, place: bytes, listing: str) -> str:
    return urlsafe_b64encode(bytes((version,)) + place + _mark(listing)).rstrip(b"=").decode()


def _place(text: str, shape: re.Pattern[str], listing: str) -> bytes:
    if not shape.match(text):
        raise _malformed()
    found = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if found[-4:] != _mark(listing):
        raise Invalid("DULY-E120", "It belongs to another list or filter.", field="cursor", hint="Repeat the filter of the page before.")
    return found[1:-4]


def _mark(listing: str) -> bytes:
    return sha256(listing.encode()).digest()[:4]


def _malformed() -> DulyError:
    return Invalid("DULY-E112", "This is not a cursor of ours.", field="cursor")
