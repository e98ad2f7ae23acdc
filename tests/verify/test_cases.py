"""The checker against histories that are wrong in one thing, and against their lawful neighbours."""

from __future__ import annotations

import pytest

from duly.verify.checker import check
from duly.verify.checker.codes import TITLES
from duly.verify.report import Report, Verdict
from tests.verify.cases import CASES, Case
from tests.verify.histories import Story


def told(case: Case, *, bad: bool) -> Report:
    story = Story()
    case.tell(story, bad)
    return check(story.history())


def verdict(report: Report, invariant: str) -> Verdict:
    return next(verdict for verdict in report.verdicts if verdict.invariant == invariant)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_bad_history_is_broken_in_its_invariant(case: Case) -> None:
    report = told(case, bad=True)

    assert verdict(report, case.invariant).status == "broken", report.findings()
    assert not report.holds


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_its_lawful_neighbour_holds(case: Case) -> None:
    report = told(case, bad=False)

    assert report.findings() == []
    assert verdict(report, case.invariant).status == "held"
    assert verdict(report, case.invariant).judged > 0


def test_every_invariant_has_a_case() -> None:
    assert {case.invariant for case in CASES} == set(TITLES)
    assert len(CASES) >= 60
