"""What Python handlers say beside `ctx.log`: records of the standard library's logging, and what they print.

Both are heard where the handler runs, by the context it runs in: on the event loop, in a thread, in a child process. A
thread or a process that the handler starts itself is not the handler, unless it takes the context along (`asyncio.to_thread` does).

A handler that says nothing costs nothing: nobody looks before something is said.
"""

from __future__ import annotations

import io
import logging
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TextIO

from duly.domain.logs import LONGEST_LINE
from duly.ports.current import current_attempt
from duly.ports.handlers import Attempt
from duly.ports.words import name_of, words_of

LOGGING, PRINT = "logging", "print"
# Of a line without an end so much is held: more than is kept of it, so that a secret where it is cut is still whole when it is hidden.
LONGEST_PARTIAL = 2 * LONGEST_LINE

_LEVELS = ((logging.ERROR, "error"), (logging.WARNING, "warning"), (logging.INFO, "info"))
# What a record has anyway; anything else was given as `extra`, and is a field.
_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_MARK = "kept_by_duly"


class RecordKeeper(logging.Handler):
    """Gives records to the attempt in whose handler they were made."""

    def __init__(self, attempt: Callable[[], Attempt | None] = current_attempt) -> None:
        super().__init__()
        self._attempt = attempt

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it, if a handler said it. Whatever is wrong with it, the handler does not fail for it."""
        if record.name == "duly" or record.name.startswith("duly."):
            return
        attempt = self._attempt()
        if attempt is None or attempt.over:
            return
        try:
            message = record.getMessage()
        except Exception as error:
            message = f"{words_of(record.msg)} ({name_of(error)}: its arguments do not fit)"
        fields = {name: value for name, value in record.__dict__.items() if name not in _OWN and name != _MARK}
        fields["logger"] = record.name
        if record.exc_info and record.exc_info[0] is not None:
            message = f"{message}\n{_traceback(record.exc_info)}"
        record.__dict__[_MARK] = True
        attempt.log(level_name(record.levelno), message, fields)


def _traceback(raised: tuple[type[BaseException], BaseException, TracebackType | None]) -> str:
    try:
        return "".join(traceback.format_exception(*raised)).rstrip()
    except BaseException:
        return f"{name_of(raised[1])}: {words_of(raised[1])}"


def level_name(number: int) -> str:
    """The level of a line by the number of a record's."""
    return next((name for least, name in _LEVELS if number >= least), "debug")


def _is_new(record: logging.LogRecord) -> bool:
    return _MARK not in record.__dict__


class PrintKeeper(io.TextIOBase):
    """Stands before standard output: what a handler prints also goes to its log, line by line."""

    def __init__(self, stream: TextIO, attempt: Callable[[], Attempt | None] = current_attempt) -> None:
        self._stream = stream
        self._attempt = attempt

    def write(self, text: str) -> int:
        written = self._stream.write(text)
        attempt = self._attempt()
        if attempt is not None and not attempt.over:
            extras = attempt.extras
            *lines, rest = (extras.partial + text).split("\n")
            for line in lines:
                attempt.log("info", line.removesuffix("\r"), {}, extras.unkept)
                extras.unkept = 0
            extras.partial = rest[:LONGEST_PARTIAL]
            extras.unkept += len(rest) - len(extras.partial)
        return written

    def flush(self) -> None:
        self._stream.flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._stream.errors

    @property
    def buffer(self) -> io.BufferedIOBase:
        """For those who write bytes: they are not the handler's words, and pass by."""
        found: io.BufferedIOBase = self._stream.buffer  # type: ignore[assignment]
        return found


@contextmanager
def captured(what: Collection[str]) -> Iterator[None]:
    """While this lasts, what handlers in this process say is kept in their logs."""
    keeper = RecordKeeper()
    root = logging.getLogger()
    stream = sys.stdout
    if LOGGING in what:
        # Before the others: what it has kept is marked when they see it.
        root.handlers.insert(0, keeper)
    if PRINT in what and stream is not None:
        sys.stdout = PrintKeeper(stream)
    try:
        yield
    finally:
        if PRINT in what and stream is not None:
            sys.stdout = stream
        if keeper in root.handlers:
            root.removeHandler(keeper)


def capture_in_child(what: Collection[str]) -> None:
    """The same for a child process, for good. Its worker reads its standard output and error as lines of the attempt, so a record that is
    kept as such must not be printed there as well."""
    if LOGGING not in what:
        return
    root = logging.getLogger()
    if not root.handlers and root.level == logging.WARNING:
        # As in the worker's own process.
        root.setLevel(logging.INFO)
    for handler in root.handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stdout, sys.stderr):
            handler.addFilter(_is_new)
    root.handlers.insert(0, RecordKeeper())
