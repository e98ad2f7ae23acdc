"""A bucket never gives more than its burst and its rate, whatever is asked of it and whatever the clock does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duly.domain.instants import SECOND
from duly.domain.rates import Bucket, Rate, give_back, refill, take

rates = st.builds(Rate, per_second=st.floats(0.1, 10_000), burst=st.integers(1, 10_000))


@given(rate=rates, steps=st.lists(st.integers(0, 10 * SECOND), max_size=200))
def test_it_gives_no_more_than_its_rate(rate: Rate, steps: list[int]) -> None:
    bucket, now, given_out = Bucket(float(rate.burst), 0), 0, 0
    for step in steps:
        now += step
        if take(bucket, rate, now) == 0:
            given_out += 1
        else:
            give_back(bucket, rate)

    assert given_out <= rate.burst + now * rate.per_second / SECOND + 1e-6 * len(steps)


@given(rate=rates, asked=st.integers(1, 50))
def test_who_waits_as_told_gets_it_then(rate: Rate, asked: int) -> None:
    bucket = Bucket(0.0, 0)
    early = [take(bucket, rate, 0) for _ in range(asked)]
    refill(bucket, rate, round(early[-1] * SECOND) + 1)

    assert early == sorted(early)
    assert bucket.left > -1e-3


def test_a_clock_that_goes_back_brings_nothing() -> None:
    rate, bucket = Rate(1, 5), Bucket(0.0, 100 * SECOND)
    refill(bucket, rate, 50 * SECOND)
    refill(bucket, rate, 51 * SECOND)

    assert bucket.left == 1.0


def test_a_full_one_takes_nothing_back() -> None:
    rate, bucket = Rate(1, 5), Bucket(5.0, 0)
    give_back(bucket, rate)
    refill(bucket, rate, 100 * SECOND)

    assert bucket.left == 5.0
