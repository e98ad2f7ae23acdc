"""The child's side of the process pool: import the application, then run one attempt at a time.

    python -m duly.executors.child MODULE:ATTRIBUTE SOCKET PARENT

The reference comes from the operator's command line, never from the wire; a request names
a handler that the application declares. The child dies with its worker: by PDEATHSIG on
Linux, by the worker's guard, and by the end of the socket when it is idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import inspect
import io
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from types import FrameType
from typing import Any

import msgspec

from duly.executors.messages import LONGEST_MESSAGE, Broken, Hello, Log, Raised, Reply, Request, Returned, Run
from duly.ports.endings import Failure
from duly.ports.handlers import Attempt, CallSource, PythonCall

PR_SET_PDEATHSIG = 1
LONGEST_DETAIL = 64 << 10

_decoder: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)


def main(reference: str, fd: int, parent: int) -> None:
    """Serve until the worker closes the socket or sends SIGTERM."""
    _die_with(parent)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    channel = _Channel(fd)
    stop = _Stop()
    try:
        _serve(reference, channel, stop)
    except _Terminated:
        sys.exit(128 + signal.SIGTERM)


def load_calls(reference: str) -> Mapping[str, PythonCall]:
    """The handlers of `module:attribute`; the attribute is `app` unless it is named."""
    module, _, attribute = reference.partition(":")
    source: CallSource = importlib.import_module(module)
    for name in (attribute or "app").split("."):
        source = getattr(source, name)
    return source.calls()


def _serve(reference: str, channel: _Channel, stop: _Stop) -> None:
    calls: Mapping[str, PythonCall] = {}
    while (message := channel.receive()) is not None:
        match message:
            case Hello():
                sys.path[:] = message.path
                try:
                    calls = load_calls(reference)
                except (Exception, SystemExit) as exc:
                    channel.send(Broken(f"{type(exc).__name__}: {exc}", _traceback(exc)))
                    return
            case Run():
                reply = _run(calls, message, channel, stop)
                for stream in (sys.stdout, sys.stderr):
                    with contextlib.suppress(Exception):
                        stream.flush()
                if stop.asked:
                    return
                channel.send(reply)


def _run(calls: Mapping[str, PythonCall], request: Run, channel: _Channel, stop: _Stop) -> Reply:
    call = calls.get(request.handler)
    if call is None:
        return Raised("HandlerMissing", f"The application in this child process has no handler {request.handler!r}; restart the worker.")
    attempt = _ChildAttempt(request, channel)
    try:
        with stop.during(attempt):
            result = call.call(attempt)
            if inspect.isawaitable(result):
                result = asyncio.run(_await(result, stop))
        return Returned(result)
    except Failure as exc:
        return Raised(exc.type, str(exc), exc.retry, exc.retry_after, exc.detail if exc.detail is not None else _traceback(exc))
    except (Exception, SystemExit, KeyboardInterrupt, asyncio.CancelledError) as exc:
        return Raised(type(exc).__name__, str(exc), detail=_traceback(exc))


async def _await(result: Awaitable[Any], stop: _Stop) -> Any:
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    assert task is not None
    stop.interrupt = lambda: loop.call_soon_threadsafe(task.cancel)
    return await result


class _Terminated(BaseException):
    """SIGTERM, in the middle of a handler: `finally` blocks run, then the child exits."""


class _Stop:
    """What SIGTERM does: an async handler is cancelled, a plain one is interrupted, an idle child ends."""

    def __init__(self) -> None:
        self.asked = False
        self.interrupt: Callable[[], object] | None = None
        self._attempt: Attempt | None = None
        signal.signal(signal.SIGTERM, self._on_signal)

    @contextlib.contextmanager
    def during(self, attempt: Attempt) -> Any:
        self._attempt = attempt
        try:
            yield
        finally:
            self._attempt = self.interrupt = None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        if self._attempt is not None:
            self._attempt.cancelled = True
        if self.interrupt is None:
            raise _Terminated
        self.interrupt()


class _Channel:
    """The socket to the worker: blocking, one JSON document per line."""

    def __init__(self, fd: int) -> None:
        # A program that the handler starts must not hold the socket open.
        os.set_inheritable(fd, False)
        self._socket = socket.socket(fileno=fd)
        self._lines = self._socket.makefile("rb")
        self._lock = threading.Lock()

    def receive(self) -> Request | None:
        line = self._lines.readline()
        return _decoder.decode(line) if line.endswith(b"\n") else None

    def send(self, message: Reply) -> None:
        try:
            line = msgspec.json.encode(message, enc_hook=str if isinstance(message, Log) else None)
        except (TypeError, ValueError, RecursionError) as exc:
            line = msgspec.json.encode(Raised(type(exc).__name__, f"The result is not JSON: {exc}"))
        if len(line) >= LONGEST_MESSAGE:
            too_large = f"longer than {LONGEST_MESSAGE} bytes"
            short: Reply = Raised("ResultTooLarge", f"The result is {too_large}.", retry=False)
            if isinstance(message, Log):
                short = Log("warning", f"A log line is {too_large} and is not kept.", {})
            line = msgspec.json.encode(short)
        with self._lock:
            self._socket.sendall(line + b"\n")


class _ChildAttempt(Attempt):
    """An attempt whose log lines go to the worker as they come."""

    __slots__ = ("_channel",)

    def __init__(self, request: Run, channel: _Channel) -> None:
        # The worker's clock is corrected to the store's; what it said, plus the time since, is closer than this host's own.
        offset = request.now - time.monotonic_ns() // 1000
        super().__init__(
            request.id,
            request.attempt,
            request.failures,
            request.fence,
            request.due_at,
            request.version,
            request.payload,
            lambda: offset + time.monotonic_ns() // 1000,
            request.worker_name,
        )
        self.started_at = request.started_at
        self.deadline = request.deadline
        self._channel = channel

    def log(self, level: str, message: str, fields: dict[str, Any]) -> None:
        self._channel.send(Log(level, message, fields))


def _traceback(exc: BaseException) -> str:
    """The traceback as text, from the handler's own frames on; its end when it is long."""
    frames = exc.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(exc), exc, frames))[-LONGEST_DETAIL:]


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The worker may have gone before the line above.
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
