"""The loop of a test: virtual time, strands for what wants a thread, and real sockets for handlers that talk to somebody."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, copy_context
from typing import Any, TypeVar, cast

from duly.testing.bells import Alarm
from duly.testing.haste import Hasty
from duly.testing.loop import MOST_STEPS, Awaited, Livelock, Node, SimulatedLoop, _Handle, instead_of_the_running_loop
from duly.testing.strands import Strand

T = TypeVar("T")

# How long time stands still for somebody who may answer over a socket, in seconds of the real world.
PATIENCE = 0.1
LONGEST_PATIENCE = 30.0


class TestLoop(SimulatedLoop, asyncio.SelectorEventLoop):
    """While a handler runs and sockets are open, time moves on only when nothing has come over them for a moment."""

    __test__ = False

    def __init__(self, seed: int, is_busy: Callable[[], bool]) -> None:
        self._is_busy = is_busy
        self._hasty = Hasty(self, self._as_task)
        super().__init__(seed)
        self._sockets = self._selector.get_map()  # type: ignore[attr-defined]

    def run_until(self, main: Awaited) -> None:
        with self.running():
            self._run(main)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Inside the block this loop is the running one: who stands outside of it moves its time, by `step`, `rest` and `run_to`."""
        self.steps = 0
        try:
            with instead_of_the_running_loop(self):
                yield
        except Livelock as error:
            why = "A handler waits for something that nothing in this test brings about, or turns in a circle."
            raise RuntimeError(f"the test stands still: {error}. {why}") from error

    def step(self, node: Node, step: Coroutine[Any, Any, T], *, at_once: bool = True) -> T | None:
        """Run a step of a role on a node. If it need not wait it is run to its end `at_once`, and no turn of the loop is spent on it.

        What it came to; None when its node has crashed before the end.
        """
        begun: Any = self._hasty.begin(step, node.context.copy()) if at_once else node.spawn(step)
        if isinstance(begun, asyncio.Task):
            self._run(_EndOf(begun, node))
            begun = begun.result() if begun.done() else None
        came_to: T | None = begun
        return came_to

    def rest(self, alarm: Alarm) -> bool:
        """Let everybody run who can at this instant; True when nobody can any more.

        When somebody rings, those who could run by then have run as well, and nobody else: one who polls would never rest.
        """
        runnable, left = self._runnable, -1
        while runnable:
            if alarm.has_rung:
                if left < 0:
                    left = sum([len(node.queue) for node in runnable])
                if not left:
                    return False
                left -= 1
            self._serve_one()
            if self.steps > MOST_STEPS:
                raise Livelock(f"{self.steps:,} steps")
        return not alarm.has_rung

    def run_to(self, when: float, alarm: Alarm) -> None:
        """Let time pass until then, or until somebody rings. What has rung before is forgotten."""
        alarm.has_rung = False
        timers = self._timers
        while self.rest(alarm):
            if self._look_outside():
                continue
            if not timers or timers[0][0] > when:
                self.now = max(self.now, when)
                return
            self._move_on()

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> asyncio.Task[Any]:
        if self._hasty.is_on and self._hasty.takes(coro):
            # It does what is asked of a task here.
            return cast("asyncio.Task[Any]", self._hasty.start(coro, context or copy_context()))
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
        # Time is about to move on: whoever turned in a circle would not let it.
        self.steps = 0
        # The loop's own pipe is always there.
        if len(self._sockets) <= 1:
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


class _EndOf:
    """Of a task, or of the node that it runs on."""

    def __init__(self, task: asyncio.Task[Any], node: Node) -> None:
        self._task = task
        self._node = node

    def done(self) -> bool:
        return self._node.is_dead or self._task.done()
