"""Strands: threads that take turns with the loop, so that what runs in them can be repeated.

A strand runs while the loop stands still, until it ends or has to wait; what it waits for is awaited on the loop, and then it goes on. So
`def` handlers run in a real thread, one at a time, `time.sleep` takes virtual time there, and a checkpoint is written at one instant.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, SupportsIndex, TypeVar

from duly.ports.handlers import Attempt, ExecutorKind, PythonCall

T = TypeVar("T")
_here: contextvars.ContextVar[Strand | None] = contextvars.ContextVar("duly_strand", default=None)
_idle: list[_Thread] = []
real_sleep = time.sleep


class Ended(BaseException):
    """The strand's worker is gone, and so is the strand: raised where it waits, when everything is over."""


class Strand:
    """One call in a thread of its own. `run` is awaited on the loop."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._context = contextvars.copy_context()
        self._thread = _idle.pop() if _idle else _Thread()
        self._wanted: Awaitable[Any] | None = None
        self._given: Future[Any] = Future()
        self._end: Future[Any] = Future()

    async def run(self, members: Sequence[Attempt] = ()) -> Any:
        """What the call returns. Nothing can stop it: one that is asked to stop is told by its token, and goes on until it ends."""
        try:
            self._thread.hand_over(self._begin)
            while (wanted := self._wanted) is not None:
                self._wanted, self._given = None, Future()
                await _settled(wanted, self._given, members)
                self._thread.go_on()
        except BaseException:
            # Nobody waits for it any more: whenever everything is over, it ends where it stands.
            _left.append(self)
            raise
        _idle.append(self._thread)
        return self._end.result()

    def wait(self, wanted: Awaitable[T]) -> T:
        """From inside: let the loop go on, and wait there for this."""
        self._wanted = wanted
        self._thread.pause()
        if not self._given.done():
            raise Ended
        result: T = self._given.result()
        return result

    def end(self) -> None:
        """Whoever is left in it finds its end."""
        if not self._end.done():
            self._thread.go_on()

    def _begin(self) -> None:
        self._context.run(_here.set, self)
        try:
            self._end.set_result(self._context.run(self._work))
        except StopIteration as error:
            # A future cannot carry it.
            failed = RuntimeError("the handler raised StopIteration")
            failed.__cause__ = error
            self._end.set_exception(failed)
        except BaseException as error:
            self._end.set_exception(error)


_left: list[Strand] = []


def end_those_left() -> None:
    """End the strands that nobody waits for any more."""
    while _left:
        _left.pop().end()


class _Thread:
    """A thread that does one thing after another, and only while its other side waits."""

    def __init__(self) -> None:
        self._ours, self._theirs = threading.Semaphore(0), threading.Semaphore(0)
        self._work: Callable[[], None] = lambda: None
        threading.Thread(target=self._run, name="duly-strand", daemon=True).start()

    def hand_over(self, work: Callable[[], None]) -> None:
        self._work = work
        self.go_on()

    def go_on(self) -> None:
        self._theirs.release()
        self._ours.acquire()

    def pause(self) -> None:
        self._ours.release()
        self._theirs.acquire()

    def _run(self) -> None:
        self._theirs.acquire()
        while True:
            self._work()
            self.pause()


async def _settled(wanted: Awaitable[Any], given: Future[Any], members: Sequence[Attempt]) -> None:
    """Wait for it and pass its end on, however often somebody asks the call to stop meanwhile."""
    waiting = asyncio.ensure_future(wanted)
    while not waiting.done():
        try:
            await asyncio.wait({waiting})
        except asyncio.CancelledError:
            if all(attempt.over or attempt.stop is None for attempt in members):
                for attempt in members:
                    attempt.cancelled = True
                waiting.cancel()
                raise
    error = waiting.exception()
    if error is None:
        given.set_result(waiting.result())
    else:
        given.set_exception(error)


class _Awaited(Future[T]):
    """A future whose result is waited for on the loop, from a strand."""

    def __init__(self, inner: Future[T]) -> None:
        super().__init__()
        self._inner = inner

    def result(self, timeout: float | None = None) -> T:
        strand = _here.get()
        return self._inner.result(timeout) if strand is None else strand.wait(_result_of(self._inner))


async def _result_of(future: Future[T]) -> T:
    return await asyncio.wrap_future(future)


def current() -> Strand | None:
    """The strand that this runs in."""
    return _here.get()


def sleep(seconds: float | SupportsIndex, /) -> None:
    """`time.sleep`, which takes virtual time in a strand and is as ever elsewhere."""
    strand = _here.get()
    if strand is None:
        real_sleep(seconds)
    else:
        strand.wait(asyncio.sleep(float(seconds)))


def in_strands(call: PythonCall) -> PythonCall:
    """The call as one for the event loop: what would run in a thread or a process runs in a strand."""
    if call.kind is ExecutorKind.LOOP:
        return call

    def run(attempts: Any) -> Coroutine[Any, Any, Any]:
        members = [attempts] if isinstance(attempts, Attempt) else list(attempts)
        for attempt in members:
            _wait_on_the_loop(attempt)
        return Strand(lambda: call.call(attempts)).run(members)

    return replace(call, kind=ExecutorKind.LOOP, call=run)


def _wait_on_the_loop(attempt: Attempt) -> None:
    """What a handler in a thread waits for, checkpoints and results of parents, is waited for on the loop."""
    keep, ask = attempt.keeper, attempt.ancestry
    if keep is not None:
        attempt.keeper = lambda attempt, data: _Awaited(keep(attempt, data))
    if ask is not None:
        attempt.ancestry = lambda attempt: _Awaited(ask(attempt))
