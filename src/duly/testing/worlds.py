"""The loop of a test: virtual time, strands for what wants a thread, and real sockets for handlers that talk to somebody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, cast

from duly.testing.haste import Hasty
from duly.testing.loop import Livelock, Node, SimulatedLoop, _Handle
from duly.testing.strands import Strand

# How long time stands still for somebody who may answer over a socket, in seconds of the real world.
PATIENCE = 0.1
LONGEST_PATIENCE = 30.0


class TestLoop(SimulatedLoop, asyncio.SelectorEventLoop):
    """While a handler runs and sockets are open, time moves on only when nothing has come over them for a moment."""

    __test__ = False

    def __init__(self, seed: int, is_busy: Callable[[], bool]) -> None:
        self._is_busy = is_busy
        self._resting: asyncio.Future[bool] | None = None
        self._hasty = Hasty(self, self._as_task)
        super().__init__(seed)

    def run_until(self, main: asyncio.Task[Any]) -> None:
        self.steps = 0
        try:
            super().run_until(main)
        except Livelock as error:
            why = "A handler waits for something that nothing in this test brings about, or turns in a circle."
            raise RuntimeError(f"the test stands still: {error}. {why}") from error

    def begin(self, node: Node, step: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Run a step of a role on a node, to its end if it need not wait; no turn of the loop is spent on it."""
        return self._hasty.begin(step, node.context.copy())

    def resting(self) -> asyncio.Future[bool]:
        """Is True when nobody can run any more at this instant. There is one at a time."""
        self._resting = self.create_future()
        return self._resting

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> asyncio.Task[Any]:
        if self._hasty.takes(coro):
            return cast(asyncio.Task[Any], self._hasty.start(coro, context or copy_context()))
        return super().create_task(coro, name=name, context=context)

    def _as_task(self, coro: Any, context: Context) -> asyncio.Task[Any]:
        return super().create_task(coro, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., object], *args: Any) -> Any:  # type: ignore[override]
        return self.create_task(Strand(lambda: func(*args)).run())

    def _step(self, handle: _Handle) -> None:
        assert handle.callback is not None
        try:
            handle.context.run(handle.callback, *handle.args)
        except Exception as error:
            self.call_exception_handler({"message": "a callback failed", "exception": error})

    def _look_outside(self) -> bool:
        resting, self._resting = self._resting, None
        if resting is not None and not resting.done():
            resting.set_result(True)
            return True
        # Time is about to move on: whoever turned in a circle would not let it.
        self.steps = 0
        # The loop's own pipe is always there.
        if len(self._selector.get_map()) <= 1:  # type: ignore[attr-defined]
            return False
        events = self._selector.select(0)  # type: ignore[attr-defined]
        if not events and self._is_busy():
            events = self._selector.select(PATIENCE if self._timers else LONGEST_PATIENCE)  # type: ignore[attr-defined]
        self._process_events(events)  # type: ignore[attr-defined]
        return bool(self._runnable)

    def _add_callback(self, handle: Any) -> None:
        """What a socket brought."""
        if not handle._cancelled:
            self._enqueue(self.outside, _Handle(self.outside, handle._run, (), self.outside.context, self.now))
