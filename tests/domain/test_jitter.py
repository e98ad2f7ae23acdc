"""Jitter: the same for everybody, spread out, and never as late as the next fire."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from duly.domain.instants import DAY, MINUTE, SECOND
from duly.domain.jitter import jitter_of
from duly.domain.schedule import IntervalSchedule, OneTimeSchedule, next_fire

ids = st.uuids()
ats = st.integers(0, 100_000 * DAY)


@settings(max_examples=300)
@given(ids, ats, st.integers(1, DAY), st.integers(SECOND, DAY))
def test_a_fire_starts_before_the_next_one_and_within_its_jitter(job: UUID, at: int, jitter: int, every: int) -> None:
    schedule = IntervalSchedule(every=every, anchor=at)

    delay = jitter_of(schedule, jitter, job, at)

    following = next_fire(schedule, at)
    assert following is not None
    assert 0 <= delay < jitter
    assert at + delay < following
    assert jitter_of(schedule, jitter, job, at) == delay


@given(ids, ats)
def test_without_jitter_it_starts_at_once(job: UUID, at: int) -> None:
    assert jitter_of(IntervalSchedule(every=MINUTE, anchor=at), 0, job, at) == 0


@given(ids, ats, st.integers(1, DAY))
def test_the_last_fire_has_the_whole_jitter_for_itself(job: UUID, at: int, jitter: int) -> None:
    assert 0 <= jitter_of(OneTimeSchedule(at), jitter, job, at) < jitter


def test_a_herd_is_spread_evenly() -> None:
    schedule = IntervalSchedule(every=DAY, anchor=0)

    delays = [jitter_of(schedule, MINUTE, UUID(int=nth), 20_000 * DAY) for nth in range(6000)]

    in_each_second = [sum(1 for delay in delays if delay // SECOND == second) for second in range(60)]
    assert min(in_each_second) > 50
    assert max(in_each_second) < 160


def test_one_job_starts_at_another_delay_each_day() -> None:
    schedule = IntervalSchedule(every=DAY, anchor=0)

    assert len({jitter_of(schedule, MINUTE, UUID(int=1), day * DAY) for day in range(100)}) > 95
