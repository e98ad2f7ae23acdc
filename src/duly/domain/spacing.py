"""Due times at a rate: what is spaced apart when it is written needs nobody to hold it back later."""

from __future__ import annotations

from duly.domain.instants import SECOND, Instant


def spaced(count: int, now: Instant, per_second: float | None) -> list[Instant]:
    """When each of `count` is due, from `now` on: all at once, or `per_second` of them in every second.

    Computed from the first one, never from the one before, so that a rate does not drift by rounding.
    """
    if per_second is None:
        return [now] * count
    return [now + int(nth * SECOND / per_second) for nth in range(count)]
