"""What processes use, with all their children, as Linux counts it: processor time and memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_PROC = Path("/proc")
_TICK = os.sysconf("SC_CLK_TCK")


def processor_seconds(roots: Iterable[int]) -> float | None:
    """What these processes and all below them have used so far, those that have ended included; None where nobody counts."""
    return sum(seconds for _, seconds in _trees(roots)) if _PROC.is_dir() else None


def memory_bytes(root: int) -> float:
    """What this process and all below it hold, where every page that several hold is shared out among them; 0 where nobody counts."""
    return sum(_proportional(process) for process, _ in _trees([root])) if _PROC.is_dir() else 0.0


def tree(root: int) -> list[int]:
    """This process and all below it."""
    return [process for process, _ in _trees([root])]


def _trees(roots: Iterable[int]) -> Iterator[tuple[int, float]]:
    """These processes and all below them, with the seconds of each."""
    used: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for path in _PROC.iterdir():
        if path.name.isdigit() and (fields := _fields(path)):
            parent, seconds = fields
            used[int(path.name)] = seconds
            children.setdefault(parent, []).append(int(path.name))
    waiting = list(roots)
    while waiting:
        process = waiting.pop()
        yield process, used.get(process, 0.0)
        waiting += children.get(process, [])


def _proportional(process: int) -> float:
    try:
        lines = (_PROC / str(process) / "smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0.0)


def _fields(path: Path) -> tuple[int, float] | None:
    """The parent, and the seconds of the process and of its children that have ended."""
    try:
        # The name may hold anything; what follows its last bracket does not.
        words = (path / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    own, of_children = sum(map(int, words[11:13])) / _TICK, sum(map(int, words[13:15])) / _TICK
    return int(words[1]), max(own, _exactly(path)) + of_children


def _exactly(path: Path) -> float:
    """The seconds of the threads that are there, to the nanosecond: `stat` counts hundredths, and threads that have ended as well."""
    total = 0
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in (path / "task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9
