"""When schedules fire: hand-picked cases with known instants, and properties that hold for all."""

from __future__ import annotations

import struct
import time
from datetime import datetime
from importlib import resources
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from duly.domain.cron import parse_cron
from duly.domain.errors import Invalid
from duly.domain.instants import DAY, HOUR, LATEST, MINUTE, SECOND, Instant, from_rfc3339, to_rfc3339
from duly.domain.schedule import (
    CronSchedule,
    DstGap,
    DstOverlap,
    IntervalSchedule,
    OneTimeSchedule,
    explain_fire,
    fires,
    next_fire,
    previous_fire,
)
from duly.domain.zones import BLOCK_BITS, PROBE_SECONDS, changes, instant_to_local, load_zone, stretch_at, tzdata_version, zone_names


def cron(text: str, zone: str = "UTC", gap: str = "run_after", overlap: str = "first") -> CronSchedule:
    return CronSchedule(parse_cron(text, seconds=len(text.split()) == 6), zone, DstGap(gap), DstOverlap(overlap))


def at(text: str) -> Instant:
    """An instant from the short form used in the tables below."""
    return from_rfc3339(text.replace(" ", "T") + ("Z" if text.count(":") == 2 else ":00Z"))


def short(instant: Instant) -> str:
    text = to_rfc3339(instant).replace("T", " ").removesuffix("Z")
    return text.removesuffix(":00") if text.endswith(":00") else text


# expression, zone, gap, overlap, after (UTC), the fires that follow (UTC)
FIXED_CASES = [
    # Plain times.
    ("30 2 * * *", "UTC", "run_after", "first", "2026-01-01 00:00", ["2026-01-01 02:30", "2026-01-02 02:30"]),
    ("30 2 * * *", "UTC", "run_after", "first", "2026-01-01 02:30", ["2026-01-02 02:30"]),
    ("0 0 1 1 *", "UTC", "run_after", "first", "2026-01-01 00:00", ["2027-01-01 00:00"]),
    ("59 23 31 12 *", "UTC", "run_after", "first", "1999-12-31 23:58", ["1999-12-31 23:59", "2000-12-31 23:59"]),
    ("0 9 * * MON-FRI", "Europe/Berlin", "run_after", "first", "2026-06-05 07:00", ["2026-06-08 07:00"]),
    ("0 0 L * *", "UTC", "run_after", "first", "2028-02-01 00:00", ["2028-02-29 00:00", "2028-03-31 00:00"]),
    ("0 0 29 2 *", "UTC", "run_after", "first", "2096-03-01 00:00", ["2104-02-29 00:00"]),
    ("0 12 * * 1#1", "Asia/Tokyo", "run_after", "first", "2026-06-01 03:00", ["2026-07-06 03:00"]),
    ("0 0 13 * FRI", "UTC", "run_after", "first", "2026-02-06 00:00", ["2026-02-13 00:00", "2026-02-20 00:00"]),
    ("15 14 1 * *", "Asia/Kathmandu", "run_after", "first", "2026-01-01 00:00", ["2026-01-01 08:30"]),
    ("0 0 * * *", "Asia/Kathmandu", "run_after", "first", "1985-12-31 00:00", ["1985-12-31 18:30", "1986-01-01 18:15"]),
    # New York, the clocks go forward: 02:00 becomes 03:00 at 07:00 UTC on 2026-03-08.
    ("30 2 * * *", "America/New_York", "run_after", "first", "2026-03-07 12:00", ["2026-03-08 07:00", "2026-03-09 06:30"]),
    ("30 2 * * *", "America/New_York", "skip", "first", "2026-03-07 12:00", ["2026-03-09 06:30"]),
    ("30 2 * * *", "America/New_York", "shift", "first", "2026-03-07 12:00", ["2026-03-08 07:30", "2026-03-09 06:30"]),
    ("0 2 * * *", "America/New_York", "run_after", "first", "2026-03-07 12:00", ["2026-03-08 07:00", "2026-03-09 06:00"]),
    ("0 3 * * *", "America/New_York", "run_after", "first", "2026-03-07 12:00", ["2026-03-08 07:00", "2026-03-09 07:00"]),
    ("59 1 * * *", "America/New_York", "run_after", "first", "2026-03-07 12:00", ["2026-03-08 06:59", "2026-03-09 05:59"]),
    ("0,30 2 * * *", "America/New_York", "run_after", "first", "2026-03-07 12:00", ["2026-03-08 07:00", "2026-03-09 06:00"]),
    ("0 2,3 * * *", "America/New_York", "run_after", "first", "2026-03-07 12:00", ["2026-03-08 07:00", "2026-03-09 06:00"]),
    ("30 2,3 * * *", "America/New_York", "shift", "first", "2026-03-07 12:00", ["2026-03-08 07:30", "2026-03-09 06:30"]),
    ("45 2 * * *", "America/New_York", "shift", "first", "2026-03-08 07:30", ["2026-03-08 07:45"]),
    ("0 3 * * *", "America/New_York", "shift", "first", "2026-03-08 06:59", ["2026-03-08 07:00", "2026-03-09 07:00"]),
    ("15,45 2,3 * * *", "America/New_York", "shift", "first", "2026-03-08 07:00", ["2026-03-08 07:15", "2026-03-08 07:45"]),
    ("30 2 8 3 *", "America/New_York", "skip", "first", "2026-03-07 12:00", ["2027-03-08 07:30"]),
    ("*/15 * * * *", "America/New_York", "run_after", "first", "2026-03-08 06:45", ["2026-03-08 07:00", "2026-03-08 07:15"]),
    ("*/30 2 * * *", "America/New_York", "run_after", "first", "2026-03-07 12:00", ["2026-03-09 06:00", "2026-03-09 06:30"]),
    ("30 * * * *", "America/New_York", "shift", "first", "2026-03-08 06:00", ["2026-03-08 06:30", "2026-03-08 07:30"]),
    ("0 */2 * * *", "America/New_York", "run_after", "first", "2026-03-08 05:00", ["2026-03-08 08:00", "2026-03-08 10:00"]),
    # New York, the clocks go back: 02:00 becomes 01:00 at 06:00 UTC on 2026-11-01.
    ("30 1 * * *", "America/New_York", "run_after", "first", "2026-10-31 12:00", ["2026-11-01 05:30", "2026-11-02 06:30"]),
    ("30 1 * * *", "America/New_York", "run_after", "second", "2026-10-31 12:00", ["2026-11-01 06:30", "2026-11-02 06:30"]),
    ("30 1 * * *", "America/New_York", "run_after", "both", "2026-10-31 12:00", ["2026-11-01 05:30", "2026-11-01 06:30"]),
    ("0 2 * * *", "America/New_York", "run_after", "first", "2026-10-31 12:00", ["2026-11-01 07:00", "2026-11-02 07:00"]),
    ("0 1 * * *", "America/New_York", "run_after", "second", "2026-10-31 12:00", ["2026-11-01 06:00"]),
    (
        "0,30 1 * * *",
        "America/New_York",
        "run_after",
        "both",
        "2026-11-01 05:00",
        ["2026-11-01 05:30", "2026-11-01 06:00", "2026-11-01 06:30"],
    ),
    ("0,30 1 * * *", "America/New_York", "run_after", "first", "2026-11-01 05:30", ["2026-11-02 06:00"]),
    (
        "30 * * * *",
        "America/New_York",
        "run_after",
        "first",
        "2026-11-01 05:00",
        ["2026-11-01 05:30", "2026-11-01 06:30", "2026-11-01 07:30"],
    ),
    (
        "*/30 1 1 11 *",
        "America/New_York",
        "run_after",
        "first",
        "2026-11-01 05:30",
        ["2026-11-01 06:00", "2026-11-01 06:30", "2027-11-01 05:00"],
    ),
    # Other hemispheres and sizes.
    ("30 2 * * *", "Europe/Berlin", "run_after", "first", "2027-03-27 12:00", ["2027-03-28 01:00", "2027-03-29 00:30"]),
    ("30 2 * * *", "Europe/Berlin", "run_after", "first", "2026-10-24 12:00", ["2026-10-25 00:30", "2026-10-26 01:30"]),
    ("15 2 * * *", "Australia/Lord_Howe", "run_after", "first", "2026-10-03 00:00", ["2026-10-03 15:30", "2026-10-04 15:15"]),
    ("15 2 * * *", "Australia/Lord_Howe", "shift", "first", "2026-10-03 00:00", ["2026-10-03 15:45", "2026-10-04 15:15"]),
    (
        "45 1 * * *",
        "Australia/Lord_Howe",
        "run_after",
        "both",
        "2026-04-04 00:00",
        ["2026-04-04 14:45", "2026-04-04 15:15", "2026-04-05 15:15"],
    ),
    ("30 1 * * *", "Antarctica/Troll", "run_after", "first", "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-29 23:30"]),
    ("30 1 * * *", "Antarctica/Troll", "shift", "first", "2026-03-28 12:00", ["2026-03-29 01:30", "2026-03-29 23:30"]),
    (
        "30 1 * * *",
        "Antarctica/Troll",
        "run_after",
        "both",
        "2026-10-24 12:00",
        ["2026-10-24 23:30", "2026-10-25 01:30", "2026-10-26 01:30"],
    ),
    # Dublin and Casablanca: winter time, or Ramadan, is what tzdata calls negative daylight saving.
    ("30 1 * * *", "Europe/Dublin", "run_after", "first", "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-30 00:30"]),
    ("30 1 * * *", "Europe/Dublin", "run_after", "first", "2026-10-24 12:00", ["2026-10-25 00:30", "2026-10-26 01:30"]),
    ("30 2 * * *", "Africa/Casablanca", "run_after", "first", "2026-02-14 12:00", ["2026-02-15 01:30", "2026-02-16 02:30"]),
    ("30 2 * * *", "Africa/Casablanca", "run_after", "first", "2026-03-21 12:00", ["2026-03-22 02:00", "2026-03-23 01:30"]),
    # The change is at midnight, so 00:00 itself is missing or doubled.
    ("0 0 * * *", "America/Sao_Paulo", "run_after", "first", "2018-11-03 12:00", ["2018-11-04 03:00", "2018-11-05 02:00"]),
    ("30 0 * * *", "America/Sao_Paulo", "shift", "first", "2018-11-03 12:00", ["2018-11-04 03:30", "2018-11-05 02:30"]),
    ("30 23 * * *", "America/Sao_Paulo", "run_after", "first", "2019-02-16 12:00", ["2019-02-17 01:30", "2019-02-18 02:30"]),
    ("30 23 * * *", "America/Sao_Paulo", "run_after", "second", "2019-02-16 12:00", ["2019-02-17 02:30", "2019-02-18 02:30"]),
    ("0 0 * * *", "Asia/Beirut", "run_after", "first", "2026-03-28 12:00", ["2026-03-28 22:00", "2026-03-29 21:00"]),
    ("0 0 * * *", "Africa/Cairo", "run_after", "first", "2026-04-23 12:00", ["2026-04-23 22:00", "2026-04-24 21:00"]),
    ("0 0 * * *", "America/Havana", "run_after", "first", "2026-03-07 12:00", ["2026-03-08 05:00", "2026-03-09 04:00"]),
    ("30 0 * * *", "America/Havana", "run_after", "both", "2025-11-01 12:00", ["2025-11-02 04:30", "2025-11-02 05:30", "2025-11-03 05:30"]),
    # tzdata 2026f: Cuba does not go back in 2026, so nothing happens twice that autumn.
    ("30 0 * * *", "America/Havana", "run_after", "both", "2026-10-31 12:00", ["2026-11-01 04:30", "2026-11-02 04:30", "2026-11-03 04:30"]),
    ("0 0 * * *", "America/Asuncion", "run_after", "first", "2023-09-30 12:00", ["2023-10-01 04:00", "2023-10-02 03:00"]),
    # Whole days that never were, and one that was twice.
    ("0 9 * * *", "Pacific/Apia", "run_after", "first", "2011-12-29 12:00", ["2011-12-29 19:00", "2011-12-30 10:00", "2011-12-30 19:00"]),
    ("0 9 * * *", "Pacific/Apia", "skip", "first", "2011-12-29 20:00", ["2011-12-30 19:00"]),
    ("0 9 * * *", "Pacific/Apia", "shift", "first", "2011-12-29 20:00", ["2011-12-30 19:00", "2011-12-31 19:00"]),
    ("0 9 30 12 *", "Pacific/Apia", "run_after", "first", "2011-12-01 00:00", ["2011-12-30 10:00", "2012-12-29 19:00"]),
    ("0 9 31 12 *", "Pacific/Kiritimati", "run_after", "first", "1994-12-01 00:00", ["1994-12-31 10:00", "1995-12-30 19:00"]),
    (
        "0 9 * * *",
        "Pacific/Kwajalein",
        "run_after",
        "first",
        "1993-08-20 00:00",
        ["1993-08-20 21:00", "1993-08-21 12:00", "1993-08-21 21:00"],
    ),
    # Changes of a zone's own time, with no daylight saving in them.
    ("15 0 * * *", "Asia/Pyongyang", "run_after", "first", "2018-05-04 12:00", ["2018-05-04 15:15", "2018-05-05 15:15"]),
    ("45 23 * * *", "Asia/Pyongyang", "run_after", "first", "2018-05-04 00:00", ["2018-05-04 15:00", "2018-05-05 14:45"]),
    (
        "45 2 * * *",
        "America/Caracas",
        "run_after",
        "both",
        "2007-12-08 12:00",
        ["2007-12-09 06:45", "2007-12-09 07:15", "2007-12-10 07:15"],
    ),
    ("30 2 * * *", "America/Caracas", "run_after", "first", "2016-04-30 12:00", ["2016-05-01 07:00", "2016-05-02 06:30"]),
    # Santiago's change of 1973 lies an hour after the edge of a block in the table of offsets.
    ("0 23 * * *", "America/Santiago", "run_after", "second", "1973-03-10 12:00", ["1973-03-11 03:00", "1973-03-12 03:00"]),
    (
        "1 23 * * *",
        "America/Santiago",
        "run_after",
        "both",
        "1973-03-10 12:00",
        ["1973-03-11 02:01", "1973-03-11 03:01", "1973-03-12 03:01"],
    ),
    # Offsets with seconds: Monrovia kept 44 minutes and 30 seconds behind until 1972.
    ("0 12 * * *", "Africa/Monrovia", "run_after", "first", "1971-12-31 00:00", ["1971-12-31 12:44:30", "1972-01-01 12:44:30"]),
    ("30 0 * * *", "Africa/Monrovia", "run_after", "first", "1972-01-06 12:00", ["1972-01-07 00:44:30", "1972-01-08 00:30"]),
    # Six fields.
    ("30 0 2 * * *", "UTC", "run_after", "first", "2026-01-01 00:00", ["2026-01-01 02:00:30", "2026-01-02 02:00:30"]),
    ("*/20 * * * * *", "UTC", "run_after", "first", "2026-01-01 00:00:41", ["2026-01-01 00:01", "2026-01-01 00:01:20"]),
    ("15 30 2 * * *", "America/New_York", "shift", "first", "2026-03-08 00:00", ["2026-03-08 07:30:15", "2026-03-09 06:30:15"]),
    ("* 59 1 * * *", "America/New_York", "run_after", "first", "2026-11-01 05:59:58", ["2026-11-01 05:59:59", "2026-11-01 06:59"]),
]


@pytest.mark.parametrize(("text", "zone", "gap", "overlap", "after", "expected"), FIXED_CASES)
def test_a_hand_picked_case_fires_at_the_instants_worked_out_for_it(
    text: str, zone: str, gap: str, overlap: str, after: str, expected: list[str]
) -> None:
    schedule = cron(text, zone, gap, overlap)

    found = fires(schedule, at(after), None, len(expected))

    assert [short(fire) for fire in found] == expected
    for earlier, later in pairwise(found):
        assert previous_fire(schedule, later) == earlier


@pytest.mark.parametrize(
    ("text", "overlap", "before", "expected"),
    [
        # In the second pass of the hour, before the reading comes round again: the first pass had it.
        ("50 1 1 11 *", "first", "2026-11-01 06:20", "2026-11-01 05:50"),
        ("50 1 1 11 *", "both", "2026-11-01 06:20", "2026-11-01 05:50"),
        ("50 1 1 11 *", "second", "2026-11-01 06:20", "2025-11-01 05:50"),
        ("*/50 1 1 11 *", "first", "2026-11-01 06:00", "2026-11-01 05:50"),
        # The very first reading that comes twice belongs to the second pass, too.
        ("0 1 * * *", "second", "2026-11-01 05:30", "2026-10-31 05:00"),
        ("0 1 * * *", "second", "2026-11-01 06:01", "2026-11-01 06:00"),
        ("0 1 * * *", "first", "2026-11-01 06:30", "2026-11-01 05:00"),
    ],
)
def test_looking_back_from_within_a_repeated_hour_finds_the_right_pass(text: str, overlap: str, before: str, expected: str) -> None:
    found = previous_fire(cron(text, "America/New_York", overlap=overlap), at(before))

    assert found is not None
    assert short(found) == expected


# --- notes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "zone", "gap", "overlap", "fire", "note"),
    [
        ("30 2 * * *", "America/New_York", "run_after", "first", "2026-03-08 07:00", "02:30 does not exist on this day; runs at 03:00"),
        ("30 2 * * *", "America/New_York", "shift", "first", "2026-03-08 07:30", "02:30 does not exist on this day; moved to 03:30"),
        ("30 2 * * *", "America/New_York", "run_after", "first", "2026-03-09 06:30", None),
        ("0 3 * * *", "America/New_York", "run_after", "first", "2026-03-08 07:00", None),
        (
            "0 2,3 * * *",
            "America/New_York",
            "run_after",
            "first",
            "2026-03-08 07:00",
            "02:00 does not exist on this day; runs at 03:00, one run for both",
        ),
        (
            "0,30 2 * * *",
            "America/New_York",
            "run_after",
            "first",
            "2026-03-08 07:00",
            "02:00 and 02:30 do not exist on this day; all run once at 03:00",
        ),
        (
            "0-59/10 2 * * *",
            "America/New_York",
            "run_after",
            "first",
            "2026-03-08 07:00",
            "6 times from 02:00 to 02:50 do not exist on this day; all run once at 03:00",
        ),
        ("30 1 * * *", "America/New_York", "run_after", "first", "2026-11-01 05:30", "01:30 happens twice on this day; runs at the first"),
        (
            "30 1 * * *",
            "America/New_York",
            "run_after",
            "second",
            "2026-11-01 06:30",
            "01:30 happens twice on this day; runs at the second",
        ),
        ("30 1 * * *", "America/New_York", "run_after", "both", "2026-11-01 06:30", "01:30 happens twice on this day; this is the second"),
        ("30 * * * *", "America/New_York", "run_after", "first", "2026-11-01 05:30", "01:30 happens twice on this day; this is the first"),
        ("30 * * * *", "America/New_York", "run_after", "first", "2026-11-01 06:30", "01:30 happens twice on this day; this is the second"),
        ("30 * * * *", "America/New_York", "run_after", "first", "2026-11-01 07:30", None),
        (
            "0 9 * * *",
            "Pacific/Apia",
            "run_after",
            "first",
            "2011-12-30 10:00",
            "09:00 on 2011-12-30 does not exist; runs at 00:00 on 2011-12-31",
        ),
        ("15 30 2 * * *", "Europe/Berlin", "run_after", "first", "2027-03-28 01:00", "02:30:15 does not exist on this day; runs at 03:00"),
    ],
)
def test_the_note_on_a_fire_says_what_the_clocks_did(text: str, zone: str, gap: str, overlap: str, fire: str, note: str | None) -> None:
    assert explain_fire(cron(text, zone, gap, overlap), at(fire)) == note


def test_other_kinds_of_schedule_have_no_notes() -> None:
    assert explain_fire(IntervalSchedule(HOUR, 0), at("2026-11-01 06:00")) is None
    assert explain_fire(OneTimeSchedule(5), 5) is None


# --- intervals, single times, bounds ----------------------------------------------------------


def test_an_interval_is_counted_from_its_anchor_and_ignores_the_clocks() -> None:
    schedule = IntervalSchedule(every=90 * MINUTE, anchor=at("2026-03-08 05:00"))

    found = fires(schedule, at("2026-03-01 00:00"), None, 3)

    assert [short(fire) for fire in found] == ["2026-03-08 05:00", "2026-03-08 06:30", "2026-03-08 08:00"]
    assert previous_fire(schedule, at("2026-03-08 08:00")) == at("2026-03-08 06:30")
    assert previous_fire(schedule, at("2026-03-08 05:00")) is None


def test_a_single_time_fires_once() -> None:
    schedule = OneTimeSchedule(at("2026-03-08 07:00"))

    assert next_fire(schedule, schedule.at - 1) == schedule.at
    assert next_fire(schedule, schedule.at) is None
    assert previous_fire(schedule, schedule.at + 1) == schedule.at
    assert previous_fire(schedule, schedule.at) is None


def test_both_bounds_belong_to_the_schedule() -> None:
    start, end = at("2026-01-02 00:00"), at("2026-01-04 00:00")
    schedule = CronSchedule(parse_cron("@daily"), start_at=start, end_at=end)

    assert [short(fire) for fire in fires(schedule, 0, None, 10)] == ["2026-01-02 00:00", "2026-01-03 00:00", "2026-01-04 00:00"]
    assert next_fire(schedule, end) is None
    assert previous_fire(schedule, LATEST) == end
    assert previous_fire(schedule, start) is None


def test_a_bound_between_two_seconds_cuts_exactly() -> None:
    start, end = at("2026-01-02 00:00") + 1, at("2026-01-04 00:00") - 1
    schedule = CronSchedule(parse_cron("@daily"), start_at=start, end_at=end)

    assert [short(fire) for fire in fires(schedule, 0, None, 10)] == ["2026-01-03 00:00"]


def test_bounds_apply_to_every_kind() -> None:
    assert fires(IntervalSchedule(10, 0, start_at=15, end_at=40), 0, None, 10) == [20, 30, 40]
    assert next_fire(OneTimeSchedule(10, start_at=11), 0) is None
    assert previous_fire(OneTimeSchedule(10, end_at=9), 20) is None


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: IntervalSchedule(0, 0), "DULY-E104"),
        (lambda: IntervalSchedule(-1, 0), "DULY-E104"),
        (lambda: OneTimeSchedule(1, start_at=2, end_at=1), "DULY-E105"),
        (lambda: CronSchedule(parse_cron("@daily"), "Europe/Berlim"), "DULY-E103"),
    ],
)
def test_a_schedule_that_makes_no_sense_cannot_be_made(make, code: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Invalid) as refused:
        make()
    assert refused.value.code == code


def test_nothing_fires_before_1970_or_after_9999() -> None:
    assert next_fire(cron("* * * * *"), -(10**18)) == 0
    assert previous_fire(cron("* * * * *"), 1) == 0
    assert previous_fire(cron("* * * * *"), 0) is None
    assert next_fire(cron("* * * * *"), LATEST) is None
    for zone in ("UTC", "America/New_York", "Pacific/Kiritimati"):
        last = previous_fire(cron("0 0 * * *", zone), LATEST)
        assert last is not None
        assert next_fire(cron("0 0 * * *", zone), last - 1) == last
        assert next_fire(cron("0 0 * * *", zone), last) is None


def test_a_time_that_every_year_skips_ends_in_a_bounded_search() -> None:
    # The second Sunday in March at 02:30 is always in New York's gap, since 2007.
    schedule = cron("30 2 8-14 3 */7", "America/New_York", gap="skip")

    begin = time.process_time()
    found = next_fire(schedule, at("2026-01-01 00:00"))

    assert found is None
    assert time.process_time() - begin < 0.5


# --- zones ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("europe/berlin", "Europe/Berlin"),
        ("Europe/Berlim", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("New York", "America/New_York"),
        ("utc", "UTC"),
        ("", "IANA name"),
        ("Factory", "IANA name"),
        ("../../etc/passwd", "IANA name"),
        ("/etc/localtime", "IANA name"),
        ("Europe/../Europe/Berlin", ""),
        ("Europe", "IANA name"),
        ("tzdata.zi", "IANA name"),
        ("Europe/Berlin\n", "IANA name"),
        ("Europe/Berl\u0131n", "IANA name"),
        ("A" * 65, "IANA name"),
        ("+02:00", "IANA name"),
    ],
)
def test_a_name_that_is_no_zone_is_refused_with_close_names(name: str, hint: str) -> None:
    with pytest.raises(Invalid) as refused:
        load_zone(name)

    assert refused.value.code == "DULY-E103"
    assert hint in str(refused.value)


def test_zones_come_from_the_package_and_name_its_release() -> None:
    import tzdata

    assert tzdata_version() == tzdata.IANA_VERSION
    assert load_zone("Europe/Berlin") is load_zone("Europe/Berlin")
    assert isinstance(load_zone("UTC"), ZoneInfo)
    assert all(load_zone(name).utcoffset(datetime(2026, 1, 1)) is not None for name in zone_names())


def test_no_zone_changes_its_offset_more_often_than_the_probes_see() -> None:
    for name in sorted(zone_names()):
        moments = offset_changes(name)
        for earlier, later in pairwise(moments):
            if later > 0:
                assert later - earlier > 2 * PROBE_SECONDS, name


def offset_changes(name: str) -> list[int]:
    """The listed changes of the offset, straight from the TZif file of the zone."""
    content = resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()

    def header(start: int) -> tuple[int, ...]:
        return struct.unpack(">6l", content[start + 20 : start + 44])

    utc, standard, leaps, count, kinds, letters = header(0)
    start = 44 + count * 5 + kinds * 6 + letters + leaps * 8 + standard + utc
    utc, standard, leaps, count, kinds, letters = header(start)
    start += 44
    moments = struct.unpack(f">{count}q", content[start : start + 8 * count])
    indices = content[start + 8 * count : start + 9 * count]
    start += 9 * count
    offsets = [struct.unpack(">l", content[start + 6 * kind : start + 6 * kind + 4])[0] for kind in range(kinds)]
    found, offset = [], offsets[0]
    for moment, index in zip(moments, indices, strict=True):
        if offsets[index] != offset:
            found.append(moment)
        offset = offsets[index]
    return found


def test_every_listed_change_since_1970_is_found_at_its_very_second() -> None:
    # Two names of one zone have one list.
    zones = {tuple(offset_changes(name)): name for name in sorted(zone_names())}
    assert len(zones) > 200
    for all_listed, name in zones.items():
        listed = [moment for moment in all_listed if 0 < moment < 2**32]
        found = [change.at // SECOND for change in changes(name, 0, listed[-1] * SECOND)] if listed else []
        assert found == listed, name


def test_a_change_near_the_edge_of_a_block_is_seen_from_both_sides() -> None:
    seen = 0
    for name in sorted(zone_names()):
        for moment in offset_changes(name):
            edge = round(moment / (1 << BLOCK_BITS)) << BLOCK_BITS
            if moment <= 0 or abs(moment - edge) > 2 * 86_400:
                continue
            seen += 1
            assert stretch_at(name, max(edge, moment)).start == moment, name
            assert stretch_at(name, min(edge, moment) - 1).end == moment, name
    assert seen > 100


@given(st.sampled_from(sorted(zone_names())), st.integers(0, 2**33))
@settings(max_examples=500, deadline=None)
def test_a_stretch_has_the_offset_that_zoneinfo_gives_and_true_edges(name: str, second: int) -> None:
    stretch = stretch_at(name, second)

    def offset(moment: int) -> int:
        shift = instant_to_local(name, moment * SECOND).utcoffset()
        assert shift is not None
        return int(shift.total_seconds())

    assert stretch.start <= second < stretch.end
    assert stretch.offset == offset(second) == offset(stretch.start) == offset(stretch.end - 1)
    assert stretch.offset_before == offset(stretch.start - 1)
    assert stretch.offset_after == offset(stretch.end)


# --- properties -------------------------------------------------------------------------------

ZONES = st.sampled_from(
    [
        "UTC",
        "America/New_York",
        "Europe/Berlin",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Africa/Casablanca",
        "America/Havana",
        "Asia/Kathmandu",
    ]
)
TEXTS = st.sampled_from(
    [
        "* * * * *",
        "*/15 * * * *",
        "7,*/20 1-3 * * *",
        "30 2 * * *",
        "0,30 0-3 * * *",
        "0 */2 * * *",
        "15 0 L * *",
        "45 1 * * SUN",
        "0 2 1W * *",
        "30 2 8-14 3 *",
        "30 1 13 * FRI",
        "0 0 29 2 *",
        "30 30 2 * * *",
        "*/20 59 1 * * *",
    ]
)
SCHEDULES = st.one_of(
    st.builds(cron, TEXTS, ZONES, st.sampled_from(list(DstGap)), st.sampled_from(list(DstOverlap))),
    st.builds(IntervalSchedule, st.integers(1, 40 * DAY), st.integers(0, 2**50)),
    st.builds(OneTimeSchedule, st.integers(0, 2**51)),
)
INSTANTS = st.integers(0, 4_200_000_000 * SECOND) | st.builds(
    lambda change, shift: change.at + shift,
    st.sampled_from(
        [
            change
            for zone in ("America/New_York", "Pacific/Apia", "Australia/Lord_Howe")
            for change in changes(zone, 0, 2_000_000_000 * SECOND)
        ]
    ),
    st.integers(-2 * HOUR, 2 * HOUR),
)


@given(SCHEDULES, INSTANTS)
@settings(max_examples=400, deadline=None)
def test_fires_increase_strictly_and_a_batch_is_the_same_as_one_by_one(schedule, after: Instant) -> None:  # type: ignore[no-untyped-def]
    batch = fires(schedule, after, None, 10)

    single, point = [], after
    while len(single) < 10 and (fire := next_fire(schedule, point)) is not None:
        single.append(fire)
        point = fire

    assert batch == single
    assert all(earlier < later for earlier, later in zip([after, *batch], batch, strict=False))


@given(SCHEDULES, INSTANTS, st.integers(0, 1000))
@settings(max_examples=400, deadline=None)
def test_starting_again_at_any_point_gives_the_same_fires(schedule, after: Instant, portion: int) -> None:  # type: ignore[no-untyped-def]
    following = next_fire(schedule, after)
    assume(following is not None)
    assert following is not None

    middle = after + (following - after - 1) * portion // 1000

    assert next_fire(schedule, middle) == following
    assert next_fire(schedule, following - 1) == following


@given(SCHEDULES, INSTANTS, st.integers(0, 3 * DAY), st.integers(0, 3 * DAY))
@settings(max_examples=300, deadline=None)
def test_splitting_a_range_splits_its_fires(schedule, first: Instant, left: int, right: int) -> None:  # type: ignore[no-untyped-def]
    middle, last = first + left, first + left + right
    whole = fires(schedule, first, last, 400)
    assume(len(whole) < 400)

    assert whole == fires(schedule, first, middle, 400) + fires(schedule, middle, last, 400)


@given(SCHEDULES, INSTANTS)
@settings(max_examples=400, deadline=None)
def test_previous_and_next_undo_each_other(schedule, point: Instant) -> None:  # type: ignore[no-untyped-def]
    following, preceding = next_fire(schedule, point), previous_fire(schedule, point)

    if following is not None:
        back = previous_fire(schedule, following)
        assert back is None or back <= point
        assert previous_fire(schedule, following + 1) == following
        if preceding is not None and preceding != back:
            assert back == point
    if preceding is not None:
        again = next_fire(schedule, preceding)
        assert again is None or again >= point
        assert next_fire(schedule, preceding - 1) == preceding


@given(TEXTS, st.integers(0, 4_000_000_000))
@settings(max_examples=300, deadline=None)
def test_in_utc_the_fires_repeat_after_400_years(text: str, second: int) -> None:
    schedule, shift = cron(text), 146_097 * DAY

    now, later = next_fire(schedule, second * SECOND), next_fire(schedule, second * SECOND + shift)

    assert now is not None
    assert later == now + shift


@given(st.sampled_from(["30 2 * * *", "0 0 * * *", "15 1 * * *", "45 23 * * *"]), ZONES, st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_a_fixed_time_fires_exactly_once_for_each_day_of_a_year(text: str, zone: str, year: int) -> None:
    first = at(f"200{year}-01-01 00:00") - 12 * HOUR
    schedule = cron(text, zone)

    found = fires(schedule, first, first + 365 * DAY, 500)

    assert abs(len(found) - 365) <= 1
    for earlier, later in pairwise(found):
        assert 22 * HOUR <= later - earlier <= 26 * HOUR


def test_the_rarest_date_is_found_in_five_milliseconds() -> None:
    schedule = cron("30 2 */28 2 MON#5", "America/New_York")
    times = []
    for number in range(5):
        begin = time.process_time()
        assert next_fire(schedule, at("2072-03-01 00:00") + number) is not None
        times.append(time.process_time() - begin)
    assert min(times) < 0.005
