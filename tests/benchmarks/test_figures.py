"""What marks say, in figures."""

from __future__ import annotations

import array
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.figures import Spread, busy_rate, delays, median_interval, percentile, rate, ratios
from benchmarks.marks import PLACE, Mark, Marks
from benchmarks.usage import processor_seconds

ROOT = Path(__file__).parents[2]


def starts(*times: float) -> list[Mark]:
    return [Mark(time, 0.0) for time in times]


def test_a_rate_counts_from_the_first_start_to_the_last() -> None:
    assert rate(starts(10.0, 10.5, 11.0)) == 2.0


@pytest.mark.parametrize("marks", [[], starts(1.0), starts(1.0, 1.0)])
def test_what_has_no_length_has_no_rate(marks: list[Mark]) -> None:
    assert rate(marks) == 0.0
    assert busy_rate(marks) == 0.0


def test_a_busy_rate_leaves_out_the_wait_for_a_retry() -> None:
    assert busy_rate(starts(0.0, 0.1, 0.2, 3.0, 3.1, 3.2)) == pytest.approx(10.0)


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile(range(1, 101), 0.99) == 100
    assert percentile([5.0], 0.5) == 5.0


def test_delays_are_milliseconds_and_early_starts_are_counted() -> None:
    found = delays([Mark(10.002, 10.0), Mark(9.999, 10.0), Mark(10.004, 10.0)])

    assert found["p50"] == pytest.approx(2.0)
    assert found["max"] == pytest.approx(4.0)
    assert found["early"] == 1


def test_a_spread_has_the_middle_and_both_ends() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)


def test_ratios_are_made_turn_by_turn_and_above_one_when_ours_is_better() -> None:
    assert ratios([100, 200], [50, 50], more_is_better=True) == Spread(3.0, 2.0, 4.0, 2)
    assert ratios([2.0], [6.0], more_is_better=False) == Spread(3.0, 3.0, 3.0, 1)


def test_what_started_early_has_no_ratio() -> None:
    assert ratios([2.0], [-300.0], more_is_better=False) is None


def test_marks_of_several_processes_and_threads_are_read_in_the_order_of_time() -> None:
    program = (
        "import threading; from benchmarks.marks import hit\n"
        "threads = [threading.Thread(target=lambda: [hit(float(n)) for n in range(100)]) for _ in range(3)]\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]"
    )
    with Marks() as marks:
        environment = {**os.environ, PLACE: str(marks.path), "PYTHONPATH": str(ROOT)}
        for _ in range(2):
            subprocess.run([sys.executable, "-c", program], env=environment, check=True)

        found = marks.read()

        assert marks.count() == len(found) == 600
        assert found == sorted(found, key=lambda mark: mark.started)
        assert sorted(mark.carried for mark in found) == sorted(float(n) for n in range(100) for _ in range(6))


def test_marks_since_a_moment_leave_out_those_before() -> None:
    with Marks() as marks:
        path = marks.path / "1.marks"
        _write(path, (1.0, 0.5), (2.0, 0.5))
        before = marks.counts()
        _write(path, (1.0, 0.5), (2.0, 0.5), (3.0, 2.0))

        assert marks.read(before) == [Mark(3.0, 2.0)]


def _write(path: Path, *pairs: tuple[float, float]) -> None:
    path.write_bytes(array.array("d", [len(pairs), *(value for pair in pairs for value in pair)]).tobytes())


def test_processor_time_is_that_of_a_process_and_its_children() -> None:
    busy = "sum(range(20_000_000))"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{busy}']); print('done', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()

        used = processor_seconds([process.pid])

    if used is not None:
        assert used > 0.1
    assert processor_seconds([]) in (0.0, None)


def test_the_interval_of_a_median_leaves_one_in_forty_outside_on_each_side() -> None:
    # Of twenty, the sixth and the fifteenth, as the tables of the sign test have it; of five no two are sure enough, so it is all of them.
    assert median_interval([float(n) for n in range(20)]) == (5.0, 14.0)
    assert median_interval([3.0, 1.0, 5.0, 2.0, 4.0]) == (1.0, 5.0)
    assert median_interval([7.0]) == (7.0, 7.0)
