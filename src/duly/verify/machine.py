"""What the machine under a test does to it by itself: it stands still, or somebody sets its clock.

A virtual machine that is paused, moved or copied goes on as if nothing had been, and finds its wall clock further on than its own count
of time. Nobody asked for that fault, and it is one all the same: it is noted with the others, so that what it delays is judged by what
was promised for a fault.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from duly.verify.history import SECOND, Fault

KIND = "machine"
EVERY = 0.1
# The wall clock was set if it moved by more than this against boottime between two looks.
MOVED = SECOND // 20
# The machine stood still if a look was due so long ago.
STILL = SECOND
# Every node has learnt of a clock that was set after so long: it glances at its own each second, and then asks the store.
LEARNT = 3 * SECOND


@dataclass(frozen=True, slots=True)
class Reading:
    """Both clocks of the machine at one moment, in microseconds."""

    wall: int
    boottime: int


def read() -> Reading:
    """Look at both."""
    return Reading(time.time_ns() // 1000, time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1000)


def between(before: Reading, after: Reading) -> Fault | None:
    """What happened between two looks that should be `EVERY` apart, if anything did."""
    stood = after.boottime - before.boottime
    moved = after.wall - before.wall - stood
    if abs(moved) > MOVED:
        return Fault(kind=KIND, since=before.wall, until=max(before.wall, after.wall) + LEARNT, nodes=[], about={"by": moved})
    if stood > STILL:
        return Fault(kind=KIND, since=before.wall, until=after.wall, nodes=[], about={"seconds": round(stood / SECOND, 3)})
    return None


@contextlib.contextmanager
def watched(faults: list[Fault], read: Callable[[], Reading] = read, every: float = EVERY) -> Iterator[None]:
    """Note what the machine does inside this block. In a thread of its own: that our loop is busy is no fault of the machine."""
    stop = threading.Event()

    def look() -> None:
        before = read()
        while not stop.wait(every):
            after = read()
            if (fault := between(before, after)) is not None:
                faults.append(fault)
            before = after

    thread = threading.Thread(target=look, name="machine", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
