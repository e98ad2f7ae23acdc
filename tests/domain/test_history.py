"""Minute by minute: what ended, how late it began, how many ran."""

from __future__ import annotations

from duly.domain.history import minutes, nearest_rank
from duly.domain.instants import HOUR, MINUTE, SECOND
from duly.domain.lifecycle import State

START = 1_000 * HOUR


def test_every_minute_of_the_window_is_there_though_nothing_happened() -> None:
    found = minutes([], START + 30 * SECOND, START + 3 * MINUTE)

    assert [minute.at for minute in found] == [START, START + MINUTE, START + 2 * MINUTE]
    assert all(not minute.ended and minute.busy == 0 and minute.lateness_at(0.5) is None for minute in found)


def test_an_execution_counts_where_it_ended_and_runs_in_every_minute_that_it_touches() -> None:
    ended = [(START, START + 30 * SECOND, START + 150 * SECOND, State.SUCCEEDED, True)]

    first, second, third = minutes(ended, START, START + 3 * MINUTE)

    assert (first.ended, second.ended, third.ended) == ({}, {}, {State.SUCCEEDED: 1})
    assert (first.busy, second.busy, third.busy) == (30 * SECOND, MINUTE, 30 * SECOND)
    assert first.lateness == [30 * SECOND]


def test_what_never_started_and_what_was_tried_again_is_not_late() -> None:
    ended = [
        (START, None, START + SECOND, State.SKIPPED, True),
        (START, START + 40 * SECOND, START + 50 * SECOND, State.DEAD, False),
    ]

    (minute,) = minutes(ended, START, START + MINUTE)

    assert minute.lateness == []
    assert minute.ended == {State.SKIPPED: 1, State.DEAD: 1}


def test_a_percentile_is_one_of_the_values() -> None:
    assert nearest_rank([], 0.95) is None
    assert nearest_rank([7], 0.99) == 7
    assert nearest_rank(list(range(1, 101)), 0.5) == 50
    assert nearest_rank(list(range(1, 101)), 0.95) == 95
