"""The SDK for callers without an event loop: a thread runs one, and every call waits for its answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from duly.sdk.app import App
    from duly.sdk.task import Task

T = TypeVar("T")


class BlockingApp:
    """The same names as the application's, each waiting for its answer."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="duly-sync", daemon=True)
        self._thread.start()

    def __getattr__(self, name: str) -> BlockingTask:
        task = self._app.tasks.get(name)
        if task is None:
            raise AttributeError(f"{self._app.name} declares no job {name!r}")
        return BlockingTask(self, task)

    def publish(self) -> None:
        """See App.publish."""
        self.wait(self._app.publish())

    def close(self) -> None:
        """Let the store go and end the thread."""
        self.wait(self._app.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call on the thread's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()


class BlockingTask:
    """A task's enqueues, each waiting for its commit."""

    def __init__(self, app: BlockingApp, task: Task[Any, Any]) -> None:
        self._app = app
        self._task = task

    def enqueue(self, *args: Any, **kwargs: Any) -> str:
        """See Task.enqueue."""
        return self._app.wait(self._task.enqueue(*args, **kwargs))

    def enqueue_in(self, delay: str | float | timedelta, *args: Any, **kwargs: Any) -> str:
        """See Task.enqueue_in."""
        return self._app.wait(self._task.enqueue_in(delay, *args, **kwargs))

    def enqueue_at(self, when: datetime, *args: Any, **kwargs: Any) -> str:
        """See Task.enqueue_at."""
        return self._app.wait(self._task.enqueue_at(when, *args, **kwargs))

    def enqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[str]:
        """See Task.enqueue_many."""
        return self._app.wait(self._task.enqueue_many(calls))
