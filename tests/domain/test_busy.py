"""What fires take, minute by minute."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duly.domain.busy import LONGEST, Fire, busy
from duly.domain.instants import HOUR, MINUTE, SECOND

START = 1_790_000_000 * SECOND - 1_790_000_000 * SECOND % MINUTE


def test_a_run_is_counted_in_every_minute_in_which_it_runs() -> None:
    fires = [Fire(START + 30 * SECOND, 90 * SECOND), Fire(START, 10 * SECOND)]

    assert busy(fires, START + HOUR) == {START: 40 * SECOND, START + MINUTE: 60 * SECOND}


def test_nothing_is_counted_beyond_the_end_and_nothing_that_takes_no_time() -> None:
    assert busy([Fire(START, HOUR), Fire(START, 0)], START + 90 * SECOND) == {START: MINUTE, START + MINUTE: 30 * SECOND}


@given(st.lists(st.tuples(st.integers(0, 3 * HOUR), st.integers(0, 2 * HOUR)), max_size=20))
def test_no_time_is_lost_and_none_is_made(fires: list[tuple[int, int]]) -> None:
    counted = busy([Fire(START + at, takes) for at, takes in fires], START + LONGEST)

    assert sum(counted.values()) == sum(takes for _, takes in fires)
    assert all(minute % MINUTE == 0 and spent > 0 for minute, spent in counted.items())
