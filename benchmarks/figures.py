"""What marks say, in figures; and what several runs say together."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.marks import Mark

IDLE = 0.25
"""A stretch without a start that is longer than this is not work: everybody waits for something to become due."""


def rate(marks: Sequence[Mark]) -> float:
    """Starts a second, from the first to the last."""
    if len(marks) < 2 or marks[-1].started <= marks[0].started:
        return 0.0
    return (len(marks) - 1) / (marks[-1].started - marks[0].started)


def busy_rate(marks: Sequence[Mark]) -> float:
    """The same without idle stretches."""
    gaps = [later.started - sooner.started for sooner, later in itertools.pairwise(marks)]
    busy = sum(gap for gap in gaps if gap <= IDLE)
    return sum(gap <= IDLE for gap in gaps) / busy if busy > 0 else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The value that so large a share does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p99 and the largest."""
    return {"p50": percentile(values, 0.5), "p99": percentile(values, 0.99), "max": max(values)}


def delays(marks: Sequence[Mark]) -> dict[str, float]:
    """In milliseconds. What started before its time is counted, too: it is not a good delay."""
    found = [1000 * mark.delay for mark in marks]
    return {**percentiles(found), "early": sum(delay < 0 for delay in found)}


def number(value: float) -> str:
    """As exact as a measurement is: three digits, no decimals above a hundred."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Spread:
    """Several runs: the middle one, and how far they lie apart."""

    median: float
    least: float
    most: float
    runs: int

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """At least one value."""
        return Spread(statistics.median(values), min(values), max(values), len(values))


def median_interval(values: Sequence[float], sure: float = 0.95) -> tuple[float, float]:
    """Between which of these the median lies so surely, whatever they are spread like: by how many of them may lie on one side of it."""
    ordered, outside, cut = sorted(values), 0.0, 0
    while cut < len(ordered) // 2:
        outside += 2 * math.comb(len(ordered), cut) / 2 ** len(ordered)
        if outside > 1 - sure:
            break
        cut += 1
    first = max(cut - 1, 0)
    return ordered[first], ordered[-1 - first]


def ratios(ours: Sequence[float], theirs: Sequence[float], *, more_is_better: bool) -> Spread | None:
    """How many times better ours are, run by run: runs of one turn had the same minute. None when nothing can be divided."""
    pairs = list(zip(ours, theirs, strict=False)) if more_is_better else list(zip(theirs, ours, strict=False))
    found = [above / below for above, below in pairs if above > 0 and below > 0]
    return Spread.of(found) if found else None
