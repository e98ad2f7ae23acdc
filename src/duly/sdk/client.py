"""A synchronous client of the API: a thin shell over `calls` and the standard library's `http.client`.

    with Client("http://127.0.0.1:3859", key) as client:
        job = client.send(calls.create_job({"name": "hello", "target": {"handler": "duly.echo"}}))
        run = client.send(calls.run_job(job.job_id, payload={"n": 1}))

One connection, kept open between calls; not for use by several threads at once.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from types import TracebackType
from typing import TypeVar
from urllib.parse import quote, urlsplit

from duly.domain.errors import Invalid
from duly.sdk.calls import Call, Request
from duly.sdk.streams import Event, Events
from duly.sdk.tracing import current_traceparent
from duly.wire.problems import problem, unreachable
from duly.wire.sockets import keep_alive

T = TypeVar("T")

TIMEOUT = 30.0
# A quiet stream breathes every 15 seconds; twice that without a sign and it is gone.
STREAM_TIMEOUT = 35.0
LARGEST_ANSWER = 64 << 20

# What a kept connection answers with when the server closed it meanwhile.
_CLOSED = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)


class Client:
    """Sends calls to one server with one key. `agent` names the program in the request; `channel` and `reason` are for the audit
    trail of whatever it changes."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT,
        agent: str = "duly-python",
        channel: str = "sdk",
        reason: str | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Invalid(
                "DULY-E601", f"{url!r} is not the address of a server.", field="DULY_URL", hint="For example http://127.0.0.1:3859."
            )
        self.url = url.rstrip("/")
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Accept": "application/json", "User-Agent": agent, "Duly-Channel": channel}
        if reason:
            self._headers["Duly-Reason"] = quote(reason, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~")
        if key is not None:
            if not key.isascii() or not key.isprintable() or " " in key:
                raise Invalid("DULY-E601", "has characters that no key has.", field="DULY_KEY")
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout = timeout
        try:
            self._host, self._port, self._is_secure = parts.hostname, parts.port, parts.scheme == "https"
        except ValueError as error:
            raise Invalid(
                "DULY-E601", f"{url!r} has no valid port.", field="DULY_URL", hint="For example http://127.0.0.1:3859."
            ) from error
        self._connection: http.client.HTTPConnection | None = None

    def send(self, call: Call[T]) -> T:
        """Send a call and read its answer. Raises DulyError: the server's, or DULY-E603 when it cannot be reached."""
        response = self._request(call.request, call.is_repeatable)
        try:
            body = response.read(LARGEST_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise unreachable(self.url, _reason(error)) from error
        return call.answer(response.status, _lower(response.headers), body)

    def stream(self, request: Request) -> Iterator[Event]:
        """The events of a stream until it ends, on a connection of its own. Raises DulyError as `send` does."""
        connection: http.client.HTTPConnection | None = None
        try:
            connection = self._open(STREAM_TIMEOUT)
            response = self._on(connection, request)
            if response.status != 200:
                raise problem(response.status, _lower(response.headers), response.read(LARGEST_ANSWER))
            events = Events()
            while piece := response.read1(65_536):
                yield from events.feed(piece)
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(self.url, _reason(error)) from error
        finally:
            if connection is not None:
                connection.close()

    def close(self) -> None:
        """Let the connection go; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def _request(self, request: Request, is_repeatable: bool) -> http.client.HTTPResponse:
        was_kept = self._connection is not None
        try:
            if self._connection is None:
                self._connection = self._open(self._timeout)
            return self._on(self._connection, request)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            # A kept connection may have ended unseen. What may be repeated is; for the rest nobody knows whether it was done.
            if was_kept and is_repeatable and isinstance(error, _CLOSED):
                return self._request(request, False)
            raise unreachable(self.url, _reason(error)) from error

    def _open(self, seconds: float) -> http.client.HTTPConnection:
        if self._is_secure:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, self._port, timeout=seconds, context=ssl.create_default_context()
            )
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=seconds)
        connection.connect()
        keep_alive(connection.sock)
        return connection

    def _on(self, connection: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
        within = current_traceparent()
        headers = {**self._headers, **request.headers} | ({} if within is None else {"traceparent": within})
        connection.request(request.method, self._prefix + request.path, request.body, headers)
        return connection.getresponse()


def _lower(headers: http.client.HTTPMessage) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
