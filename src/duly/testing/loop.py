"""An event loop that owns time and order: a seed decides everything, so a run can be repeated to the last step.

Time is virtual and stands still while anything can run. Inside a node handles run first in, first out, as asyncio
promises; between nodes the seed chooses who is next, as nobody promises anything there. A node that is paused is not
served: its timers are late when it comes back, as after SIGSTOP. A node that has crashed is never served again, not
even its `finally` blocks. Threads do not exist here; `worlds` has a loop that knows them.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol

import msgspec

NODE: ContextVar[Node] = ContextVar("simulated_node")
# A run that needs more steps than this turns in a circle.
MOST_STEPS = 3_000_000
ROUNDS_OF_BURIAL = 200


class Livelock(Exception):
    """Time stands still, and steps go on for ever."""


class Awaited(Protocol):
    """A task, or whatever else somebody waits for."""

    def done(self) -> bool:
        """Whether it is over."""


class Node:
    """A process of the simulated fleet: what it has to run, and whether it may."""

    __slots__ = ("context", "is_dead", "is_paused", "loop", "name", "number", "queue")

    def __init__(self, loop: SimulatedLoop, name: str, number: int) -> None:
        self.loop = loop
        self.name = name
        self.number = number
        self.queue: deque[_Handle] = deque()
        self.is_paused = False
        self.is_dead = False
        self.context = copy_context()
        self.context.run(NODE.set, self)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task of this node."""
        return self.loop.create_task(coroutine, context=self.context.copy())


class _Handle(msgspec.Struct, eq=False):
    """One step to come. Duck-typed as asyncio's own, without what only its debug mode needs. One is made for every step: a class with an
    `__init__` of its own takes four times as long."""

    node: Node
    callback: Callable[..., object] | None
    args: tuple[Any, ...]
    context: Context
    when_due: float
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.when_due


class SimulatedLoop(asyncio.BaseEventLoop):
    """The loop. `digest` is a running hash of (node, time) over all steps: two runs with one digest were the same run."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.now = 0.0
        self.steps = 0
        self.digest = 0
        self.is_over = False
        self.problems: list[str] = []
        self._draw = random.Random(f"order {seed}").random  # noqa: S311
        self._numbers = count()
        self._order = count()
        self._nodes: list[Node] = []
        self._runnable: list[Node] = []
        self._timers: list[tuple[float, int, _Handle]] = []
        # Kept, so that garbage collection never closes a coroutine of a node that has crashed.
        self._tasks: list[asyncio.Task[Any]] = []
        self._tasks_counted_at = 512
        self.outside = self.add_node("outside")
        self.set_exception_handler(self._note_problem)

    # ------------------------------------------------------------ nodes

    def add_node(self, name: str) -> Node:
        """A new process."""
        node = Node(self, name, next(self._numbers))
        self._nodes.append(node)
        return node

    def pause(self, node: Node) -> None:
        """It is not served until it is resumed."""
        node.is_paused = True
        if node in self._runnable:
            self._runnable.remove(node)

    def resume(self, node: Node) -> None:
        """It is served again, and finds its timers late."""
        if node.is_paused:
            node.is_paused = False
            if node.queue and not node.is_dead:
                self._runnable.append(node)

    def crash(self, node: Node) -> None:
        """It is never served again. What it has begun elsewhere goes on there."""
        node.is_dead = True
        if node in self._runnable:
            self._runnable.remove(node)

    # ------------------------------------------------------------ what asyncio asks of a loop

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> _Handle:  # type: ignore[override]
        if context is None:
            context = copy_context()
        node = context.get(NODE) or self.outside
        handle = _Handle(node, callback, args, context, self.now)
        # As in `_enqueue`: half of all steps come this way.
        queue = node.queue
        if not queue and not node.is_paused and not node.is_dead:
            self._runnable.append(node)
        queue.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> _Handle:  # type: ignore[override]
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> _Handle:  # type: ignore[override]
        if context is None:
            context = copy_context()
        handle = _Handle(context.get(NODE) or self.outside, callback, args, context, when)
        heappush(self._timers, (when, next(self._order), handle))
        return handle

    def add_timer(self, node: Node, when: float, callback: Callable[..., object], args: tuple[Any, ...]) -> _Handle:
        """A timer of a node, whoever sets it."""
        handle = _Handle(node, callback, args, node.context, when)
        heappush(self._timers, (when, next(self._order), handle))
        return handle

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name="task", context=context)
        self._tasks.append(task)
        if len(self._tasks) > self._tasks_counted_at:
            self._tasks = [kept for kept in self._tasks if not kept.done()]
            self._tasks_counted_at = 2 * len(self._tasks) + 512
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., object], *args: Any) -> Any:  # type: ignore[override]
        raise AssertionError(f"a thread for {func!r}: the simulation has none")

    def get_debug(self) -> bool:
        return False

    def _note_problem(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self.is_over:
            self.problems.append(f"{context.get('message')}: {context.get('exception')!r}")

    # ------------------------------------------------------------ running

    def run_until(self, main: Awaited) -> None:
        """Run until this task is done. Another loop of this thread may be in the middle of a step: it goes on afterwards."""
        with instead_of_the_running_loop(self):
            self._run(main)

    def _enqueue(self, node: Node, handle: _Handle) -> None:
        queue = node.queue
        if not queue and not node.is_paused and not node.is_dead:
            self._runnable.append(node)
        queue.append(handle)

    def _run(self, main: Awaited) -> None:
        timers = self._timers
        while not main.done():
            self._serve_all()
            if main.done():
                break
            if self._look_outside():
                continue
            if not timers:
                raise Livelock("nobody waits for anything any more")
            self._move_on()

    def _serve_all(self) -> None:
        """Step after step, until nobody can run at this instant. The same as `_serve_one` again and again: what is looked up there for
        every step would take as long as many a step does."""
        runnable, draw, step = self._runnable, self._draw, self._step
        while runnable:
            many = len(runnable)
            nth = int(draw() * many) if many > 1 else 0
            node = runnable[nth]
            queue = node.queue
            handle = queue.popleft()
            if not queue:
                runnable[nth] = runnable[-1]
                runnable.pop()
            if not handle.is_cancelled:
                self.steps = steps = self.steps + 1
                self.digest = hash((self.digest, node.number, self.now))
                step(handle)
                if steps > MOST_STEPS:
                    raise Livelock(f"{steps:,} steps")

    def _serve_one(self) -> None:
        """One step of one of those who can run."""
        runnable = self._runnable
        many = len(runnable)
        nth = int(self._draw() * many) if many > 1 else 0
        node = runnable[nth]
        handle = node.queue.popleft()
        if not node.queue:
            runnable[nth] = runnable[-1]
            runnable.pop()
        if not handle.is_cancelled:
            self.steps += 1
            self.digest = hash((self.digest, node.number, self.now))
            self._step(handle)

    def _move_on(self) -> None:
        """Time passes until the next timer."""
        timers, enqueue = self._timers, self._enqueue
        # Most waits end before their time is over, and are not waited for.
        while timers[0][2].is_cancelled:
            heappop(timers)
            if not timers:
                return
        when = timers[0][0]
        if when > self.now:
            self.now = when
        while timers and timers[0][0] <= when:
            handle = heappop(timers)[2]
            if not handle.is_cancelled:
                enqueue(handle.node, handle)

    def _look_outside(self) -> bool:
        """Whether something came from outside before time moves on: here there is no outside."""
        return False

    def _step(self, handle: _Handle) -> None:
        assert handle.callback is not None
        try:
            handle.context.run(handle.callback, *handle.args)
        except (SystemExit, KeyboardInterrupt, Livelock):
            raise
        except BaseException as error:
            self.call_exception_handler({"message": "a callback failed", "exception": error})

    def bury(self) -> None:
        """The end: whatever still waits is cancelled, the crashed too, so that nothing of it is left for the garbage collector.

        The world is closed by now: nobody sees what a `finally` does here.
        """
        self.is_over = True
        with instead_of_the_running_loop(self):
            for _ in range(ROUNDS_OF_BURIAL):
                # First the wish to end, then the steps: nobody goes on where a timer or a crash had stopped it.
                self._tasks = [task for task in self._tasks if not task.done()]
                for task in self._tasks:
                    task.cancel()
                if not self._tasks and not any(node.queue for node in self._nodes):
                    break
                for node in self._nodes:
                    for _ in range(len(node.queue)):
                        handle = node.queue.popleft()
                        if not handle.is_cancelled:
                            self._step(handle)
            for task in self._tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with contextlib.suppress(BaseException):
                    task.get_coro().close()
        self._timers.clear()
        self._tasks.clear()
        self.close()


@contextlib.contextmanager
def instead_of_the_running_loop(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """This loop runs; one that runs already, with a task of its own, is as before in the end."""
    before = asyncio._get_running_loop()
    task = None if before is None else asyncio.current_task(before)
    if before is not None and task is not None:
        asyncio.tasks._leave_task(before, task)
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(before)
        if before is not None and task is not None:
            asyncio.tasks._enter_task(before, task)
