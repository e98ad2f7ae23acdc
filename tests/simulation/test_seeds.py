"""A thousand seeds on every run of the tests: nothing is violated, nasty states are reached, and every run can be repeated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.plan import as_options, plan_of, with_option
from tests.simulation.run import DRAINS, run_seed

ROOT = Path(__file__).parents[2]


def simulate(digests: Path, *words: str, hash_seed: int) -> dict[int, int]:
    """Run the command, which fails for what is violated, and says how to repeat it, and for a floor that is missed; each seed's digest."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--jobs", "2", "--digests", str(digests), *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return {int(seed): int(digest) for seed, digest in map(str.split, digests.read_text().splitlines())}


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_nothing_is_violated_every_nasty_state_is_met_often_enough_and_a_seed_gives_the_same_run_again(tmp_path: Path) -> None:
    thousand = simulate(tmp_path / "thousand.txt", "--seeds", "0:1000", hash_seed=0)
    again = simulate(tmp_path / "again.txt", "--seeds", "450:550", hash_seed=17)

    assert sorted(thousand) == list(range(1000))
    assert again == {seed: thousand[seed] for seed in range(450, 550)}


def test_a_seed_gives_the_same_run_after_any_other() -> None:
    first = run_seed(plan_of(3)).digest
    run_seed(plan_of(4))

    assert run_seed(plan_of(3)).digest == first


def test_a_plan_is_written_as_options_and_read_back() -> None:
    plan = with_option(with_option(plan_of(7), "faults=crash,pause"), "workers=3")

    assert "--seed 7" in as_options(plan)
    assert plan.faults == ("crash", "pause")
    assert plan.workers == 3


def test_what_waits_for_a_slot_while_all_are_taken_is_not_taken_for_lost() -> None:
    # Two slots, and handlers of eight seconds that fail now and then: more work than ninety seconds can end.
    outcome = run_seed(plan_of(44870))

    assert outcome.seconds > outcome.plan.horizon + DRAINS
    assert not outcome.findings
