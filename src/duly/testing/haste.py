"""Steps of roles that are run to their end at once, without a turn of the loop.

A role waits for the store alone, and the store of a test answers where it is asked. So nothing of a step has to wait: the tasks that it
starts and awaits are run where they are started, as with the eager tasks of newer Pythons, and what it awaits is over by then. Should one
have to wait after all, it goes on as a task from there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

from duly.roles.runners import Runners

# Handlers run in these, and those have a turn of their own: they begin when the step is over.
_RUNNER = Runners._run.__code__


class Hasty:
    """For a loop: `begin` runs a step."""

    def __init__(self, loop: asyncio.AbstractEventLoop, as_task: Callable[[Coroutine[Any, Any, Any], Context], asyncio.Task[Any]]) -> None:
        self._loop = loop
        self._as_task = as_task
        self._owed: deque[tuple[Callable[[Any], object], Ended, Context]] = deque()
        self.is_on = False

    def begin(self, step: Coroutine[Any, Any, Any], context: Context) -> Any:
        """Run it there. Answers what it came to, or the task in which it goes on."""
        self.is_on = True
        try:
            waits_for = context.run(step.send, None)
            while waits_for is not None and self._tell(waits_for):
                waits_for = context.run(step.send, None)
        except StopIteration as end:
            if self._owed:
                self._tell(None)
            return end.value
        finally:
            self.is_on = False
        return self._as_task(_Rest(step, waits_for), context)

    def takes(self, coroutine: Coroutine[Any, Any, Any]) -> bool:
        """Whether this, which a step starts, is run at once."""
        return getattr(coroutine, "cr_code", None) is not _RUNNER

    def start(self, coroutine: Coroutine[Any, Any, Any], context: Context) -> asyncio.Future[Any]:
        """Run it as far as it comes."""
        ended = Ended(loop=self._loop)
        ended.hasty = self
        try:
            waits_for = context.run(coroutine.send, None)
            while waits_for is not None and self._tell(waits_for):
                waits_for = context.run(coroutine.send, None)
        except StopIteration as end:
            ended.set_result(end.value)
        except asyncio.CancelledError:
            ended.cancel()
        except Exception as error:
            ended.set_exception(error)
        else:
            return self._as_task(_Rest(coroutine, waits_for), context)
        return ended

    def owe(self, callback: Callable[[Any], object], ended: Ended, context: Context) -> None:
        """Somebody wants to hear of an end."""
        self._owed.append((callback, ended, context))

    def _tell(self, waits_for: asyncio.Future[Any] | None) -> bool:
        """Tell of the ends that were asked for, until this one is over; whether it is."""
        while self._owed and (waits_for is None or not waits_for.done()):
            callback, ended, context = self._owed.popleft()
            context.run(callback, ended)
        return waits_for is not None and waits_for.done()


class Ended(asyncio.Future[Any]):
    """Stands for a task that was over as soon as it was started."""

    hasty: Hasty

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Context | None = None) -> None:
        if self.hasty.is_on:
            self.hasty.owe(callback, self, context or copy_context())
        elif context is None:
            super().add_done_callback(callback)
        else:
            super().add_done_callback(callback, context=context)

    def set_name(self, name: object) -> None:
        """As of a task."""


class _Rest(Coroutine[Any, Any, Any]):
    """What is left of a coroutine that waits for something. It has begun: who cancels it reaches it where it waits."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], waits_for: Any) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for
        self._has_said = False

    def send(self, value: Any) -> Any:
        if not self._has_said:
            self._has_said = True
            return self._waits_for
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        self._has_said = True
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Any:
        raise TypeError("it goes on in a task, which is what is awaited")
