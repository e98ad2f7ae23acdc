"""Errors in words: what, why, how to go on; and the exit code of each kind.

0 ok · 1 failure · 2 usage · 3 not found · 4 not allowed · 5 conflict
6 server unreachable · 7 wait timed out · 8 the run failed (--exit-status) · 130 interrupted
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from duly.domain.errors import Conflict, DulyError, Forbidden, Invalid, NotFound, TooLarge, TooMany, Unavailable

OK, FAILURE, USAGE, NOT_FOUND, NOT_ALLOWED, CONFLICT, UNREACHABLE, TIMED_OUT, RUN_FAILED, PARTLY_DONE = range(10)
INTERRUPTED = 130

# A wrong setting or application is a failure of this machine's set-up, not of the words that were typed.
_SET_UP = ("DULY-E601", "DULY-E602")


def exit_code(error: DulyError) -> int:
    """The exit code of an error."""
    match error:
        case NotFound():
            return NOT_FOUND
        case Forbidden():
            return NOT_ALLOWED
        case Conflict() | TooMany():
            return CONFLICT
        case Unavailable():
            return UNREACHABLE
        case Invalid() | TooLarge() if error.code not in _SET_UP:
            return USAGE
        case _:
            return FAILURE


def report(error: DulyError) -> int:
    """Print an error on standard error; returns its exit code."""
    if isinstance(error, Several):
        for fault in error.faults:
            report(fault)
        return exit_code(error)
    from duly.cli.output import BOLD, RED, paint

    # A whole sentence says itself what it is about.
    where = f"{error.field}: " if error.field and not error.message[:1].isupper() else ""
    print(f"{paint('✗', RED, sys.stderr)} {paint(error.code, BOLD, sys.stderr)}  {where}{error.message}", file=sys.stderr)
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)
    notes = "".join(f"   ({note})" for note in getattr(error, "__notes__", ()))
    print(f"  More: duly help {error.code.removeprefix('DULY-')}{notes}", file=sys.stderr)
    return exit_code(error)


class Several(Invalid):
    """Several faults of what was given, told all at once."""

    def __init__(self, faults: Sequence[DulyError]) -> None:
        super().__init__(faults[0].code, faults[0].message, field=faults[0].field, hint=faults[0].hint)
        self.faults = faults


class Withheld(Exception):
    """A dry run has come to a request that would change something; it was not sent."""

    def __init__(self, method: str, path: str, body: bytes | None) -> None:
        super().__init__(f"{method} {path}")
        self.body = body

    def report(self) -> int:
        """Print what was not sent; returns the exit code."""
        print(f"{self}{f' {self.body.decode()}' if self.body else ''}")
        print("That would change something, and was not sent.", file=sys.stderr)
        return OK


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint when the word is close to a known one."""
    from difflib import get_close_matches

    close = get_close_matches(word, [one for one in dict.fromkeys(known) if one != word], n=3, cutoff=0.6)
    return f"Did you mean {' or '.join(close)}?" if close else None
