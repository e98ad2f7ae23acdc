"""What the coming changes of the clocks will do to a schedule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.calendars import Calendar, Weekday
from duly.domain.clock_changes import next_touch
from duly.domain.cron import parse_cron
from duly.domain.instants import DAY, SECOND, from_rfc3339, to_rfc3339
from duly.domain.schedule import CalendarSchedule, CronSchedule, DstGap, DstOverlap, IntervalSchedule, explain_fire, fires

NOW = from_rfc3339("2026-01-15T12:00:00Z")
YEAR = 366 * DAY
# In 2026 Berlin goes forward on 29 March at 02:00 and back on 25 October at 03:00.
FORWARD, BACK = "2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z"


def berlin(text: str, **more: object) -> CronSchedule:
    return replace(CronSchedule(parse_cron(text), "Europe/Berlin"), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("schedule", "at", "words"),
    [
        (berlin("30 2 * * *"), FORWARD, "02:30 does not exist on this day; runs at 03:00"),
        (berlin("30 2 * * *", gap=DstGap.SHIFT), FORWARD, "02:30 does not exist on this day; moved to 03:30"),
        (berlin("30 2 * * *", gap=DstGap.SKIP), FORWARD, "02:30 does not exist on this day and is left out"),
        (berlin("0,30 2 * * *", gap=DstGap.SKIP), FORWARD, "02:00 and other times do not exist on this day and are left out"),
        (berlin("30 2 * 10 *"), BACK, "02:30 happens twice on this day; runs at the first"),
        (berlin("30 2 * 10 *", overlap=DstOverlap.SECOND), BACK, "02:30 happens twice on this day; runs at the second"),
        (berlin("30 2 * 10 *", overlap=DstOverlap.BOTH), BACK, "02:30 happens twice on this day, and runs twice"),
    ],
)
def test_the_first_change_that_touches_it_is_told(schedule: CronSchedule, at: str, words: str) -> None:
    found = next_touch(schedule, NOW, NOW + YEAR)

    assert found is not None
    assert (to_rfc3339(found.at), found.zone, found.words) == (at, "Europe/Berlin", words)


@pytest.mark.parametrize(
    "schedule",
    [
        berlin("30 4 * * *"),
        berlin("30 2 * * 1"),
        berlin("*/15 * * * *"),
        berlin("30 2 * * *", end_at=from_rfc3339("2026-02-01T00:00:00Z")),
        berlin("30 2 * 3 *", gap=DstGap.SKIP, start_at=from_rfc3339("2026-04-01T00:00:00Z")),
        replace(berlin("30 2 * * *"), zone="UTC"),
        IntervalSchedule(3600 * SECOND, NOW),
    ],
)
def test_what_no_change_touches_is_not_told(schedule: CronSchedule | IntervalSchedule) -> None:
    assert next_touch(schedule, NOW, NOW + 300 * DAY) is None


@pytest.mark.parametrize("gap", DstGap)
def test_a_day_that_a_calendar_leaves_out_is_not_touched(gap: DstGap) -> None:
    # The clocks change on Sundays.
    weekdays = Calendar(name="weekdays", version=1, zone="Europe/Berlin", business_days=tuple(Weekday)[:5])
    schedule = CalendarSchedule(berlin("30 2 * * *", gap=gap), (weekdays,))

    assert next_touch(schedule, NOW, NOW + YEAR) is None


@given(
    st.integers(0, 59),
    st.integers(0, 23),
    st.sampled_from(["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Tokyo"]),
    st.sampled_from([DstGap.RUN_AFTER, DstGap.SHIFT]),
    st.sampled_from([DstOverlap.FIRST, DstOverlap.SECOND]),
)
def test_it_is_the_first_fire_of_which_the_preview_says_something(
    minute: int, hour: int, zone: str, gap: DstGap, overlap: DstOverlap
) -> None:
    schedule = CronSchedule(parse_cron(f"{minute} {hour} * * *"), zone, gap, overlap)
    notes = [note for at in fires(schedule, NOW, NOW + YEAR, 400) if (note := explain_fire(schedule, at)) is not None]

    found = next_touch(schedule, NOW, NOW + YEAR)

    assert (None if found is None else found.words) == (notes[0] if notes else None)
