"""One connection, before there is a request: how large a head may be, how long it may take, and what is answered to what is no HTTP.

uvicorn bounds neither. A head that never ends would be kept, whoever sends it: it comes before the key. So what frames a
message (its first line, headers, the sizes of chunks, trailers) is weighed while it comes in, and a head that does not come
to its end in time ends the connection. A head that comes in one piece, the usual case, costs one sum over its headers.
"""

from __future__ import annotations

import asyncio
from secrets import token_hex
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from duly.domain.errors import DulyError, Invalid, TooLarge
from duly.http.problems import MEDIA_TYPE, problem_of

LARGEST_HEAD = 64 * 1024
HEAD_SECONDS = 20.0

_NOT_HTTP = "The request cannot be read."
_NO_HOST = "The request must have one Host header."

_encoder = msgspec.json.Encoder()


class HeadTooLarge(Exception):
    """Raised into the parser, which gives up."""


class NoHost(Exception):
    """The same, for a request that names no host, or more than one (RFC 9112, 3.2)."""


class Connection(HttpToolsProtocol):
    """uvicorn's, with bounds on what comes before a body and between its pieces."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._messages = 0
        self._in_head = True
        self._misnamed = False
        # What has come of the message besides its body, and the body itself; of the piece in which it began, nothing counts.
        self._framing = 0
        self._body = 0
        self._waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody connects; what it wants, it must say in time."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is waited for any longer."""
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Weigh what comes in beside the bodies; a message that frames more than it holds is cut off."""
        messages, body = self._messages, self._body
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._messages == messages:
            self._framing += len(data) - (self._body - body)
            if self._framing > LARGEST_HEAD + self._body:
                self._refuse(_head_too_large())
                return
        if not self._in_head:
            self._wait_no_more()
        elif self._waiting is None:
            self._wait()

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._messages += 1
        self._in_head = True
        self._framing = self._body = 0

    def on_headers_complete(self) -> None:
        """A head is there; one that came in one large piece is weighed here."""
        self._in_head = False
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > LARGEST_HEAD:
            raise HeadTooLarge
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts != 1 and (hosts or self.parser.get_http_version() == "1.1"):
            self._misnamed = True
            raise NoHost
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of a body, which `limits` weighs."""
        self._body += len(body)
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """What the parser gave up on."""
        url, headers = getattr(self, "url", b""), self.headers or ()
        is_large = len(url) + sum(len(name) + len(value) for name, value in headers) > LARGEST_HEAD
        self._refuse(_head_too_large() if is_large else Invalid("DULY-E121", _NO_HOST if self._misnamed else _NOT_HTTP))

    def _refuse(self, error: DulyError) -> None:
        """A problem document, and the end: where the next request would begin, nobody knows."""
        self._wait_no_more()
        # No request has begun whose id it could be, and its own id it could not be asked for.
        request_id = f"req_{token_hex(12)}"
        status, problem, _ = problem_of(error, request_id)
        body = _encoder.encode(problem)
        about = (b"content-type: " + MEDIA_TYPE, b"content-length: %d" % len(body), b"x-request-id: " + request_id.encode())
        self.transport.write(
            STATUS_LINE[status] + b"\r\n".join((*about, b"x-content-type-options: nosniff", b"connection: close", b"", body))
        )
        self.transport.close()

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if self.transport.is_closing() or not self._in_head:
            return
        if self._messages == 0:
            # A browser's spare connection: it has asked nothing that could be answered.
            self.transport.close()
        else:
            self._refuse(Invalid("DULY-E123", f"The head of the request did not come within {HEAD_SECONDS:g} seconds."))


def _head_too_large() -> DulyError:
    return TooLarge("DULY-E122", f"The head of the request has more than {LARGEST_HEAD // 1024} KiB.")
