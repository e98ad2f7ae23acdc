"""Several worker processes: started together, each started again when it dies, stopped together.

A handler that kills its process takes a worker with it, and with it whatever else that worker ran; the next one
starts a moment later, and the rest goes on meanwhile. The supervisor itself runs nothing that could die.

With `--autoscale` it looks at the pool's load every few seconds: it grows at once, and shrinks when less has been enough for a
while. Whoever is not needed any more drains like any worker that is stopped, and what the store says last stays true while the
store is away.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from duly.cli.errors import OK
from duly.domain.errors import DulyError, Invalid
from duly.domain.restart import wait_before_start
from duly.domain.scaling import Goal, Load, recommended, settled
from duly.executors.groups import describe_exit

log = logging.getLogger("duly.supervisor")

LOOK_EVERY = 2.0
# Less must have been enough for so long before a worker is stopped.
CALM_FOR = 60.0

Look = Callable[[], Awaitable[Load]]


def supervise(count: int) -> int:
    """Run `count` processes with this command line, until a signal. They get it too, and are waited for."""
    asyncio.run(_Pool(_command("--processes")).run(count))
    return OK


def autoscale(goal: Goal, hostname: str, look: Look, calm_for: float = CALM_FOR) -> int:
    """Run between `goal.least` and `goal.most` of them, as many as the load asks for, until a signal."""
    asyncio.run(_Pool(_command("--processes", "0", "--autoscale", "")).scale(goal, hostname, look, calm_for))
    return OK


def bounds(text: str) -> tuple[int, int]:
    """`MIN..MAX` of --autoscale. Raises Invalid (DULY-E604)."""
    least, dots, most = text.partition("..")
    if not dots or not (least + most).isascii() or not least.isdigit() or not most.isdigit() or not int(least) <= int(most) <= 1024:
        raise Invalid("DULY-E604", f"{text!r} is not MIN..MAX.", field="--autoscale", hint="Such as 1..8; at most 1024.")
    if int(most) == 0:
        raise Invalid("DULY-E604", "would never run anything.", field="--autoscale", hint="Such as 1..8.")
    return int(least), int(most)


def _command(*instead: str) -> list[str]:
    # The last word counts: each of them is a worker itself.
    ends = instead if len(instead) > 1 else (*instead, "0")
    return [sys.executable, *sys.orig_argv[1:], *ends, "--parent", str(os.getpid())]


class _Keeper:
    """One place: a process, and the next one when it dies, until it is not wanted any more."""

    def __init__(self) -> None:
        self.child: subprocess.Popen[bytes] | None = None
        self.retired = asyncio.Event()

    def retire(self, number: signal.Signals) -> None:
        """The process is told, and nobody follows it."""
        self.retired.set()
        if self.child is not None:
            self.child.send_signal(number)


class _Pool:
    def __init__(self, command: list[str]) -> None:
        self._command = command
        # Those that are wanted, oldest first, and those that drain.
        self._wanted: list[_Keeper] = []
        self._tasks: dict[asyncio.Task[None], _Keeper] = {}
        self._stopping = asyncio.Event()

    async def run(self, count: int) -> None:
        self._listen()
        print(f"Running {count} worker processes. Ctrl-C stops them.", file=sys.stderr, flush=True)
        self._become(count)
        await self._end()

    async def scale(self, goal: Goal, hostname: str, look: Look, calm_for: float) -> None:
        self._listen()
        print(f"Running {goal.least} to {goal.most} worker processes. Ctrl-C stops them.", file=sys.stderr, flush=True)
        self._become(goal.least)
        seen: list[tuple[float, int]] = []
        while not self._stopping.is_set():
            try:
                load = await look()
            except DulyError as error:
                log.warning("the load is not known, %d worker processes stay: %s", len(self._wanted), error)
            else:
                wish = self._wish(load, goal, hostname)
                seen, number = settled(seen, wish, time.monotonic(), calm_for)
                self._become(number)
            await self._pause(LOOK_EVERY)
        await self._end()

    def _wish(self, load: Load, goal: Goal, hostname: str) -> int:
        """How many of ours there should be, beside those that others run."""
        own = {keeper.child.pid for keeper in self._tasks.values() if keeper.child is not None}
        ours = tuple(process for process in load.processes if process[0] == hostname and process[1] in own)
        elsewhere = load.slots - sum(slots for _, _, slots in ours)
        return recommended(replace(load, processes=ours), goal, elsewhere=elsewhere)

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._pass_on, number)

    def _pass_on(self, number: signal.Signals) -> None:
        self._stopping.set()
        for keeper in self._tasks.values():
            keeper.retire(number)

    def _become(self, count: int) -> None:
        """So many are wanted: more start at once, of those that are too many the newest drain."""
        if self._stopping.is_set():
            return
        if count != len(self._wanted):
            log.info("%d worker processes wanted, %d there", count, len(self._wanted))
        while len(self._wanted) > count:
            self._wanted.pop().retire(signal.SIGTERM)
        while len(self._wanted) < count:
            keeper = _Keeper()
            self._wanted.append(keeper)
            task = asyncio.create_task(self._keep(keeper))
            self._tasks[task] = keeper
            task.add_done_callback(lambda ended: self._tasks.pop(ended, None))

    async def _end(self) -> None:
        while self._tasks:
            await asyncio.gather(*self._tasks)
        print("Stopped.", file=sys.stderr, flush=True)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _keep(self, keeper: _Keeper) -> None:
        deaths = 0
        while not keeper.retired.is_set():
            started = time.monotonic()
            child = keeper.child = self._start()
            await asyncio.to_thread(child.wait)
            if keeper.retired.is_set():
                return
            wait, deaths = wait_before_start(deaths, time.monotonic() - started)
            log.warning("worker process %d %s; another one starts in %.1f s", child.pid, describe_exit(child.returncode), wait)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await keeper.retired.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        # A group of its own: a Ctrl-C reaches the supervisor only, which passes it on once. It dies with the thread that started
        # it, so it is the main one that does.
        return subprocess.Popen(self._command, process_group=0)
