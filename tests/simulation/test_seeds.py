"""A thousand seeds on every run of the tests: nothing is violated, nasty states are reached, and every run can be repeated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.plan import as_options, plan_of, with_option
from tests.simulation.run import run_seed
from tests.simulation.totals import FLOORS, run_many

PER_TEST = 50
ROOT = Path(__file__).parents[2]

_DIGESTS = """
from tests.simulation.plan import plan_of
from tests.simulation.run import run_seed
print(*(run_seed(plan_of(seed)).digest for seed in range({first}, {last})))
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, 1000, PER_TEST))
def test_nothing_is_violated(first: int) -> None:
    totals = run_many(range(first, first + PER_TEST))

    assert not totals.failed, "\n".join(
        f"python -m tests.simulation {as_options(plan)} --verbose: {finding}"
        for plan, findings in totals.failed
        for finding in findings[:3]
    )
    met = [name for name in FLOORS if totals.reached[name]]
    assert len(met) >= len(FLOORS) - 1, f"{PER_TEST} seeds met only {met}"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, 100, 20))
def test_a_seed_gives_the_same_run_in_every_process(first: int) -> None:
    here = [run_seed(plan_of(seed)).digest for seed in range(first, first + 20)]
    again = [run_seed(plan_of(seed)).digest for seed in range(first, first + 5)]

    elsewhere = subprocess.run(
        [sys.executable, "-c", _DIGESTS.format(first=first, last=first + 20)],
        env=os.environ | {"PYTHONHASHSEED": str(first + 17), "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert again == here[:5]
    assert [int(text) for text in elsewhere.stdout.split()] == here


def test_a_plan_is_written_as_options_and_read_back() -> None:
    plan = with_option(with_option(plan_of(7), "faults=crash,pause"), "workers=3")

    assert "--seed 7" in as_options(plan)
    assert plan.faults == ("crash", "pause")
    assert plan.workers == 3
