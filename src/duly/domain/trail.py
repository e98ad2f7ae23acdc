"""Where the next claim of a queue begins to look.

On PostgreSQL a claim walks along the queue's key. What was claimed since the oldest snapshot of the whole server stands there still,
dead, and every claim walks past all of it: a queue of a hundred thousand, emptied while somebody's report runs, costs twice as much. So
claims that are slow, one after another, are followed by some that begin where the last one ended. What enters before that place (an
urgent one, a retry) is not seen by those: the whole queue is looked at again after ten times what that costs, at least every second,
and whenever one finds less than it asked for. Where such a claim is not much faster, the way was not what took so long (a server that
is far away, say), and it is left for a while.
"""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.ids import ExecutionId
from duly.domain.instants import SECOND, Micros

Place = tuple[int, ExecutionId]

SLOW: Micros = 10_000
# One slow look may be a cold one.
SLOW_LOOKS = 2
LONGEST: Micros = SECOND
FULL_LOOKS_IN = 10
# How many times as fast a claim must be that begins further on, for each row; and for how long that is not tried again if it is not.
WORTH = 2
LEFT_FOR: Micros = 10 * SECOND


@dataclass(slots=True)
class Trail:
    """One worker's way along one queue. Times are monotonic."""

    _place: Place | None = None
    _looked_at: Micros = 0
    _took: Micros = 0
    _took_for_each: float = 0.0
    _slow_looks: int = 0
    _left_until: Micros = 0

    def start(self, now: Micros) -> Place | None:
        """Where to begin; None: at the head of the queue."""
        is_fresh = now - self._looked_at < min(FULL_LOOKS_IN * self._took, LONGEST)
        return self._place if self._slow_looks >= SLOW_LOOKS and is_fresh else None

    def learn(self, start: Place | None, began: Micros, took: Micros, last: Place | None, *, found: int, is_full: bool) -> None:
        """A claim began there and then, took so long, found so many, and ended at `last`; `is_full`: it found all that it asked for."""
        if start is None:
            # From its end on: a look of a second would be an old one at once.
            self._looked_at, self._took = began + took, took
            self._took_for_each = took / max(found, 1)
            self._slow_looks = self._slow_looks + 1 if took >= SLOW and began >= self._left_until else 0
        elif is_full and took * WORTH > self._took_for_each * found:
            self._slow_looks, self._left_until = 0, began + LEFT_FOR
        self._place = last if is_full else None
