"""Keeps what it is told: see ports/telemetry.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from duly.domain.instants import SECOND
from duly.domain.metrics import Family, Kind, Metric, Sample
from duly.domain.metrics.catalogue import CATALOGUE, FROM_THE_START, OF_SYSTEM
from duly.domain.metrics.tables import CounterTable, HistogramTable


class Meter:
    """The numbers of one process since it started. Every metric that a process has told once stays, so that rates can be computed."""

    def __init__(self) -> None:
        ours = [metric for metric in CATALOGUE if metric not in OF_SYSTEM]
        self._counters = {metric: CounterTable(metric) for metric in ours if metric.kind is Kind.COUNTER}
        self._histograms = {metric: HistogramTable(metric) for metric in ours if metric.kind is Kind.HISTOGRAM}
        self._watched: dict[Metric, dict[tuple[str, ...], Callable[[], float]]] = {}
        for table in self._counters.values():
            # What has not happened yet is 0: an alert on its growth must see the first one.
            for labels in FROM_THE_START.get(table.metric, () if table.metric.labels else ((),)):
                table.add(labels, 0)
        for spread in self._histograms.values():
            if not spread.metric.labels:
                spread.begin(())

    def count(self, metric: Metric, labels: tuple[str, ...] = (), by: float = 1) -> None:
        self._counters[metric].add(labels, by)

    def observe(self, metric: Metric, value: float, labels: tuple[str, ...] = ()) -> None:
        self._histograms[metric].observe(labels, value)

    def observe_all(self, metric: Metric, values: Sequence[int], labels: tuple[str, ...] = (), scale: float = SECOND) -> None:
        if values:
            self._histograms[metric].observe_all(labels, values, scale)

    def observe_since(self, metric: Metric, end: int, begins: Sequence[int], labels: tuple[str, ...] = (), scale: float = SECOND) -> None:
        if begins:
            self._histograms[metric].observe_since(labels, end, begins, scale)

    def watch(self, metric: Metric, read: Callable[[], float], labels: tuple[str, ...] = ()) -> None:
        self._watched.setdefault(metric, {})[labels] = read

    def families(self) -> list[Family]:
        found = [table.family() for table in self._counters.values()] + [table.family() for table in self._histograms.values()]
        found += [Family(metric, [Sample(labels, read()) for labels, read in reads.items()]) for metric, reads in self._watched.items()]
        order = {metric: place for place, metric in enumerate(CATALOGUE)}
        return sorted((family for family in found if family.samples), key=lambda family: order[family.metric])
