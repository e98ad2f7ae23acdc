"""Searches, spans, heat maps: what pages compute for themselves."""

from __future__ import annotations

from datetime import date

import pytest

from duly.dashboard.drawing.heat import day_lines, hour_lines, level, midnight, this_hour, week_lines
from duly.dashboard.pages.overview import causes_of
from duly.dashboard.terms import EXECUTION_KEYS, JOB_KEYS, parse
from duly.dashboard.words import clock_text, counted, number, pretty, short_id, span, took
from duly.domain.instants import DAY, HOUR, MINUTE, from_rfc3339
from duly.domain.zones import load_zone

NOW = from_rfc3339("2026-10-24T18:40:00Z")
BERLIN = load_zone("Europe/Berlin")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, "–"),
        (0, "0 ms"),
        (840, "840 ms"),
        (4200, "4.2 s"),
        (42_000, "42 s"),
        (252_000, "4 m 12 s"),
        (3_600_000, "1 h"),
        (274_000_000, "3 d 4 h"),
    ],
)
def test_a_span_has_two_units_at_most(milliseconds: float | None, text: str) -> None:
    assert span(milliseconds).replace("\u00a0", " ") == text


def test_numbers_are_grouped_and_counted() -> None:
    assert number(1_284_000).replace("\u202f", " ") == "1 284 000"
    assert (counted(1, "job"), counted(2, "job")) == ("1 job", "2 jobs")


def test_a_run_of_a_workflow_took_as_long_as_all_of_it() -> None:
    due, ended = "2026-10-24T18:40:00Z", "2026-10-24T18:40:05Z"
    run = {"startedAt": None, "finishedAt": ended, "scheduledAt": due, "createdAt": due, "attempt": 0, "state": "DEAD"}

    assert took(run) == 5_000
    assert took({**run, "scheduledAt": "2024-01-01T00:00:00Z"}) == 5_000, "what is made up for later did not take so long"
    assert took({**run, "state": "CANCELLED"}) is None, "it may never have begun"
    assert took({**run, "startedAt": "2026-10-24T18:40:04Z", "attempt": 1}) == 1_000
    assert took({"startedAt": None, "finishedAt": None, "attempt": 2}) is None


def test_json_keeps_every_digit_of_a_large_integer() -> None:
    assert "12345678901234567890" in pretty({"n": 12345678901234567890})


def test_a_time_is_as_short_as_it_can_be_without_being_mistaken() -> None:
    assert clock_text(NOW, NOW, BERLIN) == "20:40:00"
    assert clock_text(NOW + 4 * HOUR, NOW, BERLIN) == "Sun 25 Oct 00:40:00"
    assert clock_text(from_rfc3339("2027-01-01T00:00:00Z"), NOW, BERLIN) == "1 Jan 2027 01:00:00"
    assert short_id("run_" + "0" * 24 + "89abcdef") == "run_…89abcdef"


def test_a_search_is_words_and_terms() -> None:
    terms = parse('nightly state:paused pool:mail next:<1h "two words"', JOB_KEYS, NOW)

    assert terms.wanted == {"state": "PAUSED", "pool": "mail", "nextFireBefore": "2026-10-24T19:40:00Z"}
    assert terms.words == "nightly two words"
    assert terms.trouble is None


def test_a_search_in_payloads_and_what_is_no_key() -> None:
    terms = parse("args.customer.id:42 job:x https://a", EXECUTION_KEYS, NOW)

    assert terms.wanted == {"payload.customer.id": "42", "jobName": "x"}
    assert terms.words == "https://a"


@pytest.mark.parametrize("text", ["state:broken", "next:<soon"])
def test_a_term_that_means_nothing_is_told(text: str) -> None:
    assert parse(text, JOB_KEYS, NOW).trouble is not None


@pytest.mark.parametrize(("day", "hours", "note"), [("2026-10-24", 24, 0), ("2026-10-25", 25, 1), ("2026-03-29", 23, 1)])
def test_a_day_has_the_hours_that_the_clocks_give_it(day: str, hours: int, note: int) -> None:
    lines = day_lines({}, date.fromisoformat(day), BERLIN, NOW)

    assert len(lines) == hours
    assert all(len(line.cells) == 60 for line in lines)
    assert sum(line.note is not None for line in lines) == note


def test_every_fire_of_the_day_is_in_the_cell_of_its_minute() -> None:
    day = date(2026, 10, 25)
    first = midnight(day, BERLIN)
    counts = {first: 7, first + 150 * MINUTE: 1, first + 25 * HOUR - MINUTE: 2}

    cells = {cell.at: cell for line in day_lines(counts, day, BERLIN, NOW) for cell in line.cells}

    assert {at: cell.fires for at, cell in cells.items() if cell.fires} == counts
    assert cells[first].level == 5
    assert cells[first + 150 * MINUTE].level == 1


def test_a_week_sums_hours_and_keeps_every_fire() -> None:
    first = midnight(date(2026, 10, 24), BERLIN)
    counts = {first + nth * 37 * MINUTE: 1 for nth in range(260)}

    lines = week_lines(counts, date(2026, 10, 24), BERLIN, NOW)

    assert [len(line.cells) for line in lines] == [24] * 7
    assert sum(cell.fires for line in lines for cell in line.cells) == len(counts)


def test_something_is_never_drawn_as_nothing() -> None:
    assert [level(count, 100) for count in (0, 1, 20, 21, 100)] == [0, 1, 1, 2, 5]
    assert level(1, 1) == 1


def test_a_load_is_drawn_beside_what_is_there_and_not_beside_the_greatest() -> None:
    day = date(2026, 10, 24)
    first = midnight(day, BERLIN)
    shares = {first: 10, first + MINUTE: 250, first + 2 * MINUTE: 60}

    cells = {cell.at: cell.level for cell in day_lines(shares, day, BERLIN, NOW, 100)[0].cells}

    assert [cells[at] for at in shares] == [1, 5, 3]
    week = week_lines(dict.fromkeys(range(first, first + HOUR, MINUTE), 50), day, BERLIN, NOW, 100)
    assert week[0].cells[0].fires == 50


def test_what_comes_begins_with_this_hour_and_says_where_the_next_day_begins() -> None:
    first = this_hour(NOW, BERLIN)

    lines = hour_lines({}, first, first + DAY, BERLIN, NOW)

    assert first <= NOW < first + HOUR
    assert lines[0].cells[0].at == first
    assert sum(len(line.cells) for line in lines) == 24 * 60
    assert [line.label for line in lines if line.day is not None] == ["00h"]


def test_failures_are_drawn_by_what_they_died_of_over_all_jobs() -> None:
    groups = [
        {"type": "TimeoutError", "jobName": "charge", "count": 3},
        {"type": "StepFailed", "jobName": "order", "count": 5},
        {"type": "TimeoutError", "jobName": "<mail>", "count": 4},
        {"type": None, "jobName": "order", "count": 1},
    ]

    shown = causes_of(groups)

    assert [(cause["type"], cause["count"], cause["jobs"]) for cause in shown] == [
        ("TimeoutError", 7, ["charge", "<mail>"]),
        ("StepFailed", 5, ["order"]),
        ("Error", 1, ["order"]),
    ]
    assert 'aria-label="7 of 13 dead letters"' in shown[0]["bar"]
    assert causes_of([]) == []
