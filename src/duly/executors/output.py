"""What a process prints: read without blocking, split into lines, kept as the attempt's log within bounds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import IO

from duly.ports.handlers import Attempt

MOST_LINES = 10_000
MOST_BYTES = 1 << 20
LONGEST_LINE = 16 << 10
TAIL = 4 << 10

# Small, so that a flood of short lines gives the event loop back after a few milliseconds.
CHUNK = 8 << 10

# A pipe holds at most this much (pipe-max-size for processes without privileges).
PIPE_CAPACITY = 1 << 20


class Budget:
    """How much one attempt may still log through its output: lines and bytes, both streams together."""

    __slots__ = ("bytes_left", "lines_left", "spent")

    def __init__(self, lines: int = MOST_LINES, size: int = MOST_BYTES) -> None:
        self.lines_left = lines
        self.bytes_left = size
        self.spent = False

    def take(self, size: int) -> bool:
        """Whether another line of this size fits; what did not fit once closes the budget for good."""
        if self.spent or self.lines_left < 1 or self.bytes_left < size:
            self.spent = True
            return False
        self.lines_left -= 1
        self.bytes_left -= size
        return True


class Lines:
    """One stream of an attempt's output as log lines. It keeps its own tail, which is not bounded by the budget."""

    __slots__ = ("_attempt", "_budget", "_kept", "_level", "_partial", "_tail")

    def __init__(self, attempt: Attempt, level: str, budget: Budget) -> None:
        self._attempt = attempt
        self._level = level
        self._budget = budget
        self._partial = b""
        self._tail = b""
        # More than is shown of the end: a secret at its beginning must be whole to be found.
        veil = attempt.veil
        self._kept = TAIL if veil is None else TAIL + 4 * veil.longest

    def feed(self, chunk: bytes) -> None:
        """Take what was read; whole lines are logged at once."""
        self._tail = chunk[-self._kept :] if len(chunk) >= self._kept else (self._tail + chunk)[-self._kept :]
        if self._budget.spent:
            return
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        for line in lines:
            self._log(line)
        while len(self._partial) > LONGEST_LINE:
            self._log(self._partial[:LONGEST_LINE])
            self._partial = self._partial[LONGEST_LINE:]

    def finish(self) -> None:
        """Log a last line that had no newline."""
        if self._partial:
            self._log(self._partial)
            self._partial = b""

    @property
    def tail(self) -> str:
        """The end of what was printed."""
        text, veil = clean_text(self._tail), self._attempt.veil
        return text if veil is None else veil.over_end(text, TAIL)

    def _log(self, line: bytes) -> None:
        for start in range(0, len(line) or 1, LONGEST_LINE):
            piece = line[start : start + LONGEST_LINE]
            was_spent = self._budget.spent
            if self._budget.take(len(piece)):
                self._attempt.log(self._level, clean_text(piece.removesuffix(b"\r")), {})
            elif not was_spent:
                self._attempt.log(
                    "warning", f"The output is longer than {MOST_LINES} lines or {MOST_BYTES} bytes; the rest is not kept.", {}
                )


class OutputPipe:
    """The reading end of a process's output. Owns the descriptor."""

    def __init__(self, fd: int, sink: Callable[[bytes], None]) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self.sink = sink
        self.ended = asyncio.Event()
        self._loop.add_reader(fd, self._read)

    def drain(self) -> None:
        """Take what is in the pipe now: everything that was written before this call, unless a flood is still coming."""
        for _ in range(PIPE_CAPACITY // CHUNK):
            if self.ended.is_set() or not self._read():
                return

    def close(self) -> None:
        """Stop reading; a writer that goes on gets SIGPIPE."""
        if not self.ended.is_set():
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self.ended.set()

    def _read(self) -> bool:
        try:
            chunk = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return False
        if chunk:
            self.sink(chunk)
        else:
            self.close()
        return bool(chunk)


def open_pipe(stream: IO[bytes] | None, sink: Callable[[bytes], None]) -> OutputPipe:
    """Read a process's stream from now on. The stream object is closed: the descriptor it held becomes ours."""
    assert stream is not None
    with stream:
        return OutputPipe(os.dup(stream.fileno()), sink)


def clean_text(raw: bytes) -> str:
    """Text that every store can keep: UTF-8, with U+FFFD for what is not, and for NUL, which PostgreSQL refuses."""
    return raw.decode("utf-8", "replace").replace("\0", "\ufffd")
