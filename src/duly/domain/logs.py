"""Log lines of attempts: how many are kept, and which are meant when somebody looks for some."""

from __future__ import annotations

from dataclasses import dataclass

# Lowest first; a line of any other level counts as the highest.
LEVELS = ("debug", "info", "warning", "error")

# What is kept of one attempt.
MOST_LINES = 10_000
MOST_BYTES = 4 << 20
LONGEST_LINE = 16_384
# What a line that was cut says of it has room in so much.
_ROOM = 64
# A line says so when the rest is not kept, and another at the end says how much that was: they come on top.


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which lines are meant: of this attempt, of this level or higher, with this text in them (ASCII letters of any case)."""

    attempt: int | None = None
    level: str | None = None
    contains: str | None = None

    @property
    def least(self) -> int:
        """The lowest level as a number."""
        return 0 if self.level is None else LEVELS.index(self.level)


class Allowance:
    """What one attempt may still log. What did not fit once closes it for good, so that no line is missing in between."""

    __slots__ = ("bytes_left", "dropped_bytes", "dropped_lines", "is_told", "lines_left")

    def __init__(self, lines: int = MOST_LINES, size: int = MOST_BYTES) -> None:
        self.lines_left = lines
        self.bytes_left = size
        self.dropped_lines = 0
        self.dropped_bytes = 0
        # Whether the end of the log says so.
        self.is_told = False

    def take(self, size: int) -> bool:
        """Whether a line of this size is kept."""
        if self.dropped_lines or self.lines_left < 1 or self.bytes_left < size:
            self.dropped_lines += 1
            self.dropped_bytes += size
            return False
        self.lines_left -= 1
        self.bytes_left -= size
        return True


def shortened(line: str, unkept: int = 0) -> str:
    """A line as it is kept: one that is too long says at its end how much is not there. `unkept` characters of that nobody has any more."""
    if len(line) <= LONGEST_LINE and not unkept:
        return line
    kept = line[: LONGEST_LINE - _ROOM]
    return f"{kept}… ({len(line) - len(kept) + unkept:,} more characters were not kept)"


def limit_words(lines: int = MOST_LINES, size: int = MOST_BYTES) -> str:
    """What is said where the rest begins that is not kept."""
    return f"more than {lines:,} lines or {size >> 20} MiB: the rest is not kept"


def dropped_words(lines: int, size: int) -> str:
    """What is said at the end of an attempt of which not everything was kept."""
    return f"not kept: {lines:,} {'line' if lines == 1 else 'lines'}, {size:,} bytes"
