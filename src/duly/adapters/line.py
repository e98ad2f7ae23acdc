"""One HTTP/1.1 connection, for the adapters that speak to a server: a request, its answer, the next request.

Or an answer that goes on: then its pieces come as they arrive, and the connection serves nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator
from errno import ECONNRESET
from os import strerror

import httptools

from duly.wire.sockets import keep_alive

CONNECT_TIMEOUT = 5.0
LARGEST_ANSWER = 64 << 20
PIECE = 1 << 16

FAULTS = (OSError, TimeoutError, EOFError, httptools.HttpParserError)


class Line:
    """A connection that is open. What goes wrong on it is one of FAULTS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.is_reusable = True

    @classmethod
    async def open(cls, host: str, port: int, tls: ssl.SSLContext | None, *, timeout: float = CONNECT_TIMEOUT) -> Line:
        """Connect."""
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls)
        keep_alive(writer.get_extra_info("socket"))
        return cls(reader, writer)

    async def exchange(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send, and read the answer to its end: its status, headers and body."""
        await self._send(request)
        answer = _Answer()
        parser = answer.parser = httptools.HttpResponseParser(answer)
        while not answer.is_complete:
            await self._feed(parser)
            if len(answer.body) > LARGEST_ANSWER:
                raise EOFError("the answer is too large")
        self.is_reusable = answer.keeps_alive
        return parser.get_status_code(), answer.headers, bytes(answer.body)

    async def stream(self, request: bytes) -> AsyncGenerator[tuple[int, bytes], None]:
        """Send, and give the status and each piece of the body when it comes; ends with the answer."""
        self.is_reusable = False
        await self._send(request)
        answer = _Answer()
        parser = answer.parser = httptools.HttpResponseParser(answer)
        while not answer.is_complete:
            await self._feed(parser)
            if answer.body:
                piece = bytes(answer.body)
                answer.body.clear()
                yield parser.get_status_code(), piece

    async def _send(self, request: bytes) -> None:
        # One that broke while nobody looked: asyncio would take the bytes and say so at the next read, uvloop raises RuntimeError.
        if self._writer.is_closing():
            raise ConnectionResetError(ECONNRESET, strerror(ECONNRESET))
        self._writer.write(request)
        await self._writer.drain()

    async def _feed(self, parser: httptools.HttpResponseParser) -> None:
        piece = await self._reader.read(PIECE)
        if not piece:
            raise EOFError("the connection ended before the answer did")
        parser.feed_data(piece)

    def close(self) -> None:
        """Let it go at once."""
        with contextlib.suppress(Exception):
            self._writer.transport.abort()


class _Answer:
    """What the parser tells."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.is_complete = False
        self.keeps_alive = False
        self.parser: httptools.HttpResponseParser | None = None

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        # Now: once the message is complete the parser has forgotten what the headers said, and answers no.
        self.keeps_alive = self.parser is not None and bool(self.parser.should_keep_alive())

    def on_body(self, piece: bytes) -> None:
        self.body += piece

    def on_message_complete(self) -> None:
        self.is_complete = True


def reason(error: BaseException) -> str:
    """What went wrong, in words for people."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
