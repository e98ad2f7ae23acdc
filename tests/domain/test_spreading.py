"""Crowded minutes, and the moves that empty them."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from duly.domain.instants import DAY, from_rfc3339
from duly.domain.job import JobType, Timing, schedule_of
from duly.domain.schedule import fires
from duly.domain.spreading import Move, busiest, loads, minutes_of, moves_of

START = from_rfc3339("2026-11-16T12:00:00Z")


def herd(count: int, text: str = "0 0 * * *") -> dict[UUID, Timing]:
    return {UUID(int=nth): Timing(type=JobType.CRON, cron=text) for nth in range(1, count + 1)}


def spread(timings: dict[UUID, Timing], most: int) -> list[Move]:
    return moves_of({job: (timing, minutes_of(timing, job, START)) for job, timing in timings.items()}, most)


def after(moves: list[Move], timings: dict[UUID, Timing]) -> dict[UUID, Timing]:
    changed = {move.job: move.after for move in moves}
    return {job: replace(timing, cron=changed[job]) if job in changed else timing for job, timing in timings.items()}


def test_a_herd_stands_apart_and_the_first_ones_stay() -> None:
    timings = herd(60)

    moves = spread(timings, 5)
    later = after(moves, timings)

    assert busiest(timings, START) == (from_rfc3339("2026-11-17T00:00:00Z"), 60)
    assert len(moves) == 55
    assert {move.job.int for move in moves}.isdisjoint(range(1, 6))
    assert {move.after for move in moves} == {"H 0 * * *"}
    assert max(loads(later, START).values()) < 20
    for job, timing in later.items():
        schedule = schedule_of(timing, job)
        assert schedule is not None
        [fire] = fires(schedule, START, START + DAY, 5)
        assert from_rfc3339("2026-11-17T00:00:00Z") <= fire < from_rfc3339("2026-11-17T01:00:00Z"), "its hour stays"


def test_what_cannot_be_moved_stays() -> None:
    timings = {
        **herd(3, "0,30 0 * * *"),
        UUID(int=10): Timing(type=JobType.INTERVAL, every=60_000_000, anchor=0),
        UUID(int=11): Timing(),
        UUID(int=12): Timing(type=JobType.CRON, cron="@daily"),
    }

    assert [move.after for move in spread(timings, 1)] == ["H 0 * * *"]
    assert spread(timings, 100) == []
    assert busiest({}, START) is None
