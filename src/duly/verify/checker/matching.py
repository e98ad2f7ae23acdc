"""Targets are intervals, runs are points: which can be paired?

Every interval runs from a target to its deadline. Intervals and points form a convex bipartite graph, so taking for each
point, in order, the open interval that closes first pairs as many as can be paired. Where targets overlap it still does.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

Interval = tuple[int, int]


def pair(intervals: Sequence[Interval], points: Sequence[int]) -> tuple[list[int], list[int]]:
    """The places of the intervals and of the points that stay alone. Both ends of an interval belong to it."""
    by_start = sorted(range(len(intervals)), key=lambda place: intervals[place])
    in_order = sorted(range(len(points)), key=lambda place: points[place])
    alone: list[int] = []
    left: list[int] = []
    opened: list[tuple[int, int]] = []
    following = 0
    for place in in_order:
        at = points[place]
        while following < len(by_start) and intervals[by_start[following]][0] <= at:
            heappush(opened, (intervals[by_start[following]][1], by_start[following]))
            following += 1
        while opened and opened[0][0] < at:
            alone.append(heappop(opened)[1])
        if opened:
            heappop(opened)
        else:
            left.append(place)
    alone += [place for _, place in opened]
    alone += by_start[following:]
    return sorted(alone), sorted(left)
