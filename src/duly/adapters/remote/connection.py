"""A small HTTP/1.1 client for one server: kept connections, a deadline on every call, every fault told as Unavailable.

Everything in the worker protocol may be sent again, so a kept connection that turns out to be closed costs
one repetition and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TypeVar
from urllib.parse import urlsplit

import httptools
import msgspec

from duly.domain.errors import DulyError, Forbidden, Invalid, TooMany, Unavailable
from duly.wire.problems import problem, unreachable

T = TypeVar("T")

CONNECT_TIMEOUT = 5.0
ANSWER_TIMEOUT = 15.0
MOST_IDLE = 8
LARGEST_ANSWER = 64 << 20
PIECE = 1 << 16

_FAULTS = (OSError, TimeoutError, EOFError, httptools.HttpParserError)


class Server:
    """One server with one key. Not to be shared by several event loops: each opens its own."""

    def __init__(self, url: str, key: str, *, agent: str) -> None:
        parts = urlsplit(url)
        try:
            host, port, secure = parts.hostname, parts.port, parts.scheme == "https"
        except ValueError:
            host, port, secure = None, None, False
        if parts.scheme not in ("http", "https") or not host:
            raise Invalid(
                "DULY-E601", f"{url!r} is not the address of a server.", field="DULY_URL", hint="For example http://127.0.0.1:3859."
            )
        self.url = url.rstrip("/")
        self._host, self._port = host, port or (443 if secure else 80)
        self._tls = ssl.create_default_context() if secure else None
        named = f"[{host}]" if ":" in host else host
        authority = named if port is None else f"{named}:{port}"
        self._prefix = parts.path.rstrip("/")
        self._headers = (
            f"Host: {authority}\r\nAuthorization: Bearer {key}\r\nUser-Agent: {agent}\r\n"
            "Accept: application/json\r\nContent-Type: application/json\r\n"
        )
        if "\n" in key or not self._headers.isascii():
            raise Invalid("DULY-E601", "has characters that no key has.", field="DULY_KEY")
        self._idle: list[_Line] = []

    async def post(self, path: str, body: object, kind: type[T], *, timeout: float = ANSWER_TIMEOUT) -> T | None:
        """Send, and read the answer; None for an answer without content.

        Raises the error that a problem document stands for. Whatever may pass by itself is Unavailable: the server is away,
        answers no sense, or does not take our key (for the moment).
        """
        try:
            status, headers, content = await self._exchange(path, msgspec.json.encode(body), timeout)
        except _FAULTS as error:
            raise unreachable(self.url, _reason(error)) from error
        if status == 204:
            return None
        if status >= 400:
            raise _told(problem(status, headers, content))
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.DecodeError as error:
            raise Unavailable("DULY-E603", f"The answer of {self.url} is not one of a Duly server.") from error

    async def close(self) -> None:
        """Let the kept connections go."""
        idle, self._idle = self._idle, []
        for line in idle:
            line.close()

    async def _exchange(self, path: str, body: bytes, timeout: float) -> tuple[int, dict[str, str], bytes]:
        head = f"POST {self._prefix}{path} HTTP/1.1\r\n{self._headers}Content-Length: {len(body)}\r\n\r\n".encode("ascii")
        while True:
            was_kept = bool(self._idle)
            line = self._idle.pop() if was_kept else await self._open()
            try:
                async with asyncio.timeout(timeout):
                    answer = await line.exchange(head + body)
            except BaseException as error:
                line.close()
                # The server may close a kept connection at any moment; a fresh one deserves to be believed.
                if was_kept and isinstance(error, _FAULTS) and not isinstance(error, TimeoutError):
                    continue
                raise
            if line.is_reusable and len(self._idle) < MOST_IDLE:
                self._idle.append(line)
            else:
                line.close()
            return answer

    async def _open(self) -> _Line:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        return _Line(reader, writer)


class _Line:
    """One connection: a request, its answer, the next request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.is_reusable = True

    async def exchange(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        self._writer.write(request)
        await self._writer.drain()
        answer = _Answer()
        parser = httptools.HttpResponseParser(answer)
        while not answer.is_complete:
            piece = await self._reader.read(PIECE)
            if not piece:
                raise EOFError("the connection ended before the answer did")
            parser.feed_data(piece)
            if len(answer.body) > LARGEST_ANSWER:
                raise EOFError("the answer is too large")
        self.is_reusable = bool(parser.should_keep_alive())
        return parser.get_status_code(), answer.headers, bytes(answer.body)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._writer.transport.abort()


class _Answer:
    """What the parser tells."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.is_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, piece: bytes) -> None:
        self.body += piece

    def on_message_complete(self) -> None:
        self.is_complete = True


def _told(error: DulyError) -> DulyError:
    """A key that is refused now may be renewed under a running worker, so it is asked again: with a pause, as when the server is away."""
    if isinstance(error, Forbidden):
        return Unavailable(error.code, f"The server refuses the key: {error.message}", hint=error.hint, retry_after=5.0)
    if isinstance(error, TooMany):
        return Unavailable(error.code, error.message, hint=error.hint, retry_after=error.retry_after)
    if type(error) is DulyError:
        return Unavailable(error.code, error.message, hint=error.hint)
    return error


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
