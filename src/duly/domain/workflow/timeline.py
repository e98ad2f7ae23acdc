"""When steps ran: the critical path, as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from duly.domain.instants import Instant


class Bar(NamedTuple):
    """A step that began, and when it ended (or now)."""

    name: str
    parents: tuple[str, ...]
    began: Instant
    ended: Instant


def critical_path(bars: Sequence[Bar]) -> list[str]:
    """The steps that decided how long the run took, in order: backwards from the one that ended last, over the parent that did.

    Among equals the one that comes first in the workflow.
    """
    by_name = {bar.name: bar for bar in bars}
    if not by_name:
        return []
    last: Bar | None = max(bars, key=lambda bar: bar.ended)
    path: list[str] = []
    while last is not None and last.name not in path:
        path.append(last.name)
        parents = [by_name[name] for name in last.parents if name in by_name]
        last = max(parents, key=lambda bar: bar.ended, default=None)
    return path[::-1]
