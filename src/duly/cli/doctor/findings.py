"""What the doctor says: a finding, with what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

PASS, NOTE, WARN, FAIL = "pass", "note", "warn", "fail"
MOST_NAMED = 5


class Finding(NamedTuple):
    """What was looked at, how it is, and what to do about it. What can be put right without asking has a `repair`."""

    check: str
    verdict: str
    text: str
    fix: str | None = None
    repair: Callable[[], object] | None = None


def some(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def plural(count: int, word: str) -> str:
    """So many of them."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"
