"""A sleep that ends when it should.

The event loop counts in whole milliseconds: what it wakes for is up to one early or late. Linux has timers that are files (`timerfd`):
never early, and on a busy machine half as late. Where there are none, the loop's own are used.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import sys

from duly.domain.instants import SECOND

_BOOTTIME, _NONBLOCK, _CLOEXEC = 7, 0o4000, 0o2000000
# The loop's own timer is good enough for longer than this: whoever waits for so long looks again before it is time.
LONGEST = 3600.0
# Half of what the loop's own timer may be early: who wakes too early would only find that nothing is due yet.
ROUNDED = 0.0005


class _TimeSpec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class _Timer(ctypes.Structure):
    _fields_ = [("again", _TimeSpec), ("first", _TimeSpec)]


class Alarm:
    """One timer, for one who sleeps at a time."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._file: int | None = None

    async def sleep(self, seconds: float) -> None:
        """At least so long, and as little longer as the machine allows."""
        if seconds <= 0:
            return
        file = self._set(seconds) if seconds < LONGEST else None
        if file is None:
            await asyncio.sleep(seconds + ROUNDED)
            return
        loop = asyncio.get_running_loop()
        rung = loop.create_future()
        loop.add_reader(file, _ring, file, rung)
        try:
            await rung
        finally:
            loop.remove_reader(file)

    def _set(self, seconds: float) -> int | None:
        """The file that becomes readable in so many seconds; None where there is no such thing."""
        if self._library is None:
            return None
        if self._file is None:
            file = self._library.timerfd_create(_BOOTTIME, _NONBLOCK | _CLOEXEC)
            if file < 0:
                self._library = None
                return None
            self._file = file
        micros = max(round(seconds * SECOND), 1)
        timer = _Timer(_TimeSpec(0, 0), _TimeSpec(micros // SECOND, micros % SECOND * 1000))
        if self._library.timerfd_settime(self._file, 0, ctypes.byref(timer), None) < 0:
            return None
        return self._file

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _ring(file: int, rung: asyncio.Future[None]) -> None:
    with contextlib.suppress(BlockingIOError):
        os.read(file, 8)
    if not rung.done():
        rung.set_result(None)
