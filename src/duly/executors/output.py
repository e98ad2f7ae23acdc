"""What a process prints: read without blocking, split into lines, kept as the attempt's log within bounds."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import IO

from duly.domain.logs import LONGEST_LINE
from duly.ports.handlers import Attempt

TAIL = 4 << 10

# Small, so that a flood of short lines gives the event loop back after a few milliseconds.
CHUNK = 8 << 10

# A pipe holds at most this much (pipe-max-size for processes without privileges).
PIPE_CAPACITY = 1 << 20


class Lines:
    """One stream of an attempt's output as log lines. It keeps its own tail, whatever the log has no room for."""

    __slots__ = ("_attempt", "_kept", "_level", "_partial", "_tail")

    def __init__(self, attempt: Attempt, level: str) -> None:
        self._attempt = attempt
        self._level = level
        self._partial = b""
        self._tail = b""
        # More than is shown of the end: a secret at its beginning must be whole to be found.
        veil = attempt.veil
        self._kept = TAIL if veil is None else TAIL + 4 * veil.longest

    def feed(self, chunk: bytes) -> None:
        """Take what was read; whole lines are logged at once."""
        self._tail = chunk[-self._kept :] if len(chunk) >= self._kept else (self._tail + chunk)[-self._kept :]
        if self._attempt.log_is_full:
            # A flood is not taken apart any more.
            self._attempt.pass_over(chunk.count(b"\n"), len(chunk))
            return
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        for line in lines:
            self._log(line)
        while len(self._partial) > LONGEST_LINE:
            self._log(self._partial[:LONGEST_LINE])
            self._partial = self._partial[LONGEST_LINE:]

    def pass_on(self, chunk: bytes) -> None:
        """Take what was read for the tail only; it goes where our own output goes."""
        self._tail = (self._tail + chunk)[-self._kept :]
        stream = sys.stderr if self._level == "error" else sys.stdout
        stream.write(clean_text(chunk))
        stream.flush()

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
            self._attempt.log(self._level, clean_text(piece.removesuffix(b"\r")), {})


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
