"""The mutants fit the sources, the judge is not fooled, and those that die in seconds do die."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.mutants.catalogue import MUTANTS, UNSEEDED
from tests.mutants.mutant import Layer, Mutant
from tests.mutants.runner import ROOT, judge, run, times_found

QUICK = [mutant for mutant in MUTANTS if mutant.quick]
BUGS_THAT_MUST_DIE = 28
LIVE_AT_LEAST = 28

HARMLESS = Mutant(
    name="harmless",
    breaks="nothing",
    path="domain/lifecycle.py",
    old='"""Whether nothing can happen to it any more."""',
    new='"""Whether anything can happen to it."""',
    layer=Layer.DOMAIN,
    tests=("domain/test_decisions.py::test_final_states_are_absorbing_and_every_other_can_end",),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_sources_once(mutant: Mutant) -> None:
    assert times_found(mutant) == 1, f"{mutant.path} has changed: look what became of the rule that {mutant.name} breaks"
    assert mutant.old != mutant.new
    assert all((ROOT / "tests" / test.split("::")[0]).is_file() for test in mutant.tests)


def test_every_bug_of_the_list_is_seeded_or_says_why_not() -> None:
    seeded = [mutant.seeded for mutant in MUTANTS if mutant.seeded is not None]

    assert sorted(seeded + [item.seeded for item in UNSEEDED]) == list(range(1, BUGS_THAT_MUST_DIE + 1))
    assert len(MUTANTS) >= LIVE_AT_LEAST
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize(
    ("code", "output", "killed"),
    [
        (0, "1 passed", False),
        (1, "FAILED tests/a.py::test_b - assert 1 == 2", True),
        (1, "FAILED tests/a.py::test_b[x - y] - AssertionError: two outcomes", True),
        (1, "FAILED tests/a.py::test_b - Failed: DID NOT RAISE", True),
        (1, "ERROR tests/a.py::test_b - AssertionError: the ledger is not sound", True),
        (1, "FAILED tests/a.py::test_b - NameError: name 'x' is not defined", False),
        (1, 'FAILED tests/a.py::test_b - sqlite3.OperationalError: near "AND": syntax error', False),
        (1, "FAILED tests/a.py::test_b - asyncpg.exceptions.UndefinedColumnError: no such column", False),
        (1, "ERROR tests/a.py::test_b - RuntimeError: no database", False),
        (2, "ERROR tests/a.py - SyntaxError: invalid syntax", False),
        (4, "ERROR: not found: tests/a.py::test_b", False),
        (5, "no tests ran", False),
    ],
)
def test_only_a_failed_test_kills(code: int, output: str, killed: bool) -> None:
    assert (judge(code, output, 1.0).killed_by is not None) is killed


@pytest.mark.slow
def test_an_edit_that_breaks_nothing_lives_and_one_that_breaks_everything_is_no_kill() -> None:
    nonsense = replace(HARMLESS, new="this is no Python")

    assert run(HARMLESS.tests, HARMLESS, 60.0).passed
    broken = run(nonsense.tests, nonsense, 60.0)

    assert not broken.passed
    assert broken.killed_by is None
    assert '"""Whether nothing can happen to it any more."""' in (ROOT / "src" / "duly" / HARMLESS.path).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_a_quick_mutant_dies(mutant: Mutant) -> None:
    ran = run(mutant.tests, mutant, mutant.budget)

    assert ran.killed_by is not None, f"{mutant.name} lives: {ran.why}\n{ran.output}"
