"""A process and everything it starts, as one thing that can be waited for, asked to stop, and killed.

Every command runs in a session of its own, so its process group holds it and its
descendants, and one signal reaches them all. The leader is awaited *without* reaping it
(pidfd, then waitid with WNOWAIT): as long as it is a zombie, its number cannot be given to
another process, so the last SIGKILL to the group can never hit a stranger. asyncio's own
subprocess support reaps at once, and before Python 3.12 spends a thread per process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from duly.executors.output import OutputPipe


class ProcessGroup:
    """A started process that leads its own session, and the pipes of its output."""

    def __init__(self, process: subprocess.Popen[bytes], *pipes: OutputPipe, before_reaping: Callable[[int], None] | None = None) -> None:
        self.pid = process.pid
        self._process = process
        self._pipes = pipes
        self._before_reaping = before_reaping
        self._loop = asyncio.get_running_loop()
        self._pidfd: int | None = None
        self._waiting: asyncio.Task[None] | None = None
        self.exited = asyncio.Event()
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except (AttributeError, OSError):
            self._waiting = self._loop.create_task(self._wait_in_thread())
        else:
            self._loop.add_reader(self._pidfd, self._on_exit)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole group; nothing happens once it is gone."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def has_exited(self) -> bool:
        """Whether the leader has ended, asked of the kernel and not of the event loop's last turn."""
        if not self.exited.is_set() and self._pidfd is not None and _is_zombie(self.pid):
            self._on_exit()
        return self.exited.is_set()

    async def stop(self, grace: float | None) -> int:
        """SIGTERM to the group, SIGKILL to what is left after the grace (None: never by itself). Returns when the leader is reaped.

        A second cancellation of the caller cuts the grace short and no more: the group is always gone afterwards.
        """
        self.signal(signal.SIGTERM)
        return await _to_the_end(self._end(grace), self)

    async def finish(self, grace: float) -> int:
        """When the leader has ended or is about to: what it left behind may print for at most the grace, then all are killed."""
        return await _to_the_end(self._end(grace), self)

    async def _end(self, grace: float | None) -> int:
        if self._process.returncode is not None:
            return self._process.returncode
        try:
            async with asyncio.timeout(grace):
                await self.exited.wait()
                # A shell dies of SIGTERM before the program it waits for; an open pipe shows that somebody is still at work.
                for pipe in self._pipes:
                    await pipe.ended.wait()
        except TimeoutError:
            pass
        self.signal(signal.SIGKILL)
        await self.exited.wait()
        for pipe in self._pipes:
            pipe.drain()
            pipe.close()
        if self._before_reaping is not None:
            self._before_reaping(self.pid)
        return self._process.wait()

    def _on_exit(self) -> None:
        assert self._pidfd is not None
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._pidfd = None
        self.exited.set()

    async def _wait_in_thread(self) -> None:
        # Without pidfd. Where waitid is missing too, reaping early leaves a gap of microseconds before the last SIGKILL.
        if hasattr(os, "waitid"):
            await asyncio.to_thread(os.waitid, os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            await asyncio.to_thread(self._process.wait)
        self.exited.set()


def describe_exit(returncode: int) -> str:
    """The end of a process in words: `exited with status 3`, `was killed by signal 9 (SIGKILL)`."""
    if returncode >= 0:
        return f"exited with status {returncode}"
    try:
        name = f" ({signal.Signals(-returncode).name})"
    except ValueError:
        name = ""
    return f"was killed by signal {-returncode}{name}"


def _is_zombie(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


async def _to_the_end(work: Coroutine[Any, Any, int], group: ProcessGroup) -> int:
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as exc:
            cancelled = exc
            group.signal(signal.SIGKILL)
    if cancelled is not None:
        raise cancelled
    return task.result()
