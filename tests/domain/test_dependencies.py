"""Periods by the clock of a zone, and what cannot be waited for."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from duly.domain.dependencies import Dependency, OnDeadline, Per, gates_for, period_of
from duly.domain.errors import Invalid
from duly.domain.instants import DAY, HOUR, SECOND, from_rfc3339
from duly.domain.job import JobSpec, JobType, Target, Timing, check_spec

JOB = UUID(int=7)
NIGHTLY = JobSpec(name="load", timing=Timing(type=JobType.CRON, cron="0 4 * * *"), target=Target(handler="work"))


@pytest.mark.parametrize(
    ("per", "at", "first", "past", "label"),
    [
        (Per.DAY, "2026-11-17T03:00:00Z", "2026-11-16T23:00:00Z", "2026-11-17T23:00:00Z", "2026-11-17"),
        # Berlin's clocks go back: the day has 25 hours; and forward: 23.
        (Per.DAY, "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", "2026-10-25"),
        (Per.DAY, "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", "2026-03-29"),
        (Per.DAY, "2026-11-17T23:30:00Z", "2026-11-17T23:00:00Z", "2026-11-18T23:00:00Z", "2026-11-18"),
        (Per.HOUR, "2026-11-17T03:59:59Z", "2026-11-17T03:00:00Z", "2026-11-17T04:00:00Z", "2026-11-17T04h"),
        (Per.WEEK, "2026-11-17T03:00:00Z", "2026-11-15T23:00:00Z", "2026-11-22T23:00:00Z", "2026-W47"),
        (Per.MONTH, "2026-10-31T23:30:00Z", "2026-10-31T23:00:00Z", "2026-11-30T23:00:00Z", "2026-11"),
        (Per.MONTH, "2026-12-17T03:00:00Z", "2026-11-30T23:00:00Z", "2026-12-31T23:00:00Z", "2026-12"),
    ],
)
def test_a_period_is_that_of_the_zones_own_clock(per: Per, at: str, first: str, past: str, label: str) -> None:
    found = period_of(from_rfc3339(at), per, "Europe/Berlin")

    assert found == (from_rfc3339(first), from_rfc3339(past), label)


def test_every_fire_has_a_closed_gate_of_its_own_for_each_job_that_it_waits_for() -> None:
    at = from_rfc3339("2026-11-17T04:00:00Z")
    both = (Dependency(job="extract"), Dependency(job="clean", within=HOUR, on_deadline=OnDeadline.RUN))

    extract, clean = gates_for(both, 1, JOB, at, "UTC")
    later = gates_for(both[:1], 1, JOB, at + HOUR, "UTC")

    assert (extract.capacity, clean.capacity) == (0, 0)
    assert len({extract.id, clean.id, later[0].id}) == 3
    assert gates_for(both, 1, JOB, at, "UTC") == (extract, clean)
    assert clean.awaited is not None
    assert (clean.awaited.job, clean.awaited.deadline, clean.awaited.runs) == ("clean", at + HOUR, True)
    assert clean.awaited.past - clean.awaited.first == DAY


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"after": (Dependency(job="load"),)}, "DULY-E157"),
        ({"after": (Dependency(job="a"), Dependency(job="a", per=Per.HOUR))}, "DULY-E106"),
        ({"after": (Dependency(job="a", within=SECOND - 1),)}, "DULY-E106"),
        ({"after": (Dependency(job="a", within=32 * DAY),)}, "DULY-E106"),
        ({"after": tuple(Dependency(job=f"a{nth}") for nth in range(21))}, "DULY-E106"),
        ({"after": (Dependency(job="a"),), "timing": Timing()}, "DULY-E106"),
    ],
)
def test_what_cannot_be_waited_for_is_refused(changes: dict[str, object], code: str) -> None:
    check_spec(replace(NIGHTLY, after=(Dependency(job="a"), Dependency(job="b"))))

    with pytest.raises(Invalid) as refused:
        check_spec(replace(NIGHTLY, **changes))

    assert refused.value.code == code
