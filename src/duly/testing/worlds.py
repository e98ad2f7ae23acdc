"""The loop of a test: virtual time, strands for what wants a thread, and real sockets for handlers that talk to somebody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from duly.testing.loop import Livelock, SimulatedLoop, _Handle
from duly.testing.strands import Strand

# How long time stands still for somebody who may answer over a socket, in seconds of the real world.
PATIENCE = 0.1
LONGEST_PATIENCE = 30.0


class TestLoop(SimulatedLoop, asyncio.SelectorEventLoop):
    """While a handler runs and sockets are open, time moves on only when nothing has come over them for a moment."""

    __test__ = False

    def __init__(self, seed: int, is_busy: Callable[[], bool]) -> None:
        self._is_busy = is_busy
        super().__init__(seed)

    def run_until(self, main: asyncio.Task[Any]) -> None:
        self.steps = 0
        try:
            super().run_until(main)
        except Livelock as error:
            why = "A handler waits for something that nothing in this test brings about, or turns in a circle."
            raise RuntimeError(f"the test stands still: {error}. {why}") from error

    def run_in_executor(self, executor: Any, func: Callable[..., object], *args: Any) -> Any:  # type: ignore[override]
        return self.create_task(Strand(lambda: func(*args)).run())

    def _step(self, handle: _Handle) -> None:
        assert handle.callback is not None
        try:
            handle.context.run(handle.callback, *handle.args)
        except Exception as error:
            self.call_exception_handler({"message": "a callback failed", "exception": error})

    def _look_outside(self) -> bool:
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
