"""One HTTP/1.1 request and its answer over a stream: no redirects, no cookies, no compression, no second request.

Small on purpose. The connection is closed after the answer, so a malformed answer can
harm nobody but itself, and no byte is read beyond the bounds.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

MOST_BODY = 64 << 10
MOST_HEADERS = 100
LONGEST_LINE = 16 << 10
MOST_INTERIM = 8

STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: .*)?\Z")
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*\Z")
CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;.*)?\Z")
LENGTH = re.compile(r"[0-9]{1,15}\Z")


class MalformedAnswer(Exception):
    """The other side does not speak HTTP/1.1, or ended in the middle."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Header names are lower case; values of a repeated header are joined by commas. `truncated`: there was more body."""

    status: int
    headers: dict[str, str]
    body: bytes
    truncated: bool


def request_head(method: str, target: str, headers: dict[str, str]) -> bytes:
    """The request line and headers. Raises ValueError for a name or value that could end its line or hide another."""
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in headers.items():
        if not HEADER_NAME.match(name):
            raise ValueError(f"{name[:60]!r} is not a header name")
        if not HEADER_VALUE.match(value):
            raise ValueError(f"the header {name} has a line break or a character beyond ASCII")
        lines.append(f"{name}: {value.strip()}")
    return "\r\n".join([*lines, "", ""]).encode("ascii")


async def read_answer(reader: asyncio.StreamReader, method: str, most: int = MOST_BODY) -> Answer:
    """Read one final answer and at most `most` bytes of its body. Raises MalformedAnswer; a broken connection raises OSError."""
    try:
        for _ in range(MOST_INTERIM):
            status, headers = await _read_head(reader)
            if status >= 200 or status == 101:
                break
        else:
            raise MalformedAnswer("too many interim answers")
        body, truncated = await _read_body(reader, method, status, headers, most)
    except asyncio.IncompleteReadError:
        raise MalformedAnswer("it ended in the middle") from None
    except asyncio.LimitOverrunError:
        raise MalformedAnswer("a line is too long") from None
    return Answer(status, headers, body, truncated)


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    line = await _read_line(reader)
    matched = STATUS_LINE.match(line)
    if matched is None:
        raise MalformedAnswer(f"not an HTTP/1.1 status line: {line[:60]!r}")
    headers: dict[str, str] = {}
    for _ in range(MOST_HEADERS + 1):
        line = await _read_line(reader)
        if not line:
            return int(matched[1]), headers
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not HEADER_NAME.match(name):
            raise MalformedAnswer(f"not a header: {line[:60]!r}")
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    raise MalformedAnswer(f"more than {MOST_HEADERS} headers")


async def _read_body(reader: asyncio.StreamReader, method: str, status: int, headers: dict[str, str], most: int) -> tuple[bytes, bool]:
    if method == "HEAD" or status in (101, 204, 304):
        return b"", False
    coding = headers.get("transfer-encoding")
    if coding is not None:
        if coding.lower() != "chunked":
            raise MalformedAnswer(f"unknown transfer coding {coding[:60]!r}")
        return await _read_chunks(reader, most)
    length = headers.get("content-length")
    if length is None:
        body = await _read_up_to(reader, most + 1)
        return body[:most], len(body) > most
    # A length that is repeated must repeat the same number.
    lengths = {part.strip() for part in length.split(",")}
    if len(lengths) != 1 or not LENGTH.match(length := lengths.pop()):
        raise MalformedAnswer(f"not a content length: {length[:60]!r}")
    return await reader.readexactly(min(int(length), most)), int(length) > most


async def _read_chunks(reader: asyncio.StreamReader, most: int) -> tuple[bytes, bool]:
    body = bytearray()
    while True:
        line = await _read_line(reader)
        matched = CHUNK_SIZE.match(line)
        if matched is None:
            raise MalformedAnswer(f"not a chunk size: {line[:60]!r}")
        size = int(matched[1], 16)
        if size == 0:
            # Trailers are not read: the connection ends here.
            return bytes(body), False
        if size > most - len(body):
            return bytes(body + await reader.readexactly(most - len(body))), True
        body += await reader.readexactly(size)
        if await _read_line(reader):
            raise MalformedAnswer("a chunk is longer than its size")


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    line = await reader.readuntil(b"\n")
    if len(line) > LONGEST_LINE:
        raise MalformedAnswer("a line is too long")
    return line.removesuffix(b"\n").removesuffix(b"\r")


async def _read_up_to(reader: asyncio.StreamReader, most: int) -> bytes:
    body = bytearray()
    while len(body) < most and (chunk := await reader.read(most - len(body))):
        body += chunk
    return bytes(body)
