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
from duly.ports.handlers import Attempt, CallSource, PythonCall, storable
from duly.ports.parents import Parent
from duly.ports.traces import carrying
from duly.ports.words import name_of, words_of

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
            except _Terminated:
                raise
            except BaseException as exc:
                channel.send(Broken(f"{name_of(exc)}: {_short(words_of(exc))}", _end_of(_traceback(exc))))
                return
            continue
        reply = _run(calls, message, channel, stop)
        for stream in (sys.stdout, sys.stderr):
            # The handler may have put anything in its place.
            with contextlib.suppress(BaseException):
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
                ended: Future[Any] = Future()
                try:
                    asyncio.run(_await(result, attempt, stop, ended))
                except asyncio.CancelledError:
                    # A cancel that came as it ended has nothing left to stop.
                    if not ended.done():
                        raise
                result = ended.result()
        return Returned(result)
    except _Terminated:
        raise
    except BaseException as exc:
        # Whatever it is, it is the handler's: a child that died of it would count as a loss.
        return _raised(exc, attempt)
    finally:
        attempt.tell_last()


def _raised(exc: BaseException, attempt: Attempt) -> Raised:
    """What the handler raised, as far as it can be told. Its class is the handler's code: what it says of itself may be no text at all."""
    said = _short(attempt.redacted(words_of(exc)))
    try:
        told = _as_it_asks(exc, said, attempt)
        # What the worker could not read would cost it this child.
        return msgspec.json.decode(msgspec.json.encode(told), type=Raised)
    except BaseException:
        return Raised(name_of(exc), said, kinds=kinds_of(exc))


def _as_it_asks(exc: BaseException, said: str, attempt: Attempt) -> Raised:
    match exc:
        case Snooze():
            return Raised("Snooze", said, snooze=exc.wait)
        case Discard():
            return Raised("Discard", said, discard=True)
        case Failure():
            detail = _traceback(exc) if exc.detail is None else exc.detail
            return Raised(_short(exc.type), said, bool(exc.retry), exc.retry_after, _end_of(attempt.redacted(detail)), kinds_of(exc))
        case _:
            return Raised(name_of(exc), said, detail=_end_of(attempt.redacted(_traceback(exc))), kinds=kinds_of(exc))


async def _await(result: Awaitable[Any], attempt: Attempt, stop: _Stop, ended: Future[Any]) -> None:
    """Its end goes past the loop: `asyncio.run` asks the task for its repr, and that asks what it ended with."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    assert task is not None
    stop.interrupt = lambda: loop.call_soon_threadsafe(task.cancel)
    if attempt.cancelled:
        task.cancel()
    try:
        ended.set_result(await result)
    except BaseException as exc:
        ended.set_exception(exc)


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
            line = msgspec.json.encode(message)
        except _Terminated:
            raise
        except BaseException as exc:
            # Only of a result that cannot be told: whatever else is said was made sayable before.
            line = msgspec.json.encode(Raised(name_of(exc), f"The result is not JSON: {_short(words_of(exc))}", kinds=kinds_of(exc)))
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
        # Made sayable here: an answer in its place would be taken for the end of the attempt.
        self._channel.send(Log(level, storable(self.redacted(message)), self._fields(fields)))

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


def _short(text: str) -> str:
    return storable(text)[:LONGEST_DETAIL]


def _end_of(text: str) -> str:
    return storable(text)[-LONGEST_DETAIL:]


def _traceback(exc: BaseException) -> str:
    """The traceback as text, from the handler's own frames on; empty when it cannot be had."""
    try:
        frames = exc.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
            frames = frames.tb_next
        return "".join(traceback.format_exception(type(exc), exc, frames))
    except BaseException:
        return ""


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
