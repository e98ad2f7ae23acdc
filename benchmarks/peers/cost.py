"""What a system uses: the processor time of its processes and of its server, with all their children, as Linux counts it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")
_TICK = os.sysconf("SC_CLK_TCK")


def processor_seconds(roots: Iterable[int]) -> float | None:
    """What these processes and all below them have used so far, those that have ended included; None where nobody counts."""
    if not _PROC.is_dir():
        return None
    used: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for path in _PROC.iterdir():
        if path.name.isdigit() and (fields := _fields(path)):
            parent, seconds = fields
            used[int(path.name)] = seconds
            children.setdefault(parent, []).append(int(path.name))
    total, waiting = 0.0, list(roots)
    while waiting:
        process = waiting.pop()
        total += used.get(process, 0.0)
        waiting += children.get(process, [])
    return total


def _fields(path: Path) -> tuple[int, float] | None:
    """The parent, and the seconds of the process and of its children that have ended."""
    try:
        # The name may hold anything; what follows its last bracket does not.
        words = (path / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(words[1]), sum(map(int, words[11:15])) / _TICK
