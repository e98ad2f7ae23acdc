"""The few numbers about many."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from duly.verify.report import Spread, spread_of


def test_percentiles_are_values_that_occurred() -> None:
    spread = spread_of(range(1, 101))

    assert (spread.count, spread.p50, spread.p99, spread.most) == (100, 50, 99, 100)


def test_of_nothing_there_is_nothing_to_say() -> None:
    assert spread_of([]) == Spread()


@given(st.lists(st.integers(-5, 50), min_size=1, max_size=3000))
def test_a_curve_counts_what_is_at_most_its_value(values: list[int]) -> None:
    spread = spread_of(values, points=20)

    assert len(spread.curve) <= 23
    assert spread.curve[-1] == (max(values), len(values))
    assert all(left < right for left, right in itertools.pairwise(spread.curve))
    assert all(rank <= sum(value <= bound for value in values) for bound, rank in spread.curve)


def test_a_curve_is_dense_where_few_are_late() -> None:
    spread = spread_of([0] * 49_990 + list(range(1000, 1010)))

    assert [bound for bound, _ in spread.curve][-4:] == [1006, 1007, 1008, 1009]
