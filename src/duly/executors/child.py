"""The child's side of the process pool: import the application, then run one attempt at a time.

    python -m duly.executors.child MODULE:ATTRIBUTE SOCKET PARENT

The reference comes from the operator's command line, never from the wire; a request names
a handler that the application declares. The child dies with its worker: by PDEATHSIG on
Linux, by the worker's guard, and by the end of the socket when it is idle.
"""

from __future__ import annotations

import asyncio
import contextlib
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
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from queue import SimpleQueue
from types import FrameType
from typing import Any

import msgspec

from duly.domain.errors import LeaseLost
from duly.domain.redaction import Veil
from duly.executors.capture import capture_in_child
from duly.executors.messages import (
    LONGEST_MESSAGE,
    Beat,
    Broken,
    Hello,
    Keep,
    Kept,
    Log,
    Progress,
    Raised,
    Reply,
    Request,
    Returned,
    Run,
    Stop,
)
from duly.executors.parents import die_with
from duly.ports import handlers
from duly.ports.endings import Discard, Failure, Snooze, kinds_of
from duly.ports.handlers import Attempt, CallSource, PythonCall
from duly.ports.parents import Parent
from duly.ports.traces import carrying

LONGEST_DETAIL = 64 << 10
# Seconds between two signs of life.
TELL_EVERY = 0.2

_decoder: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)


def main(reference: str, fd: int, parent: int) -> None:
    """Serve until the worker closes the socket or sends SIGTERM."""
    die_with(parent)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    stop = _Stop()
    channel = _Channel(fd, stop)
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
    while (message := channel.requests.get()) is not None:
        if isinstance(message, Hello):
            sys.path[:] = message.path
            try:
                calls = load_calls(reference)
                capture_in_child(message.capture)
            except (Exception, SystemExit) as exc:
                channel.send(Broken(f"{type(exc).__name__}: {exc}", _traceback(exc)))
                return
            continue
        reply = _run(calls, message, channel, stop)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        if stop.is_terminated:
            return
        channel.send(reply)


def _run(calls: Mapping[str, PythonCall], request: Run, channel: _Channel, stop: _Stop) -> Reply:
    call = calls.get(request.handler)
    if call is None:
        return Raised("HandlerMissing", f"The application in this child process has no handler {request.handler!r}; restart the worker.")
    attempt = _ChildAttempt(request, channel)
    try:
        with stop.during(attempt), carrying(request.traceparent):
            result = call.call(attempt)
            if inspect.isawaitable(result):
                result = asyncio.run(_await(result, attempt, stop))
        return Returned(result)
    except Snooze as exc:
        return Raised("Snooze", str(exc), snooze=exc.wait)
    except Discard as exc:
        return Raised("Discard", str(exc), discard=True)
    except Failure as exc:
        detail = exc.detail if exc.detail is not None else _traceback(exc)
        return Raised(exc.type, str(exc), exc.retry, exc.retry_after, detail, kinds_of(exc))
    except (Exception, SystemExit, KeyboardInterrupt, asyncio.CancelledError) as exc:
        return Raised(type(exc).__name__, str(exc), detail=_traceback(exc), kinds=kinds_of(exc))
    finally:
        attempt.tell_last()


async def _await(result: Awaitable[Any], attempt: Attempt, stop: _Stop) -> Any:
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    assert task is not None
    stop.interrupt = lambda: loop.call_soon_threadsafe(task.cancel)
    if attempt.cancelled:
        task.cancel()
    return await result


class _Terminated(BaseException):
    """SIGTERM, in the middle of a handler: `finally` blocks run, then the child exits."""


class _Stop:
    """How an attempt is stopped. Asked: its token is set, and an async handler is cancelled. By SIGTERM: a plain handler is
    interrupted as well, and the child ends."""

    def __init__(self) -> None:
        self.is_terminated = False
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

    def ask(self) -> None:
        """The worker asks the attempt in progress to stop."""
        attempt, interrupt = self._attempt, self.interrupt
        if attempt is not None:
            attempt.cancelled = True
        if interrupt is not None:
            # The handler may have ended a moment ago, and its loop with it.
            with contextlib.suppress(RuntimeError):
                interrupt()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.is_terminated = True
        if self._attempt is not None:
            self._attempt.cancelled = True
        if self.interrupt is None:
            raise _Terminated
        self.interrupt()


class _Channel:
    """The socket to the worker, one JSON document per line. A thread reads it, so that a handler can be asked to stop while it runs."""

    def __init__(self, fd: int, stop: _Stop) -> None:
        # A program that the handler starts must not hold the socket open.
        os.set_inheritable(fd, False)
        self._socket = socket.socket(fileno=fd)
        self._lock = threading.Lock()
        self._stop = stop
        self._unanswered: deque[Future[None]] = deque()
        self.requests: SimpleQueue[Hello | Run | None] = SimpleQueue()
        threading.Thread(target=self._read, name="duly-channel", daemon=True).start()

    def _read(self) -> None:
        with self._socket.makefile("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                message = _decoder.decode(line)
                match message:
                    case Stop():
                        self._stop.ask()
                    case Kept():
                        self._answer(message.refused)
                    case _:
                        self.requests.put(message)
        self.requests.put(None)

    def keep(self, attempt: Attempt, data: str) -> Future[None]:
        """Have a checkpoint kept by the worker. Answers come in the order of the questions."""
        future: Future[None] = Future()
        with self._lock:
            self._unanswered.append(future)
            self._socket.sendall(msgspec.json.encode(Keep(data)) + b"\n")
        return future

    def _answer(self, refused: str | None) -> None:
        future = self._unanswered.popleft()
        if refused is None:
            future.set_result(None)
        else:
            future.set_exception(LeaseLost(refused))

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
    """An attempt whose log lines, beats and checkpoints go to the worker as they come; beats and progress not more often than useful."""

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
            keeper=self._keep,
        )
        self.nominal_at = request.scheduled_at
        self.started_at = request.started_at
        self.deadline = request.deadline
        self.extras.kept = handlers.Kept(request.number, request.checkpoint) if request.number else None
        self.extras.veil = Veil(request.hidden) if request.hidden else None
        self.extras.traceparent = request.traceparent
        if request.parents is not None:
            known: Future[list[Parent]] = Future()
            known.set_result([Parent(*parent) for parent in request.parents])
            self.ancestry = lambda _: known
        self._channel = channel
        self._told_at = -TELL_EVERY

    def log(self, level: str, message: str, fields: dict[str, Any], unkept: int = 0) -> None:
        self._channel.send(Log(level, message, fields))

    def beat(self) -> None:
        if self._may_tell():
            self._channel.send(Beat())

    def tell(self, progress: str) -> None:
        self.extras.progress = progress
        if self._may_tell():
            self.tell_last()

    def tell_last(self) -> None:
        """Send the progress that has not been sent."""
        progress, self.extras.progress = self.extras.progress, None
        if progress is not None:
            self._channel.send(Progress(progress))

    def _may_tell(self) -> bool:
        now = time.monotonic()
        if now - self._told_at < TELL_EVERY:
            return False
        self._told_at = now
        return True

    def _keep(self, attempt: Attempt, data: str) -> Future[None]:
        future = self._channel.keep(attempt, data)

        def remember(done: Future[None]) -> None:
            if done.exception() is None:
                self.extras.kept = handlers.Kept((0 if self.kept is None else self.kept.number) + 1, data)

        future.add_done_callback(remember)
        return future


def _traceback(exc: BaseException) -> str:
    """The traceback as text, from the handler's own frames on; its end when it is long."""
    frames = exc.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(exc), exc, frames))[-LONGEST_DETAIL:]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
