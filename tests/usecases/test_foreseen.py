"""Fires that were computed once are those that are computed anew."""

from __future__ import annotations

from uuid import UUID

import pytest

from duly.domain.instants import DAY, HOUR, MINUTE, from_rfc3339
from duly.domain.job import JobType, Timing, schedule_of
from duly.domain.schedule import Schedule, fires
from duly.usecases import foreseen
from duly.usecases.foreseen import Foreseen

START = from_rfc3339("2026-10-24T00:00:00Z")


def schedule(cron: str, zone: str = "Europe/Berlin", **more: int) -> Schedule:
    made = schedule_of(Timing(type=JobType.CRON, cron=cron, zone=zone, **more), UUID(int=1))
    assert made is not None
    return made


def test_windows_in_any_order_have_the_fires_of_the_schedule() -> None:
    known, half = Foreseen(), schedule("*/30 * * * *")
    for first, until in ((3, 5), (0, 9), (4, 4), (8, 30), (1, 2), (60, 61), (0, 1)):
        window = (START + first * HOUR, START + until * HOUR)

        assert known.between(half, *window, 1000) == fires(half, window[0] - 1, window[1] - 1, 1000), window


def test_no_more_are_answered_than_are_asked_for() -> None:
    known, often = Foreseen(), schedule("* * * * *")

    assert known.between(often, START, START + DAY, 7) == [START + nth * MINUTE for nth in range(7)]
    assert len(known.between(often, START, START + DAY, 2000)) == 1440
    assert known.between(often, START, START + DAY, 0) == []


def test_a_schedule_that_has_ended_has_no_more() -> None:
    known, ending = Foreseen(), schedule("0 * * * *", end_at=START + 3 * HOUR)

    assert known.between(ending, START, START + DAY, 10) == [START + nth * HOUR for nth in range(4)]
    assert known.between(ending, START + 5 * HOUR, START + DAY, 10) == []


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreseen, "MOST_KEPT", 100)
    known = Foreseen()
    for nth in range(50):
        assert len(known.between(schedule(f"{nth} * * * *"), START, START + DAY, 30)) == 24

        assert sum(len(track.fires) for track in known._tracks.values()) <= 150


def test_a_track_that_nobody_walked_tells_nothing_of_a_later_time() -> None:
    known, daily = Foreseen(), schedule("0 3 * * *")
    known.track(daily, START)

    track, place = known.track(daily, START + 5 * DAY)
    following = known.following(daily, track, place)

    assert following == fires(daily, START + 5 * DAY, START + 7 * DAY, 1)[0]
    known.track(daily, START + 9 * DAY)
    assert known.between(daily, START + 20 * DAY, START + 22 * DAY, 10) == fires(daily, START + 20 * DAY - 1, START + 22 * DAY - 1, 10)


def test_schedules_that_were_only_looked_at_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreseen, "MOST_KEPT", 20)
    known = Foreseen()
    for nth in range(60):
        known.track(schedule(f"{nth} * * * *"), START)

    assert len(known._tracks) <= 22
