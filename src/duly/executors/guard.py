"""A tiny process that outlives the worker by a moment and kills the commands it left behind.

The worker writes `+pid` when a command starts and `-pid` before it reaps it. When the
worker is gone, however it went, the pipe ends and every group still listed is killed,
grandchildren included. PR_SET_PDEATHSIG would reach only the command itself, and needs
code between fork and exec: a Python function there can deadlock in a worker with threads,
and an exec wrapper in Python costs 20 ms per command (measured; a bare start is 1.2 ms).

Run as a plain script without site-packages, so it imports only the standard library.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress


class Guard:
    """The worker's end, for any thread. Started with the first command; started again, and told everything, should it ever be killed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pids: set[int] = set()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Be there before the command is: raises OSError when no process can be started."""
        with self._lock:
            self._ensure()

    def watch(self, pid: int) -> None:
        """Kill this process group should the worker die."""
        with self._lock:
            self._pids.add(pid)
            if not self._ensure():
                self._tell(f"+{pid}\n")

    def forget(self, pid: int) -> None:
        """The group is gone; said before it is reaped, so a number that is used again is never killed."""
        with self._lock:
            self._pids.discard(pid)
            self._tell(f"-{pid}\n")

    def close(self) -> None:
        """End the guard, which kills the groups that are still watched. Blocks for the moment that it takes."""
        with self._lock:
            if self._process is not None:
                assert self._process.stdin is not None
                self._process.stdin.close()
                self._process.wait()
                self._process = None

    def _ensure(self) -> bool:
        """Start it unless it lives; True when it was started and told everything."""
        if self._process is not None and self._process.poll() is None:
            return False
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        # A service manager that asks everybody to stop asks the worker too, and the guard goes last: blocked here, the
        # signals are blocked in the new process from its first instruction on.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                bufsize=0,
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._tell("".join(f"+{pid}\n" for pid in self._pids))
        return True

    def _tell(self, lines: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            # A guard that is stopped must not stop the worker: the pipe never blocks, and a line that does not fit is lost.
            with suppress(OSError):
                os.write(self._process.stdin.fileno(), lines.encode())


def main() -> None:
    """Read until the worker is gone, then kill what it left."""
    pids: set[int] = set()
    for line in sys.stdin:
        pid = int(line[1:])
        if line[0] == "+":
            pids.add(pid)
        else:
            pids.discard(pid)
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
