"""Metrics as text: read back by somebody else's parsers, and looked at by Prometheus' own tool."""

from __future__ import annotations

import re
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from duly.adapters.prometheus.meter import Meter
from duly.domain.metrics import Family, Kind, Metric, Sample, catalogue
from duly.domain.metrics.tables import CounterTable, HistogramTable, capped
from duly.wire.exposition import OPEN, PLAIN, exposition, media_for
from tests.telemetry.promtool import promtool_says

COUNTED = Metric("duly_tested", Kind.COUNTER, 'Says "no" and \\ too.', ("one", "two"))
SPREAD = Metric("duly_spread_seconds", Kind.HISTOGRAM, "Spread.", ("of",), (0.1, 1.0))


def told() -> Meter:
    """Something of every kind."""
    meter = Meter()
    meter.count(catalogue.OUTCOMES, ("DEAD",), 3)
    meter.observe(catalogue.STORE_SECONDS, 0.003, ("claim",))
    meter.observe_all(catalogue.START_LATENESS, [1_000, 2_000_000, 99_000_000_000], ("default",))
    meter.watch(catalogue.SKEW, lambda: -0.25, ("default",))
    return meter


@pytest.mark.parametrize(("media", "parse"), [(PLAIN, parse_plain), (OPEN, parse_open)])
def test_what_is_written_is_read_back(media: str, parse: object) -> None:
    awkward = 'a"b\\c\nd'
    families = [Family(COUNTED, [Sample((awkward, "x"), 2.5)]), Family(SPREAD, [Sample(("y",), 3.25, (1, 0, 2))])]
    text = exposition(families, media)

    samples = {(s.name, tuple(sorted(s.labels.items()))): s.value for f in parse(text) for s in f.samples}  # type: ignore[operator]

    assert samples[("duly_tested_total", (("one", awkward), ("two", "x")))] == 2.5
    buckets = {labels[0][1]: value for (name, labels), value in samples.items() if name.endswith("_bucket")}
    assert buckets == {"0.1": 1, "1.0": 1, "+Inf": 3}
    assert samples[("duly_spread_seconds_sum", (("of", "y"),))] == 3.25
    assert samples[("duly_spread_seconds_count", (("of", "y"),))] == 3


def test_prometheus_own_tool_finds_nothing_to_say() -> None:
    assert promtool_says(exposition(told().families())) == (0, "")


def test_what_has_not_happened_yet_is_zero() -> None:
    shown = {family.metric: {sample.labels: sample.value for sample in family.samples} for family in Meter().families()}

    assert shown[catalogue.SKIPS][("misfire",)] == 0
    assert set(shown[catalogue.OUTCOMES]) == {("SUCCEEDED",), ("DEAD",), ("CANCELLED",), ("SKIPPED",)}
    assert shown[catalogue.REFUSED][("finish",)] == shown[catalogue.WORKERS_LOST][()] == 0
    for metric in catalogue.CATALOGUE:
        if metric.kind is not Kind.GAUGE and not metric.labels and metric not in catalogue.OF_SYSTEM:
            assert () in shown[metric]
    assert promtool_says(exposition(Meter().families())) == (0, "")


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/plain", PLAIN),
        ("application/openmetrics-text", OPEN),
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            OPEN,
        ),
        ("application/openmetrics-text;q=0.2, text/plain;q=0.9", PLAIN),
        ("application/openmetrics-text;q=0", PLAIN),
        ("application/openmetrics-text;q=much", OPEN),
        (",,;;=", PLAIN),
    ],
)
def test_the_format_is_the_one_that_is_asked_for(accept: str, media: str) -> None:
    assert media_for(accept) == media


def test_an_open_text_says_where_it_ends() -> None:
    assert exposition([], OPEN) == "# EOF\n"
    assert exposition([]) == ""
    assert exposition(told().families(), OPEN).endswith("\n# EOF\n")


def test_past_the_limit_the_rest_is_one_series() -> None:
    counts, spread = CounterTable(COUNTED, most=3), HistogramTable(SPREAD, most=3)
    for number in range(1000):
        counts.add((f"name-{number}", "x"), 1)
        spread.observe((f"name-{number}",), 0.5)

    assert len(counts.family().samples) == len(spread.family().samples) == 4
    assert {sample.labels: sample.value for sample in counts.family().samples}[("other", "other")] == 997
    assert sum(sample.value for sample in counts.family().samples) == 1000
    gauge = Metric("duly_depth", Kind.GAUGE, "Depth.", ("pool",))
    samples = [Sample((f"p{number}",), number) for number in range(10)]
    assert capped(gauge, samples, 2).samples == [Sample(("p8",), 8), Sample(("p9",), 9), Sample(("other",), 28)]
    wait = Metric("duly_wait_seconds", Kind.GAUGE, "Wait.", ("pool",))
    assert capped(wait, samples, 2).samples[-1] == Sample(("other",), 7)


@given(st.one_of(st.lists(st.integers(0, 10_000_000), max_size=50), st.lists(st.integers(900, 1100), max_size=9)))
def test_many_at_once_are_counted_as_one_by_one(values: list[int]) -> None:
    together, singly = HistogramTable(catalogue.RUN), HistogramTable(catalogue.RUN)
    together.observe_all((), values, 1_000_000)
    for value in values:
        singly.observe((), value / 1_000_000)

    bounds = catalogue.RUN.bounds
    expected = [0] * (len(bounds) + 1)
    for value in values:
        expected[bisect_left(bounds, value / 1_000_000)] += 1
    assert list(together.family().samples[0].buckets) == expected
    if values:
        assert together.family().samples[0].buckets == singly.family().samples[0].buckets
        assert together.family().samples[0].value == pytest.approx(singly.family().samples[0].value)


@given(st.integers(0, 10_000_000), st.lists(st.integers(0, 10_000_000), min_size=1, max_size=50))
def test_how_long_ago_many_were_is_counted_as_one_by_one(end: int, before: list[int]) -> None:
    together, singly = HistogramTable(catalogue.RUN), HistogramTable(catalogue.RUN)
    together.observe_since((), end, [end - each for each in before], 1_000_000)
    for value in before:
        singly.observe((), value / 1_000_000)

    assert together.family().samples[0].buckets == singly.family().samples[0].buckets
    assert together.family().samples[0].value == pytest.approx(singly.family().samples[0].value)


def test_names_follow_the_conventions() -> None:
    for metric in catalogue.CATALOGUE:
        assert re.fullmatch(r"(duly|process)_[a-z_]+", metric.name)
        assert not metric.name.endswith("_total")
        assert metric.about.endswith(".")
        assert list(metric.bounds) == sorted(set(metric.bounds))
        assert bool(metric.bounds) == (metric.kind is Kind.HISTOGRAM)
        assert not {"tenant", "job"} & set(metric.labels) or metric.name.startswith("duly_tenant_")
    assert len({metric.name for metric in catalogue.CATALOGUE}) == len(catalogue.CATALOGUE)
