"""How many workers a pool should have."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.scaling import Goal, Load, recommended, settled, slots_needed, together

GOAL = Goal(target_wait=10.0, slots_per_worker=10, least=1, most=20)


def workers(count: int, slots: int = 10) -> tuple[tuple[str, int, int], ...]:
    return tuple(("host", pid, slots) for pid in range(count))


LOADS = st.builds(
    Load,
    pending=st.integers(0, 100_000),
    running=st.integers(0, 1000),
    oldest_wait=st.floats(0, 1e5),
    arrivals=st.floats(0, 1e4),
    mean_run=st.none() | st.floats(0.0001, 1e4),
    processes=st.integers(0, 40).map(workers),
)


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (Load(), 1),
        # Nothing has ended yet: a slot for each.
        (Load(pending=95), 10),
        # 8 a second for a second each need 8 slots, 10 with some left free: two with what waits.
        (Load(arrivals=8.0, mean_run=1.0), 1),
        (Load(arrivals=8.0, mean_run=1.0, pending=50), 2),
        # 1,000 of a tenth of a second within 10 s: 10 slots.
        (Load(pending=1000, mean_run=0.1), 1),
        # They have waited three times as long as they should: three times as many.
        (Load(pending=1000, mean_run=0.1, oldest_wait=30.0), 3),
        # What runs long goes on, whatever came in the last minute.
        (Load(running=37, mean_run=0.01, arrivals=0.1, processes=workers(4)), 4),
        (Load(pending=1_000_000, mean_run=60.0), 20),
    ],
)
def test_what_a_load_asks_for(load: Load, expected: int) -> None:
    assert recommended(load, GOAL) == expected


def test_it_goes_down_only_as_far_as_the_smaller_fleet_is_calm() -> None:
    busy = Load(running=38, processes=workers(5))

    # 38 would fit into four workers, and the next moment not.
    assert recommended(busy, GOAL) == 5
    assert recommended(replace(busy, running=23), GOAL) == 4
    assert recommended(replace(busy, running=5), GOAL) == 1


def test_from_nothing_it_goes_to_one_and_back() -> None:
    goal = replace(GOAL, least=0)

    assert recommended(Load(), goal) == 0
    assert recommended(Load(pending=1, mean_run=0.001), goal) == 1
    assert recommended(Load(processes=workers(1)), goal) == 0


def test_what_others_run_is_not_run_twice() -> None:
    load = Load(pending=95)

    assert recommended(load, GOAL, elsewhere=40) == 6
    assert recommended(load, replace(GOAL, least=0), elsewhere=200) == 0


@given(LOADS)
def test_it_stays_within_its_bounds_and_no_more_is_needed_than_there_is_to_do(load: Load) -> None:
    assert GOAL.least <= recommended(load, GOAL) <= GOAL.most
    assert 0 <= slots_needed(load, GOAL) <= load.pending + load.running + load.arrivals * (load.mean_run or 0.0) / 0.8 + 1e-6


@given(LOADS, st.integers(1, 100_000))
def test_more_that_waits_never_needs_less(load: Load, more: int) -> None:
    assert slots_needed(replace(load, pending=load.pending + more), GOAL) >= slots_needed(load, GOAL)


def test_growing_is_at_once_and_shrinking_waits() -> None:
    seen, number = settled([], 2, 0.0, 60.0)
    assert number == 2
    seen, number = settled(seen, 8, 1.0, 60.0)
    assert number == 8
    seen, number = settled(seen, 3, 30.0, 60.0)
    assert number == 8
    seen, number = settled(seen, 1, 61.5, 60.0)
    assert number == 3
    seen, number = settled(seen, 1, 95.0, 60.0)
    assert number == 1


def test_a_worker_that_serves_two_stores_is_one_worker() -> None:
    both = together([Load(pending=3, processes=(("h", 1, 25),), mean_run=1.0, arrivals=1.0), Load(pending=4, processes=(("h", 1, 25),))])

    assert (both.pending, both.workers, both.slots, both.mean_run) == (7, 1, 50, 1.0)
