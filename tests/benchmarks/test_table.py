"""The table and the plots of a report."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks.figures import number
from benchmarks.peers.plots import plot, write_plots
from benchmarks.peers.questions import QUESTIONS
from benchmarks.peers.rows import rows_of
from benchmarks.peers.table import markdown
from benchmarks.peers.targets import other_work, targets
from benchmarks.report import NotMeasured, read
from tests.benchmarks.reports import drains, report, result


def test_a_row_has_the_median_the_spread_and_the_ratio_to_duly() -> None:
    text = markdown(report(*drains("duly", 90_000, 100_000, 110_000), *drains("graphile", 45_000, 40_000, 44_000)))

    assert "| **Duly** | best | 100,000 (90,000–110,000) | – | – | – | – |  |" in text
    assert "| Graphile Worker | best | 44,000 (40,000–45,000) | – | – | – | 2.5× (2–2.5) |  |" in text


def test_the_best_comes_first_and_delays_are_better_when_they_are_short() -> None:
    found = report(
        result("pickup", "graphile", {"p50": 3.0, "p99": 9.0}),
        result("pickup", "duly", {"p50": 1.5, "p99": 3.0}),
    )

    rows = rows_of(found, QUESTIONS["pickup"])

    assert [row.system for row in rows] == ["duly", "graphile"]
    assert rows[1].ratio is not None
    assert rows[1].ratio.median == 3.0


def test_a_peer_is_compared_with_duly_on_the_same_kind_of_store() -> None:
    found = report(*drains("duly", 100.0), *drains("duly-sqlite", 30.0), *drains("graphile", 50.0))

    ratios = {row.system: row.ratio for row in rows_of(found, QUESTIONS["drain"])}

    assert ratios["graphile"] is not None
    assert ratios["graphile"].median == 2.0
    assert ratios["duly-sqlite"] is None


def test_what_was_not_done_is_said_beside_the_figure() -> None:
    text = markdown(
        report(
            result("spread", "huey", {"p50": -300.0, "p99": 184.0, "jobs": 1000.0, "early": 801.0, "missed": 2.0}),
            result("drain", "pgboss", {"per_second": 0.5, "jobs": 20.0, "starts": 12.0, "complete": 0.0}),
        )
    )

    assert "2 of 1,000 never started; 801 of 1,000 started early" in text
    assert "not all in time: 12 of 20" in text


def test_what_was_not_measured_is_loud_and_what_cannot_be_is_not() -> None:
    text = markdown(
        report(
            *drains("duly", 1.0),
            not_measured=(
                NotMeasured(question="flow", system="celery", setting="", why="it has no bulk enqueue", cannot=True),
                NotMeasured(question="drain", system="graphile", setting="default", why="Failed: no\n  such thing", cannot=False),
            ),
        )
    )

    assert "* **not measured: Graphile Worker (default), drain: Failed: no / such thing**\n* Celery, flow: it has no bulk enqueue" in text


def test_other_work_may_not_fall_below_half_of_the_noop_ratio() -> None:
    found = other_work(
        report(
            *drains("duly", 100.0),
            *drains("graphile", 50.0),
            *drains("duly", 30.0, question="mixed"),
            *drains("graphile", 30.0, question="mixed"),
            *drains("duly", 10.0, question="large"),
            *drains("graphile", 20.0, question="large"),
        )
    )

    assert [(work.share, work.holds) for work in found] == [(0.5, True), (0.25, False)]


def test_a_target_is_judged_by_the_median_and_left_out_when_nothing_was_measured() -> None:
    found = targets(report(*drains("duly", 100.0, 90.0, 110.0), *drains("graphile", 50.0, 50.0, 50.0), *drains("pgqueuer", 25.0)))

    assert [(target.wanted, target.holds) for target in found] == [("≥ 2×", True), ("≥ 5×", False)]


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = report(*drains("duly", 1.0, 2.0), not_measured=(NotMeasured(question="all", system="x", setting="", why="y", cannot=False),))

    written.write(tmp_path / "results.json")

    assert read(tmp_path / "results.json") == written


@pytest.mark.parametrize(
    ("value", "text"), [(48_397.4, "48,397"), (99.94, "99.9"), (2.0, "2"), (0.512, "0.512"), (0.0, "0"), (-300.9, "-301")]
)
def test_a_number_is_as_exact_as_a_measurement(value: float, text: str) -> None:
    assert number(value) == text


def test_every_question_that_was_answered_has_a_plot_for_light_and_dark(tmp_path: Path) -> None:
    found = report(
        *drains("duly", 90_000, 100_000),
        *drains("graphile", 45_000, 44_000),
        result("pickup", "duly", {"p50": 1.5, "p99": 3.0}),
        result("pickup", "huey", {"p50": -301.0, "p99": 180.0}),
    )

    names = write_plots(found, tmp_path)

    assert names == ["drain.svg", "pickup.svg"]
    for name in names:
        drawn = (tmp_path / name).read_text()
        assert ET.fromstring(drawn).tag.endswith("svg")
        assert "prefers-color-scheme:dark" in drawn
    assert "100,000" in (tmp_path / "drain.svg").read_text()


def test_what_was_not_asked_has_no_plot() -> None:
    assert plot(report(*drains("duly", 1.0)), QUESTIONS["flow"]) is None
