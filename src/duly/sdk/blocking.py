"""The SDK for callers without an event loop: a thread runs one, and every call waits for its answer."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import inspect
import os
import threading
from collections.abc import Coroutine, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid
from duly.sdk.moments import instant_of
from duly.sdk.wishes import NO_WISH, Wish, taken_apart

if TYPE_CHECKING:
    from duly.sdk.app import App
    from duly.sdk.task import Task

T = TypeVar("T")

# How long the end of the interpreter may wait for the store to be let go, in seconds.
PATIENCE = 2.0


class BlockingApp:
    """The same names as the application's, each waiting for its answer.

    The thread starts at the first call of its process: a fork takes no threads along, so a child starts one of its own.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._threads: dict[int, _LoopThread] = {}

    def __getattr__(self, name: str) -> BlockingTask:
        task = self._app.tasks.get(name)
        if task is None:
            raise AttributeError(f"{self._app.name} declares no job {name!r}")
        return BlockingTask(self, task)

    def publish(self) -> None:
        """See App.publish."""
        self.wait(self._app.publish())

    def close(self) -> None:
        """Let the store go and end the thread. A later call starts another one."""
        thread = self._threads.pop(os.getpid(), None)
        if thread is not None:
            atexit.unregister(thread.end_with_the_interpreter)
            try:
                thread.wait(self._app.close())
            finally:
                thread.end()

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call on the thread's loop and wait for it."""
        return self._thread().wait(call)

    def _thread(self) -> _LoopThread:
        pid = os.getpid()
        thread = self._threads.get(pid)
        if thread is None:
            made = _LoopThread(self._app)
            # No lock: one that another thread holds at a fork would be held in the child for ever.
            thread = self._threads.setdefault(pid, made)
            if thread is made:
                made.start()
            else:
                made.loop.close()
        return thread


class _LoopThread:
    """An event loop and the thread that runs it, in the process that made it."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="duly-sync", daemon=True)

    def start(self) -> None:
        self._thread.start()
        atexit.register(self.end_with_the_interpreter)

    def wait(self, call: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        return asyncio.run_coroutine_threadsafe(call, self.loop).result(timeout)

    def end(self, timeout: float | None = None) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout)

    def end_with_the_interpreter(self) -> None:
        """Let the store go if that is quick; what is left then ends with the process."""
        if self._pid == os.getpid():
            with contextlib.suppress(Exception):
                self.wait(self._app.close(), PATIENCE)
            with contextlib.suppress(Exception):
                self.end(PATIENCE)

    def _run(self) -> None:
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(_cancel_others())
        finally:
            self.loop.close()


async def _cancel_others() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


class BlockingTask:
    """A task's enqueues, each waiting for its commit."""

    def __init__(self, app: BlockingApp, task: Task[Any, Any]) -> None:
        self._app = app
        self._task = task

    def enqueue(self, *args: Any, **kwargs: Any) -> str:
        """See Task.enqueue."""
        return self._enqueue(args, kwargs)

    def enqueue_in(self, delay: str | float | timedelta, *args: Any, **kwargs: Any) -> str:
        """See Task.enqueue_in."""
        return self._enqueue(args, kwargs, Wish(delay=parse_duration(delay, field="delay")))

    def enqueue_at(self, when: datetime, *args: Any, **kwargs: Any) -> str:
        """See Task.enqueue_at."""
        return self._enqueue(args, kwargs, Wish(run_at=instant_of(when)))

    def _enqueue(self, args: tuple[Any, ...], kwargs: dict[str, Any], said: Wish = NO_WISH) -> str:
        payload, wish = taken_apart(self._task.arguments, args, kwargs, said)
        if wish.tx is None:
            made = self._app.wait(self._task.app.enqueue_payloads(self._task, [payload], run_at=wish.run_at, delay=wish.delay))
            return made[0]
        # In the caller's own thread: a connection of a blocking library is nobody else's.
        answer = self._task.using(wish.tx).send(payload, wish)
        if inspect.iscoroutine(answer):
            answer.close()
            hint = "Await the task's own enqueue, or give a connection of a blocking library."
            raise Invalid("DULY-E131", "The connection is of an async library, and nobody waits for it here.", field="tx", hint=hint)
        id: str = answer
        return id

    def enqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[str]:
        """See Task.enqueue_many."""
        return self._app.wait(self._task.enqueue_many(calls))
