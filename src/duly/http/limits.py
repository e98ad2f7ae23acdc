"""What a body may be, checked before anything is decoded: size while it streams, type, text and depth.

A decoder trusts its input to be of a sane size and depth; this module sees to it. All checks
are a few passes in C over the bytes (`count`, `translate`, a running sum), and a body with few
brackets and no escapes, the usual case, costs well under a microsecond.
"""

from __future__ import annotations

import asyncio
import re
from itertools import accumulate

from starlette.types import Receive

from duly.domain.errors import DulyError, Invalid, TooLarge
from duly.wire.shapes import LARGEST_OBJECT

LARGEST_BATCH = 16 * 1024 * 1024
DEEPEST = 32
# The largest batch over a slow line takes less; who sends a byte now and then holds a connection for no longer.
BODY_SECONDS = 60.0

_DOWN = b"\x01"
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_ALL_ELSE = bytes(set(range(256)) - set(b'[]{}"'))
_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
JSON = re.compile(rb'application/json(?:[ \t]*;[ \t]*charset="?utf-8"?)?[ \t]*', re.IGNORECASE)
FORM = re.compile(rb'application/x-www-form-urlencoded(?:[ \t]*;[ \t]*charset="?utf-8"?)?[ \t]*', re.IGNORECASE)
_LENGTH = re.compile(rb"[0-9]{1,19}")


class ClientGone(Exception):
    """The caller hung up in the middle of its request: nobody is left to be answered."""


async def hung_up(receive: Receive) -> None:
    """Wait until the caller is gone; its body has been read by then."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def read_body(receive: Receive, headers: dict[bytes, bytes], limit: int, kind: re.Pattern[bytes] = JSON) -> bytes:
    """The whole body, refused as soon as it is known to be too large or of the wrong type. Empty when there is none."""
    declared = headers.get(b"content-length")
    if declared is not None and _LENGTH.fullmatch(declared) and int(declared) > limit:
        raise _too_large(limit)
    if declared == b"0" or (declared is None and b"transfer-encoding" not in headers):
        return await _read(receive, headers, limit, kind)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _read(receive, headers, limit, kind)
    except TimeoutError:
        raise Invalid("DULY-E124", f"The body did not come within {BODY_SECONDS:g} seconds.") from None


async def _read(receive: Receive, headers: dict[bytes, bytes], limit: int, kind: re.Pattern[bytes]) -> bytes:
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        more = message.get("more_body", False)
        chunk: bytes = message.get("body", b"")
        if chunk:
            if not chunks:
                _check_type(headers, kind)
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def check_text(body: bytes) -> None:
    """Refuse what must not reach a decoder or the store: other encodings, NUL, lone surrogates, depth."""
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as exc:
            raise Invalid("DULY-E107", f"The body is not UTF-8 (byte {exc.start}).", hint="Send UTF-8 JSON.") from None
    if b"\x00" in body:
        raise _unstorable("a NUL character")
    if b"\\u" in body:
        _check_escapes(body)
    if body.count(b"[") + body.count(b"{") > DEEPEST and is_too_deep(body):
        raise Invalid("DULY-E108", f"The JSON is nested more than {DEEPEST} levels deep.", hint="Keep it elsewhere and pass a reference.")


def is_too_deep(body: bytes, deepest: int = DEEPEST) -> bool:
    """Whether arrays and objects stand more than `deepest` levels inside one another; brackets in strings do not count.

    Exact for JSON. Of what is no JSON it judges the part that a decoder would get to.
    """
    if b"\\" in body:
        # Backslashes pair up from the left, so what is left before a quote escapes it.
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Adjacent quotes cancel out: taking two away changes nothing about what is inside a string.
    marks = body.translate(_STEPS, _ALL_ELSE).replace(b'""', b"")
    if b'"' in marks:
        marks = b"".join(marks.split(b'"')[::2])
    # As signed bytes the steps are 1 and -1, so their running sum is the depth, added up in C.
    return _DOWN * (deepest + 1) in marks or max(accumulate(memoryview(marks).cast("b")), default=0) > deepest


def _check_escapes(body: bytes) -> None:
    escapes = body.replace(b"\\\\", b"__")
    if b"\\u0000" in escapes:
        raise _unstorable("a NUL character (\\u0000)")
    if _SURROGATE.search(escapes) and _SURROGATE.search(_PAIR.sub(b"", escapes)):
        raise _unstorable("half of a surrogate pair")


def _check_type(headers: dict[bytes, bytes], kind: re.Pattern[bytes]) -> None:
    encoding = headers.get(b"content-encoding")
    if encoding is not None and encoding.strip().lower() not in (b"identity", b""):
        raise Invalid("DULY-E115", "Compressed bodies are not taken.", field="Content-Encoding", hint="Leave Content-Encoding out.")
    declared = headers.get(b"content-type", b"")
    if not kind.fullmatch(declared):
        what, name = ("JSON", "application/json") if kind is JSON else ("a form", "application/x-www-form-urlencoded")
        raise Invalid("DULY-E115", f"The body must be {what}.", field="Content-Type", hint=f"Send Content-Type: {name}.")


def _too_large(limit: int) -> DulyError:
    shown = f"{limit // 1024} KiB" if limit <= LARGEST_OBJECT else f"{limit // (1024 * 1024)} MiB"
    return TooLarge("DULY-E109", f"The body has more than {shown}.", hint="Keep large payloads elsewhere and pass a reference.")


def _unstorable(what: str) -> DulyError:
    return Invalid("DULY-E110", f"The body contains {what}.", hint="Remove it, or encode the value, for example as base64.")
