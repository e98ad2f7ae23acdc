"""Several worker processes: started together, each started again when it dies, stopped together.

A handler that kills its process takes a worker with it, and with it whatever else that worker ran; the next one
starts a moment later, and the rest goes on meanwhile. The supervisor itself runs nothing that could die.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time

from duly.cli.errors import OK
from duly.domain.restart import wait_before_start
from duly.executors.groups import describe_exit

log = logging.getLogger("duly.supervisor")


def supervise(count: int) -> int:
    """Run `count` processes with this command line, until a signal. They get it too, and are waited for."""
    # The last word counts: each of them is a worker itself.
    command = [sys.executable, *sys.orig_argv[1:], "--processes", "0", "--parent", str(os.getpid())]
    asyncio.run(_Pool(command).run(count))
    return OK


class _Pool:
    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._children: set[subprocess.Popen[bytes]] = set()
        self._stopping = asyncio.Event()

    async def run(self, count: int) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._pass_on, number)
        print(f"Running {count} worker processes. Ctrl-C stops them.", file=sys.stderr, flush=True)
        await asyncio.gather(*(self._keep_one() for _ in range(count)))
        print("Stopped.", file=sys.stderr, flush=True)

    def _pass_on(self, number: signal.Signals) -> None:
        self._stopping.set()
        for child in self._children:
            child.send_signal(number)

    async def _keep_one(self) -> None:
        deaths = 0
        while not self._stopping.is_set():
            started = time.monotonic()
            child = self._start()
            await asyncio.to_thread(child.wait)
            self._children.discard(child)
            if self._stopping.is_set():
                return
            wait, deaths = wait_before_start(deaths, time.monotonic() - started)
            log.warning("worker process %d %s; another one starts in %.1f s", child.pid, describe_exit(child.returncode), wait)
            try:
                async with asyncio.timeout(wait):
                    await self._stopping.wait()
            except TimeoutError:
                continue

    def _start(self) -> subprocess.Popen[bytes]:
        # A group of its own: a Ctrl-C reaches the supervisor only, which passes it on once. It dies with the thread that started
        # it, so it is the main one that does.
        child = subprocess.Popen(self._command, process_group=0)
        self._children.add(child)
        return child
