"""Where a handler says that it has started: one mark in shared memory, two numbers and no system call.

Every process writes a file of its own: how many marks, then for each the time of the handler's first line and the time that the job
carries (when it was enqueued, or when it was due). `peers/programs/marks.js` writes the same. Only the standard library: peers import
it too.
"""

from __future__ import annotations

import array
import mmap
import os
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

PLACE = "BENCH_MARKS"
MOST = 20_000_000
"""Marks of one process; the file has holes until they are made."""

_WORD = 8


class _Page:
    """This process's file."""

    def __init__(self) -> None:
        self.count = 0
        self.lock = threading.Lock()
        path = Path(os.environ[PLACE], f"{os.getpid()}.marks")
        with path.open("w+b") as file:
            file.truncate(_WORD * (1 + 2 * MOST))
            self.words = memoryview(mmap.mmap(file.fileno(), 0)).cast("d")


_page: _Page | None = None
_first = threading.Lock()


def hit(t: float) -> None:
    """The first line of every handler. Safe in threads and after a fork."""
    now = time.time()
    page = _page or _make_page()
    with page.lock:
        if page.count == MOST:
            raise RuntimeError(f"this process has made {MOST:,} marks, and there is no room for more: see benchmarks/marks.py")
        at = 1 + 2 * page.count
        page.words[at] = now
        page.words[at + 1] = t
        page.count += 1
        # Last, so that whoever reads the count finds the mark.
        page.words[0] = page.count


def _make_page() -> _Page:
    global _page
    with _first:
        _page = _page or _Page()
        return _page


def _forget() -> None:
    """A child of a fork writes a file of its own, and may have got locks that nobody opens any more."""
    global _page, _first
    _page, _first = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


@dataclass(frozen=True, slots=True)
class Mark:
    """A handler's start, and the time that its job carried."""

    started: float
    carried: float

    @property
    def delay(self) -> float:
        """Seconds from the one to the other."""
        return self.started - self.carried


class Marks:
    """The marks of one measurement, read by whoever started it."""

    def __init__(self) -> None:
        memory = Path("/dev/shm")
        self._directory = tempfile.TemporaryDirectory(prefix="duly-marks-", dir=memory if memory.is_dir() else None)
        self.path = Path(self._directory.name)

    def __enter__(self) -> Marks:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._directory.cleanup()

    def count(self) -> int:
        """How many handlers have started."""
        return sum(_count(path) for path in self.path.glob("*.marks"))

    def counts(self) -> dict[Path, int]:
        """The same for every process: what `since` takes."""
        return {path: _count(path) for path in self.path.glob("*.marks")}

    def read(self, since: dict[Path, int] | None = None) -> list[Mark]:
        """All marks, or those made since, in the order of their time."""
        found: list[Mark] = []
        for path in self.path.glob("*.marks"):
            words = array.array("d")
            with path.open("rb") as file:
                words.frombytes(file.read(_WORD * (1 + 2 * _count(path))))
            skip = 0 if since is None else since.get(path, 0)
            pairs = words[1 + 2 * skip :]
            found += map(Mark, pairs[::2], pairs[1::2])
        return sorted(found, key=lambda mark: mark.started)


def _count(path: Path) -> int:
    with path.open("rb") as file:
        word = array.array("d")
        word.frombytes(file.read(_WORD).ljust(_WORD, b"\0"))
    return int(word[0])
