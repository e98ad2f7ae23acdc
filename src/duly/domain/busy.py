"""How much will run at once: what fires take, laid over the minutes in which they take it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from duly.domain.instants import MINUTE, Instant, Micros

# A run that is expected to take longer than this is counted for this long.
LONGEST: Micros = 24 * 60 * MINUTE


class Fire(NamedTuple):
    """When something begins and how long it mostly takes."""

    at: Instant
    takes: Micros


def busy(fires: Iterable[Fire], until: Instant) -> dict[Instant, Micros]:
    """For each minute how long all of them together run in it, of those minutes in which something does, before `until`.

    As if each began when it is due: with fewer slots than that the rest begins later, and that is what the figure shows.
    """
    found: dict[Instant, Micros] = {}
    # Whole minutes are counted where they begin and where they end, however long a run is.
    steps: dict[Instant, int] = {}
    for at, takes in fires:
        end = min(at + min(takes, LONGEST), until)
        if end <= at:
            continue
        first, last = at - at % MINUTE, (end - 1) - (end - 1) % MINUTE
        if first == last:
            found[first] = found.get(first, 0) + end - at
            continue
        found[first] = found.get(first, 0) + first + MINUTE - at
        found[last] = found.get(last, 0) + end - last
        steps[first + MINUTE] = steps.get(first + MINUTE, 0) + 1
        steps[last] = steps.get(last, 0) - 1
    bounds = sorted(steps)
    running = 0
    for start, following in pairwise(bounds):
        running += steps[start]
        for minute in range(start, following if running else start, MINUTE):
            found[minute] = found.get(minute, 0) + running * MINUTE
    return found
