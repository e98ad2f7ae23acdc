"""A small HTTP/1.1 client for one server: kept connections, a deadline on every call, every fault told as Unavailable.

Everything in the worker protocol may be sent again, so a kept connection that turns out to be closed, or to be dead, costs
one repetition and nothing else: it gets little time for its answer, and a fresh one all of it.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from duly.adapters.line import FAULTS, Line, reason
from duly.domain.errors import DulyError, Forbidden, Invalid, TooMany, Unavailable
from duly.wire.problems import problem, unreachable

T = TypeVar("T")

ANSWER_TIMEOUT = 15.0
# How long a kept connection may be silent beyond what it was asked to wait.
KEPT_PATIENCE = 4.0
MOST_IDLE = 8


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
        self._idle: list[Line] = []

    async def post(self, path: str, body: object, kind: type[T], *, timeout: float = ANSWER_TIMEOUT, wait: float = 0.0) -> T | None:
        """Send, and read the answer; None for an answer without content. `wait` is how long the server was asked to wait with it,
        for which the timeout does not count.

        Raises the error that a problem document stands for. Whatever may pass by itself is Unavailable: the server is away,
        answers no sense, or does not take our key (for the moment).
        """
        try:
            status, headers, content = await self._exchange(path, msgspec.json.encode(body), timeout, wait)
        except FAULTS as error:
            raise unreachable(self.url, reason(error)) from error
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

    async def _exchange(self, path: str, body: bytes, timeout: float, wait: float) -> tuple[int, dict[str, str], bytes]:
        head = f"POST {self._prefix}{path} HTTP/1.1\r\n{self._headers}Content-Length: {len(body)}\r\n\r\n".encode("ascii")
        while True:
            was_kept = bool(self._idle)
            line = self._idle.pop() if was_kept else await Line.open(self._host, self._port, self._tls)
            try:
                async with asyncio.timeout(wait + (min(timeout, KEPT_PATIENCE) if was_kept else timeout)):
                    answer = await line.exchange(head + body)
            except BaseException as error:
                line.close()
                # The server may close a kept connection at any moment, and something between may swallow it; a fresh one
                # deserves to be believed.
                if was_kept and isinstance(error, FAULTS):
                    if isinstance(error, TimeoutError):
                        await self.close()
                    continue
                raise
            if line.is_reusable and len(self._idle) < MOST_IDLE:
                self._idle.append(line)
            else:
                line.close()
            return answer


def _told(error: DulyError) -> DulyError:
    """A key that is refused now may be renewed under a running worker, so it is asked again: with a pause, as when the server is away."""
    if isinstance(error, Forbidden):
        return Unavailable(error.code, f"The server refuses the key: {error.message}", hint=error.hint, retry_after=5.0)
    if isinstance(error, TooMany):
        return Unavailable(error.code, error.message, hint=error.hint, retry_after=error.retry_after)
    if type(error) is DulyError:
        return Unavailable(error.code, error.message, hint=error.hint)
    return error
