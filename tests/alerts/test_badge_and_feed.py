"""A badge and a calendar show what they are given, and nothing in them runs."""

from __future__ import annotations

from uuid import UUID
from xml.etree import ElementTree

import pytest

from duly.domain.alerts.facts import Run
from duly.domain.badge import Standing, badge, standing_of
from duly.domain.feed import Fire, calendar_feed
from duly.domain.ics import read_ics
from duly.domain.instants import HOUR, MINUTE, from_rfc3339
from duly.domain.lifecycle import State

NOW = from_rfc3339("2026-03-01T12:00:00Z")


def run(state: State, ago: int = HOUR) -> Run:
    done = state in (State.SUCCEEDED, State.DEAD)
    at = NOW - ago
    return Run(
        id=UUID(int=ago), job_id=UUID(int=1), due_at=at, state=state, started_at=at if done else None, finished_at=at if done else None
    )


@pytest.mark.parametrize(
    ("runs", "stopped", "said"),
    [
        ([], False, Standing.UNKNOWN),
        ([run(State.SUCCEEDED)], False, Standing.UP),
        ([run(State.SUCCEEDED, 2 * HOUR), run(State.DEAD)], False, Standing.DOWN),
        ([run(State.DEAD, 2 * HOUR), run(State.SUCCEEDED)], False, Standing.UP),
        ([run(State.SUCCEEDED), run(State.PENDING, 6 * MINUTE)], False, Standing.LATE),
        ([run(State.SUCCEEDED), run(State.PENDING, 4 * MINUTE)], False, Standing.UP),
        ([run(State.DEAD)], True, Standing.PAUSED),
    ],
)
def test_a_badge_says_how_the_job_is(runs: list[Run], stopped: bool, said: Standing) -> None:
    assert standing_of(runs, is_stopped=stopped, now=NOW) is said


def test_a_badge_is_a_picture_whatever_the_job_is_called() -> None:
    drawn = ElementTree.fromstring(badge('<script>alert("x")</script>&' * 3, Standing.UP))
    assert {element.tag.rpartition("}")[2] for element in drawn.iter()} == {"svg", "title", "rect", "g", "text"}


def test_a_feed_can_be_read_by_what_reads_calendars() -> None:
    name = "report; of, everything " + "ä" * 60
    text = calendar_feed([Fire(NOW, UUID(int=1), name, "default", 30 * MINUTE, "the clocks change")], "Duly", NOW)

    assert all(len(line.encode()) <= 75 for line in text.split("\r\n"))
    (window,) = read_ics(text, "UTC", NOW).windows
    assert (window.start, window.end) == (NOW, NOW + 30 * MINUTE)
    assert text.count("UID:run_") == 1
