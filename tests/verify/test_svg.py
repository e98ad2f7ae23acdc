"""The plots: where values come to lie, what is drawn once, and that it is well-formed."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.verify.pages.svg import Figure, Plot, Scale, decade_marks, distinct, merged, number_marks, thinned, time_marks

SECOND = 1_000_000
NOON = 20_000 * 86_400 * SECOND + 43_200 * SECOND
SVG = "{http://www.w3.org/2000/svg}"


def test_a_scale_maps_its_ends_to_its_pixels_and_never_leaves_them() -> None:
    scale = Scale(low=10, high=20, start=100, end=0)

    assert [scale(value) for value in (10, 15, 20, 5, 99)] == [100, 50, 0, 100, 0]


def test_a_log_scale_gives_every_factor_of_ten_the_same_length() -> None:
    scale = Scale(low=1, high=1000, start=0, end=30, log=True)

    assert [round(scale(value)) for value in (0, 1, 10, 100, 1000)] == [0, 0, 10, 20, 30]


def test_a_scale_without_a_length_puts_everything_at_its_start() -> None:
    assert Scale(low=5, high=5, start=7, end=90)(5) == 7


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 10, ["0", "2", "4", "6", "8", "10"]),
        (0, 1, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (0, 50_000, ["0", "10,000", "20,000", "30,000", "40,000", "50,000"]),
        (3, 3, ["3"]),
    ],
)
def test_numbers_on_an_axis_are_round(low: float, high: float, expected: list[str]) -> None:
    assert [words for _, words in number_marks(low, high)] == expected


def test_decades_have_the_unit_that_fits() -> None:
    assert [words for _, words in decade_marks(50, 200 * SECOND)] == ["100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"]


def test_times_say_the_date_once_a_day() -> None:
    marks = time_marks(NOON, NOON + 30 * 3600 * SECOND, about=5)

    assert [words for _, words in marks] == ["10-04 12:00", "18:00", "10-05 00:00", "06:00", "12:00", "18:00"]


def test_times_of_a_short_run_have_fractions() -> None:
    assert [words for _, words in time_marks(NOON, NOON + 300_000, about=3)] == [
        "10-04 12:00:00.000",
        "12:00:00.100",
        "12:00:00.200",
        "12:00:00.300",
    ]


@given(low=st.integers(-(10**17), 10**17), length=st.integers(0, 10**17))
def test_any_span_of_time_has_few_marks_inside_it(low: int, length: int) -> None:
    marks = time_marks(low, low + length)

    assert len(marks) <= 9
    assert all(low <= at <= low + length for at, _ in marks)


@given(st.lists(st.tuples(st.integers(-50, 1050), st.integers(0, 60)), max_size=60))
def test_merged_spans_are_apart_and_cover_every_span_in_sight(drawn: list[tuple[int, int]]) -> None:
    scale = Scale(low=0, high=1000, start=0, end=100)

    found = merged([(since, since + length) for since, length in drawn], scale)

    assert all(left[1] < right[0] for left, right in itertools.pairwise(found))
    for since, length in drawn:
        if since + length >= 0 and since <= 1000:
            assert any(left <= scale(since) and scale(since + length) <= right for left, right in found)


@given(st.lists(st.integers(0, 1000), max_size=200))
def test_distinct_values_keep_apart_and_leave_no_value_alone(values: list[int]) -> None:
    scale = Scale(low=0, high=1000, start=0, end=100)

    found = distinct(values, scale)

    assert all(right - left >= 1 for left, right in itertools.pairwise(found))
    assert all(any(0 <= scale(value) - pixel < 1 for pixel in found) for value in values)


def test_a_thinned_line_keeps_its_peaks() -> None:
    points = [(float(n), 1000.0 if n == 54_321 else float(n % 7)) for n in range(100_000)]

    kept = list(thinned(points, Scale(low=0, high=100_000, start=0, end=500)))

    assert len(kept) <= 4 * 501
    assert (54_321.0, 1000.0) in kept


def drawn() -> Figure:
    plot = Plot(x=Scale(low=0, high=10, start=40, end=190), y=Scale(low=0, high=1, start=90, end=10))
    plot.bands([(2, 3)], tone="c3", title="<cut>")
    plot.line([(0, 0), (5, 0.5), (10, 1)], tone="c1")
    plot.bars([(1, 2), (6, 8)], 20, 30, tone="c2")
    plot.ticks([1, 2, 3], 40, 50, tone="loud")
    plot.marks([4], 60, 3, shape="round", tone="quiet")
    plot.x_axis(number_marks(0, 10), title="x")
    plot.y_axis(number_marks(0, 1), title="y")
    figure = Figure("drawn", "A & B", "what <it> shows", 200, 120)
    figure.put(plot)
    return figure


def test_a_file_is_well_formed_and_says_what_it_shows() -> None:
    root = ET.fromstring(drawn().file())

    assert root.tag == f"{SVG}svg"
    assert root.findtext(f"{SVG}title") == "A & B"
    assert root.findtext(f"{SVG}desc") == "what <it> shows"
    assert root.get("aria-labelledby") == "drawn-title drawn-about"
    assert root.find(f".//{SVG}path/{SVG}title") is not None


def test_a_file_follows_the_readers_scheme() -> None:
    text = drawn().file()

    assert "prefers-color-scheme:dark" in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")


def test_what_belongs_together_is_one_path() -> None:
    root = ET.fromstring(drawn().file())

    bars = [path for path in root.iter(f"{SVG}path") if path.get("class") == "bar c2"]

    assert len(bars) == 1
    assert bars[0].get("d", "").count("M") == 2
