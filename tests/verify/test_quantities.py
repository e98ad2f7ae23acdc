"""How numbers, times and durations are said."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.verify.pages.quantities import DAY, HOUR, MINUTE, SECOND, count, duration, instant, many


@pytest.mark.parametrize(
    ("micros", "said"),
    [
        (0, "0 ms"),
        (7, "7 µs"),
        (1_500, "1.50 ms"),
        (12_345, "12.3 ms"),
        (999_400, "999 ms"),
        (999_600, "1.00 s"),
        (30 * SECOND, "30 s"),
        (4_123_456, "4.12 s"),
        (59_960_000, "1 min"),
        (125 * SECOND, "2 min 5 s"),
        (HOUR - 1, "1 h"),
        (72 * MINUTE, "1 h 12 min"),
        (DAY - 1, "1 d"),
        (30 * HOUR, "1 d 6 h"),
        (-1_500, "-1.50 ms"),
    ],
)
def test_a_duration_has_three_figures_and_the_unit_that_fits(micros: int, said: str) -> None:
    assert duration(micros) == said


@given(st.integers(0, 10 * DAY))
def test_no_duration_is_a_thousand_milliseconds_or_sixty_seconds(micros: int) -> None:
    assert not re.search(r"\b(1000(\.0+)? (µs|ms)|60(\.0+)? (s|min)|24 h)\b", duration(micros))


def test_an_instant_is_exact_enough_to_look_it_up() -> None:
    noon = 20_515 * DAY + 12 * HOUR

    assert instant(noon) == "2026-03-03 12:00:00 UTC"
    assert instant(noon + 125_000) == "2026-03-03 12:00:00.125 UTC"
    assert instant(noon + 125_001) == "2026-03-03 12:00:00.125001 UTC"


@given(st.integers(-(10**30), 10**30))
def test_every_number_is_an_instant_somehow(micros: int) -> None:
    assert instant(micros).endswith(("UTC", "µs"))


def test_one_is_one_and_more_are_more() -> None:
    assert (many(1, "finding"), many(2, "finding"), many(0, "finding"), count(50_000)) == (
        "1 finding",
        "2 findings",
        "0 findings",
        "50,000",
    )
