"""The table, the targets and the plots of Duly's own figures, and the order in which they are taken."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks.harness import Scratch
from benchmarks.question import Bound, Case, Question
from benchmarks.report import Failed, Figures, NotMeasured, Result, read
from benchmarks.run import measure, plan
from benchmarks.scale import FULL, TINY, Scale
from benchmarks.summary import markdown, rows_of, targets, write_plots
from benchmarks.variants import AS_IT_COMES, Variant
from tests.benchmarks.reports import report, result


async def fine(store: Scratch, scale: Scale) -> Figures:
    assert store.environment()["DULY_STORE"] == store.url
    return {"per_second": 2.0 if store.variant == AS_IT_COMES else 4.0, "jobs": scale.least_jobs}


async def broken(store: Scratch, scale: Scale) -> Figures:
    raise Failed("of 20 executions 19 have an outcome")


RATE = Question(
    name="rate",
    title="How many",
    about="executions a second",
    cases=(Case(name="plain", ask=fine), Case(name="batched", ask=fine, stores=("postgres",)), Case(name="odd", ask=broken)),
    figures={"per_second": "a second"},
    base="plain",
    bounds=(
        Bound(case="plain", figure="per_second", bound=100.0, unit="/s"),
        Bound(case="batched", figure="per_second", bound=2.0, unit="×", times_as_much_as="plain"),
    ),
    peers="≥ 2× somebody",
)
DELAY = Question(
    name="delay",
    title="How soon",
    about="milliseconds",
    cases=(Case(name="trickle", ask=fine),),
    figures={"p50": "p50 ms", "p99": "p99 ms"},
    compared="p99",
    more_is_better=False,
    has_delays=True,
    bounds=(Bound(case="trickle", figure="p99", bound=4.0, unit=" ms p99", more_is_better=False),),
    is_long=True,
)
LATER = Question(
    name="later",
    title="How many later",
    about="executions a second",
    cases=(Case(name="plain", ask=fine),),
    figures={"per_second": "a second"},
    base="rate/plain",
)
ALL = {question.name: question for question in (RATE, DELAY, LATER)}


def rates(question: str, case: str, *values: float, store: str = "postgres") -> list[Result]:
    return [result(question, store, {"per_second": value}, setting=case, repeat=nth) for nth, value in enumerate(values)]


FOUND = report(
    *rates("rate", "plain", 90.0, 110.0, 100.0),
    *rates("rate", "batched", 270.0, 220.0, 150.0),
    *rates("rate", "plain", 30.0, store="sqlite"),
    *rates("later", "plain", 45.0, 55.0, 50.0),
    result("delay", "postgres", {"p50": 1.0, "p99": 5.0}, setting="trickle"),
)


def test_a_table_has_medians_spreads_and_ratios_to_the_base_on_the_same_store() -> None:
    text = markdown(FOUND, ALL)

    assert "| store | case | a second | times that of plain |" in text
    assert "| PostgreSQL | plain | 100 (90–110) | – |" in text
    assert "| PostgreSQL | batched | 220 (150–270) | 2× (1.5–3) |" in text
    assert "| SQLite | plain | 30 | – |" in text


def test_another_question_may_have_the_base() -> None:
    (row,) = rows_of(FOUND, LATER)

    assert row.ratio is not None
    assert row.ratio.median == 0.5
    assert "times that of rate, plain" in markdown(FOUND, ALL)


def test_targets_are_judged_by_medians_and_by_ratios_where_they_are_factors() -> None:
    found = [(target.what, target.wanted, target.found, target.holds) for target in targets(FOUND, ALL)]

    assert found == [
        ("How many, plain, PostgreSQL", "≥ 100/s", "100/s", True),
        ("How many, batched, PostgreSQL, of plain", "≥ 2×", "2×", True),
        ("How soon, trickle, PostgreSQL", "≤ 4 ms p99", "5 ms p99", False),
    ]


def test_what_only_peers_can_judge_is_said_and_what_was_not_measured_is_loud() -> None:
    missing = NotMeasured(question="rate", system="sqlite", setting="odd", why="Failed: no\nsuch thing", cannot=False)
    text = markdown(report(*rates("rate", "plain", 1.0), not_measured=(missing,)), ALL)

    assert "by `make bench-peers`:\nHow many ≥ 2× somebody." in text
    assert "* **not measured: rate, SQLite (odd): Failed: no such thing**" in text
    assert "## How soon" not in text


def test_every_question_that_was_answered_has_a_plot(tmp_path: Path) -> None:
    names = write_plots(FOUND, ALL, tmp_path)

    assert names == ["rate.svg", "delay.svg", "later.svg"]
    for name in names:
        assert ET.fromstring((tmp_path / name).read_text()).tag.endswith("svg")
    assert "220 (2× (1.5–3))" in (tmp_path / "rate.svg").read_text()
    assert "1 / 5 ms" in (tmp_path / "delay.svg").read_text()


def test_cases_are_asked_in_turns_and_what_takes_long_once_in_a_short_run() -> None:
    def order(*, short: bool) -> list[tuple[str, str, str, int]]:
        turns = plan([RATE, DELAY], ["postgres"], [AS_IT_COMES], "plain,batched,trickle", 2, short=short)
        return [(question.name, case.name, store, repeat) for question, case, store, _, repeat in turns]

    short = [
        ("rate", "plain", "postgres", 0),
        ("rate", "batched", "postgres", 0),
        ("rate", "plain", "postgres", 1),
        ("rate", "batched", "postgres", 1),
        ("delay", "trickle", "postgres", 0),
    ]
    assert order(short=True) == short
    assert order(short=False) == [*short, ("delay", "trickle", "postgres", 1)]


def test_a_variant_is_asked_beside_what_comes_and_what_fails_is_left_out(tmp_path: Path) -> None:
    said: list[str] = []
    redis = Variant(name="redis", settings={"DULY_SLOTS": "7"})

    found = measure(
        [RATE], ["sqlite"], variants=[AS_IT_COMES, redis], cases=None, repeats=2, scale=TINY, say=said.append, out=tmp_path / "results.json"
    )

    assert [(result.system, result.setting, result.repeat, result.figures["per_second"]) for result in found.results] == [
        ("sqlite", "plain", 0, 2.0),
        ("sqlite", "plain, redis", 0, 4.0),
        ("sqlite", "plain", 1, 2.0),
        ("sqlite", "plain, redis", 1, 4.0),
    ]
    assert [(missing.setting, missing.why) for missing in found.not_measured] == [
        ("odd", "Failed: of 20 executions 19 have an outcome"),
        ("odd, redis", "Failed: of 20 executions 19 have an outcome"),
    ]
    assert found.status == 1
    assert read(tmp_path / "results.json") == found
    assert said[0].startswith("[1/8] rate: SQLite (plain): per_second 2")


@pytest.mark.parametrize(("scale", "is_short"), [(TINY, True), (FULL, False)])
def test_a_run_says_whether_it_was_short(scale: Scale, is_short: bool) -> None:
    assert scale.is_short is is_short
