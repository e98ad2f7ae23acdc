"""Handlers in child processes: they can be killed, and crash alone.

A child imports the operator's application once and then runs one attempt at a time. It
speaks over a socket of its own, so what a handler prints cannot garble the protocol: its
standard output and error are read as log lines of the attempt in progress.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Collection
from concurrent.futures import Future
from typing import Any, assert_never
from uuid import UUID

import msgspec

from duly.domain.errors import DulyError
from duly.domain.instants import SECOND
from duly.executors.capture import LOGGING, PRINT
from duly.executors.groups import ProcessGroup, describe_exit
from duly.executors.guard import Guard
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
from duly.executors.output import Lines, OutputPipe, open_pipe
from duly.ports.endings import Died, Discard, Failure, Snooze
from duly.ports.handlers import Attempt

# How long a child that hung up may take to die before it is killed.
LAST_WORDS = 1.0

_decoder: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(Reply)


class ProcessPool:
    """Up to `size` children of one application (`module:attribute`), started when they are first needed."""

    def __init__(self, reference: str, *, size: int, grace: float = 5.0, capture: Collection[str] = (LOGGING, PRINT)) -> None:
        self._reference = reference
        # What is kept of what handlers say: see `capture`.
        self._capture = capture
        self._grace = grace
        self._size = size
        self._wanted = 0
        self._places = asyncio.Semaphore(size)
        self._guard = Guard()
        self._idle: list[_Child] = []
        self._busy: set[_Child] = set()
        self._closed = False

    async def run(self, handler: str, attempt: Attempt) -> Any:
        """Run one attempt in a child and return its result.

        A child that dies takes this attempt with it and nothing else: raises Died. When the attempt is asked to stop (the caller is
        cancelled, and the attempt says why), the child is told and waited for; when the caller is cancelled again it is killed.
        Cancelled without a reason it is stopped: SIGTERM to its group, SIGKILL after the grace. The next attempt gets a new one.
        """
        self._wanted += 1
        try:
            async with self._places:
                return await self._run(handler, attempt)
        finally:
            self._wanted -= 1

    async def _run(self, handler: str, attempt: Attempt) -> Any:
        child = await self._take()
        self._busy.add(child)
        try:
            return await child.run(handler, attempt, self._grace)
        finally:
            if child.is_free and not self._closed:
                self._idle.append(child)
            else:
                await child.stop(self._grace)
            self._busy.discard(child)
            await self._close_guard()

    @property
    def free(self) -> int:
        """How many more attempts could begin now, without waiting for a child."""
        return max(self._size - self._wanted, 0)

    def pids(self) -> list[int]:
        """The children that live, idle ones first."""
        return [child.pid for child in [*self._idle, *self._busy]]

    async def close(self) -> None:
        """Stop the idle children; a busy one stops with its attempt. May be called again."""
        self._closed = True
        idle, self._idle = self._idle, []
        await asyncio.gather(*(child.stop(self._grace) for child in idle))
        await self._close_guard()

    async def _close_guard(self) -> None:
        if self._closed and not self._busy:
            await asyncio.to_thread(self._guard.close)

    async def _take(self) -> _Child:
        while self._idle:
            child = self._idle.pop()
            if not child.has_exited():
                return child
            await child.stop(0)
        return await _Child.start(self._reference, self._guard, self._capture)


class _Child:
    """One child process; it is free while no attempt runs in it."""

    def __init__(self, group: ProcessGroup, pipes: list[OutputPipe], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.pid = group.pid
        self.is_free = True
        self._keeps_prints = True
        self._group = group
        self._pipes = pipes
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls, reference: str, guard: Guard, capture: Collection[str]) -> _Child:
        guard.start()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = _popen(reference, theirs)
        except OSError:
            ours.close()
            raise
        guard.watch(process.pid)
        pipes = [open_pipe(process.stdout, _nobody), open_pipe(process.stderr, _nobody)]
        group = ProcessGroup(process, *pipes, before_reaping=guard.forget)
        try:
            reader, writer = await asyncio.open_unix_connection(sock=ours, limit=LONGEST_MESSAGE)
        except BaseException:
            ours.close()
            await group.stop(0)
            raise
        child = cls(group, pipes, reader, writer)
        child._keeps_prints = PRINT in capture
        child._send(Hello(path=[str(entry) for entry in sys.path], capture=sorted(capture)))
        return child

    def has_exited(self) -> bool:
        return self._group.has_exited()

    async def run(self, handler: str, attempt: Attempt, grace: float) -> Any:
        self.is_free = False
        lines = Lines(attempt, "info"), Lines(attempt, "error")
        for pipe, sink in zip(self._pipes, lines, strict=True):
            pipe.sink = sink.feed if self._keeps_prints else sink.pass_on
        try:
            return await self._converse(handler, attempt)
        except (ConnectionError, asyncio.IncompleteReadError):
            # It closed the socket: it is dead or dying, and the kernel may still be writing its core.
            status = await self._group.finish(LAST_WORDS)
            raise Died(f"The child process {describe_exit(status)}.", lines[1].tail or None) from None
        except BaseException:
            if not self.is_free:
                await self.stop(grace if attempt.stop is None else 0)
            raise
        finally:
            # What was printed before the reply, or before the end, is in the pipe by now and belongs to this attempt.
            for pipe, sink in zip(self._pipes, lines, strict=True):
                pipe.drain()
                pipe.sink = _nobody
                sink.finish()

    async def stop(self, grace: float) -> None:
        try:
            await self._group.stop(grace)
        finally:
            self._writer.transport.abort()

    async def _converse(self, handler: str, attempt: Attempt) -> Any:
        self._send(_request(handler, attempt, await _parents_of(attempt)))
        await self._writer.drain()
        is_asked = False
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.CancelledError:
                if attempt.stop is None or is_asked:
                    raise
                is_asked = True
                self._send(Stop())
                continue
            message = _decoder.decode(line)
            match message:
                case Log():
                    attempt.log(message.level, message.message, message.fields)
                case Beat():
                    attempt.beat()
                case Progress():
                    attempt.tell(message.progress)
                case Keep():
                    self._keep(attempt, message.data)
                case Returned():
                    self.is_free = True
                    return message.result
                case Raised():
                    self.is_free = True
                    raise _raised(message)
                case Broken():
                    raise Failure(
                        f"The application could not be imported in a child process: {message.message}",
                        type="ImportFailed",
                        detail=message.detail,
                    )
                case _:
                    assert_never(message)

    def _keep(self, attempt: Attempt, data: str) -> None:
        """Have a checkpoint kept, and tell the child when it is; meanwhile it may log, and be asked to stop."""
        loop = asyncio.get_running_loop()

        def answer(future: Future[None]) -> None:
            error = None if future.cancelled() else future.exception()
            refused = "the worker stops" if future.cancelled() else None if error is None else _message(error)
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._send, Kept(refused))

        attempt.keep(data).add_done_callback(answer)

    def _send(self, message: Request) -> None:
        # A child that is gone is seen when its answer is read; uvloop would say it here, with RuntimeError.
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._writer.write(msgspec.json.encode(message) + b"\n")


def _popen(reference: str, theirs: socket.socket) -> subprocess.Popen[bytes]:
    # The environment is inherited: the application finds its settings as it does in the worker.
    return subprocess.Popen(
        [sys.executable, "-m", "duly.executors.child", reference, str(theirs.fileno()), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[theirs.fileno()],
        bufsize=0,
        start_new_session=True,
    )


async def _parents_of(attempt: Attempt) -> list[tuple[str, UUID, str | None]] | None:
    """A child has no way to the store: what it may ask for goes along. To read it is little beside a process."""
    if attempt.ancestry is None:
        return None
    return [(one.name, one.id, one.result) for one in await asyncio.wrap_future(attempt.ancestry(attempt))]


def _request(handler: str, attempt: Attempt, parents: list[tuple[str, UUID, str | None]] | None) -> Run:
    return Run(
        handler=handler,
        id=attempt.id,
        attempt=attempt.attempt,
        failures=attempt.failures,
        fence=attempt.fence,
        due_at=attempt.due_at,
        scheduled_at=attempt.scheduled_at,
        started_at=attempt.started_at,
        deadline=attempt.deadline,
        version=attempt.version,
        payload=attempt.payload,
        worker_name=attempt.worker_name,
        now=attempt.clock(),
        number=0 if attempt.kept is None else attempt.kept.number,
        checkpoint=None if attempt.kept is None else attempt.kept.data,
        parents=parents,
        hidden=[] if attempt.veil is None else attempt.veil.values,
        traceparent=attempt.traceparent,
    )


def _raised(message: Raised) -> Exception:
    """What the handler raised, as far as it can leave its process."""
    if message.snooze is not None:
        return Snooze(message.snooze / SECOND)
    if message.discard:
        return Discard(message.message)
    return Failure(
        message.message,
        type=message.type,
        retry=message.retry,
        retry_after=message.retry_after,
        detail=message.detail,
        kinds=message.kinds,
    )


def _message(error: BaseException) -> str:
    """Without the hint: the child puts it there again."""
    return error.message if isinstance(error, DulyError) else str(error)


def _nobody(chunk: bytes) -> None:
    """What an idle child prints belongs to no attempt."""
