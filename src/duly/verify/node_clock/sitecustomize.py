"""A node's wall clock, turned: put this directory on the PYTHONPATH of a process and write seconds into `clock` of its directory.

Only what shows the time of day is turned; what measures how long something takes (monotonic, boottime) is not, as on a real
machine whose clock an administrator sets. Nothing of Duly knows about it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

_time, _time_ns = time.time, time.time_ns


def _turn(directory: str) -> tuple[Callable[[], float], Callable[[], int]]:
    path = os.path.join(directory, "clock")
    seen: list[float] = [0.0, -1.0]

    def offset() -> float:
        # Looked up ten times a second at most: programs ask for the time more often than that.
        now = time.monotonic()
        if now - seen[1] > 0.1:
            seen[1] = now
            try:
                with open(path, encoding="ascii") as file:
                    seen[0] = float(file.read() or "0")
            except (OSError, ValueError):
                seen[0] = 0.0
        return seen[0]

    return lambda: _time() + offset(), lambda: _time_ns() + int(offset() * 1e9)


time.time, time.time_ns = _turn(os.getcwd())
