"""What a metric is, and what it comes to at one moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """How its numbers are read: a counter only grows, a gauge is as it is, a histogram counts by size."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One metric. Its name is without `_total`, which the text of a counter adds. Two are the same when they are one object.

    `bounds` are the upper bounds of a histogram's buckets, in the metric's own unit; the last bucket has none.
    """

    name: str
    kind: Kind
    about: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


class Sample(NamedTuple):
    """A number with the values of its labels. Of a histogram: how many are in each bucket (not added up), and their sum."""

    labels: tuple[str, ...]
    value: float
    buckets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """All that a metric comes to at one moment."""

    metric: Metric
    samples: Sequence[Sample]
