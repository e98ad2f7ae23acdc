"""Counts and histograms by their labels, within bounds: past a number of series the rest is counted as `other`."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from duly.domain.metrics.catalogue import MOST_SERIES, OTHER
from duly.domain.metrics.metric import Family, Kind, Metric, Sample

Labels = tuple[str, ...]


class CounterTable:
    """The series of one counter or gauge."""

    __slots__ = ("_most", "_other", "metric", "values")

    def __init__(self, metric: Metric, most: int = MOST_SERIES) -> None:
        self.metric = metric
        self.values: dict[Labels, float] = {}
        self._most = most
        self._other = (OTHER,) * len(metric.labels)

    def add(self, labels: Labels, by: float) -> None:
        """Count."""
        values = self.values
        if labels in values:
            values[labels] += by
        else:
            key = labels if len(values) < self._most else self._other
            values[key] = values.get(key, 0) + by

    def family(self) -> Family:
        """What it comes to now."""
        return Family(self.metric, [Sample(labels, value) for labels, value in sorted(self.values.items())])


class _Series:
    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * buckets
        self.total = 0.0


class HistogramTable:
    """The series of one histogram."""

    __slots__ = ("_bounds", "_most", "_other", "_series", "metric")

    def __init__(self, metric: Metric, most: int = MOST_SERIES) -> None:
        self.metric = metric
        self._bounds = metric.bounds
        self._series: dict[Labels, _Series] = {}
        self._most = most
        self._other = (OTHER,) * len(metric.labels)

    def begin(self, labels: Labels) -> None:
        """Show the series, though nothing is in it yet."""
        self._of(labels)

    def observe(self, labels: Labels, value: float) -> None:
        """One measurement."""
        series = self._of(labels)
        series.counts[bisect_left(self._bounds, value)] += 1
        series.total += value

    def observe_all(self, labels: Labels, values: Sequence[int], scale: float) -> None:
        """Many at once, each divided by `scale`. Sorted and cut at the bounds: a tenth of what one by one would cost.

        What falls into one bucket altogether, as a batch mostly does, is not even sorted.
        """
        series = self._of(labels)
        if values and self._is_one_bucket(series, min(values), max(values), len(values), scale):
            series.total += sum(values) / scale
            return
        ordered = sorted(values)
        cuts = [0, *(bisect_right(ordered, bound * scale) for bound in self._bounds), len(ordered)]
        counts = series.counts
        for nth, (first, last) in enumerate(pairwise(cuts)):
            if last > first:
                counts[nth] += last - first
        series.total += sum(ordered) / scale

    def observe_since(self, labels: Labels, end: int, begins: Sequence[int], scale: float) -> None:
        """How long before `end` each of these was. Where one bucket takes them all, no difference is computed."""
        series = self._of(labels)
        if self._is_one_bucket(series, end - max(begins), end - min(begins), len(begins), scale):
            series.total += (end * len(begins) - sum(begins)) / scale
        else:
            self.observe_all(labels, [end - begin for begin in begins], scale)

    def _is_one_bucket(self, series: _Series, least: int, most: int, count: int, scale: float) -> bool:
        """Count them, if they all belong there."""
        # As `observe` compares: a value that is a bound is in the bucket that ends with it.
        first = bisect_left(self._bounds, least / scale)
        if first < len(self._bounds) and most / scale > self._bounds[first]:
            return False
        series.counts[first] += count
        return True

    def family(self) -> Family:
        """What it comes to now."""
        return Family(self.metric, [Sample(labels, each.total, tuple(each.counts)) for labels, each in sorted(self._series.items())])

    def _of(self, labels: Labels) -> _Series:
        series = self._series.get(labels)
        if series is None:
            if len(self._series) >= self._most:
                labels = self._other
            series = self._series.setdefault(labels, _Series(len(self._bounds) + 1))
        return series


def capped(metric: Metric, samples: Sequence[Sample], most: int = MOST_SERIES) -> Family:
    """A family of a gauge with so many series; the largest keep their names, the rest is added up (of waits, the longest) as `other`."""
    if len(samples) <= most:
        return Family(metric, samples)
    ordered = sorted(samples, key=lambda sample: (-sample.value, sample.labels))
    rest = [sample.value for sample in ordered[most:]]
    other = max(rest) if metric.kind is Kind.GAUGE and metric.name.endswith("_seconds") else sum(rest)
    return Family(metric, [*sorted(ordered[:most]), Sample((OTHER,) * len(metric.labels), other)])
