"""Calendars against a slow, plain second opinion that looks at every minute, and the words they are explained with."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from time import process_time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.domain.calendars import WEEK, Calendar, Holiday, OnExcluded, Weekday, WeeklyWindow, Window, check_calendar
from duly.domain.choices import DstOverlap
from duly.domain.cron import parse_cron
from duly.domain.errors import Invalid
from duly.domain.ids import new_id
from duly.domain.instants import DAY, HOUR, MINUTE, Instant, from_datetime, from_rfc3339, to_datetime, to_rfc3339
from duly.domain.job import JobType, Timing, schedule_of
from duly.domain.schedule import (
    CalendarSchedule,
    CronSchedule,
    IntervalSchedule,
    OneTimeSchedule,
    Schedule,
    excluded,
    excluded_by,
    explain_fire,
    fires,
    is_fire,
    next_fire,
    previous_fire,
)
from duly.domain.words import describe
from duly.domain.zones import changes
from duly.verify.oracle import zone_of
from tests.domain.moved_by_probes import next_moved, previous_moved

WORKDAYS = (Weekday.MON, Weekday.TUE, Weekday.WED, Weekday.THU, Weekday.FRI)
DE = Calendar(name="de", version=1, business_days=WORKDAYS, holidays=(Holiday(day=date(2026, 12, 25), name="Christmas Day"),))


def at(text: str) -> Instant:
    return from_rfc3339(text)


def cron(text: str, zone: str = "UTC", **more: Instant) -> CronSchedule:
    return CronSchedule(parse_cron(text), zone, **more)


def shown(found: list[Instant]) -> list[str]:
    return [to_rfc3339(instant) for instant in found]


# ---------------------------------------------------------------- the second opinion


def day_is_closed(calendar: Calendar, zone: str, instant: Instant) -> bool:
    day = to_datetime(instant).astimezone(zone_of(calendar.zone or zone)).date()
    if calendar.business_days is not None and WEEK[day.weekday()] not in calendar.business_days:
        return True
    return any(holiday.day == day for holiday in calendar.holidays)


def is_in_a_window(calendar: Calendar, zone: str, instant: Instant) -> bool:
    if any(window.start <= instant < window.end for window in calendar.windows):
        return True
    local = to_datetime(instant).astimezone(zone_of(calendar.zone or zone))
    minute = local.hour * 60 + local.minute
    today, yesterday = WEEK[local.weekday()], WEEK[(local.weekday() - 1) % 7]
    for weekly in calendar.weekly:
        if weekly.start < weekly.end:
            if today in weekly.days and weekly.start <= minute < weekly.end:
                return True
        elif (today in weekly.days and minute >= weekly.start) or (yesterday in weekly.days and minute < weekly.end):
            return True
    return False


def opinion(schedule: CalendarSchedule, first: Instant, minutes: int) -> list[Instant]:
    """The fires of the window, from the fires of the base alone."""
    zone = schedule.zone
    nominal = fires(schedule.base, first - 42 * DAY, first + minutes * MINUTE + 42 * DAY, 1_000_000)

    def closed(instant: Instant) -> bool:
        return any(day_is_closed(calendar, zone, instant) for calendar in schedule.calendars)

    def windowed(instant: Instant) -> bool:
        return any(is_in_a_window(calendar, zone, instant) for calendar in schedule.calendars)

    found: set[Instant] = set()
    for fire in nominal:
        to = fire
        if closed(fire):
            if schedule.on_excluded is OnExcluded.SKIP:
                continue
            step = timedelta(days=1 if schedule.on_excluded is OnExcluded.NEXT_BUSINESS_DAY else -1)
            local = to_datetime(fire).astimezone(zone_of(zone)).replace(tzinfo=None)
            for _ in range(40):
                local += step
                to = earliest(zone, local)
                if not closed(to):
                    break
            else:
                continue
        if not windowed(to):
            found.add(to)
    return sorted(instant for instant in found if first <= instant < first + minutes * MINUTE)


def earliest(zone: str, local: datetime) -> Instant:
    """The first instant whose reading is this one; when it does not exist, the first after the gap."""
    exact = from_datetime(local.replace(tzinfo=zone_of(zone), fold=0))
    if to_datetime(exact).astimezone(zone_of(zone)).replace(tzinfo=None) == local:
        return exact
    minute = exact - 3 * HOUR
    while to_datetime(minute).astimezone(zone_of(zone)).replace(tzinfo=None) < local:
        minute += MINUTE
    return minute


ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Santiago"]
# Each window holds a change of the clocks somewhere.
FIRSTS = ["2026-03-01T00:00:00Z", "2026-03-22T00:00:00Z", "2026-10-18T00:00:00Z", "2026-03-30T00:00:00Z", "2026-08-30T00:00:00Z"]
CRONS = ["30 2 * * *", "0 0 * * *", "*/30 * * * *", "15 1,2,3 * * *", "0 12 * * SAT", "59 23 L * *", "0 9 1,15 * *", "5 0 * * 7"]
DAYS = 18


@st.composite
def calendars(draw: st.DrawFn, first: Instant, name: str) -> Calendar:
    start = to_datetime(first).date()
    days = draw(st.lists(st.integers(-3, DAYS + 3), max_size=5, unique=True))
    windows = draw(st.lists(st.tuples(st.integers(0, DAYS * 1440), st.integers(1, 4000)), max_size=4))
    weekly = draw(st.lists(st.tuples(st.sampled_from(WEEK), st.integers(0, 47), st.integers(1, 48)), max_size=2))
    return Calendar(
        name=name,
        version=1,
        zone=draw(st.sampled_from([None, None, *ZONES])),
        business_days=draw(st.sampled_from([None, WORKDAYS, (Weekday.SUN, Weekday.MON, Weekday.TUE), (Weekday.WED,)])),
        holidays=tuple(Holiday(day=start + timedelta(days=day)) for day in days),
        windows=tuple(Window(start=first + begin * MINUTE, end=first + (begin + length) * MINUTE) for begin, length in windows),
        weekly=tuple(WeeklyWindow(days=(day,), start=begin * 30, end=end * 30) for day, begin, end in weekly if begin != end),
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[CalendarSchedule, Instant]:
    first = at(draw(st.sampled_from(FIRSTS)))
    base = draw(
        st.one_of(
            st.builds(cron, st.sampled_from(CRONS), st.sampled_from(ZONES)),
            st.builds(lambda every: IntervalSchedule(every=every * MINUTE, anchor=first - 41 * DAY), st.sampled_from([45, 90, 1440, 1500])),
        )
    )
    used = tuple(draw(calendars(first, f"c{nth}")) for nth in range(draw(st.integers(1, 2))))
    mode = draw(st.sampled_from(OnExcluded))
    return CalendarSchedule(base, used, mode), first


@settings(max_examples=60, deadline=None)
@given(cases())
def test_the_fires_are_those_of_the_second_opinion(case: tuple[CalendarSchedule, Instant]) -> None:
    schedule, first = case
    until = first + DAYS * DAY

    expected = opinion(schedule, first, DAYS * 1440)

    assert fires(schedule, first - 1, until - 1, 100_000) == expected
    backwards: list[Instant] = []
    before: Instant | None = until
    while (before := previous_fire(schedule, before)) is not None and before >= first:
        backwards.append(before)
    assert backwards[::-1] == expected
    for fire in expected[:3]:
        assert is_fire(schedule, fire)
        assert not is_fire(schedule, fire + 1)
        explain_fire(schedule, fire)


FAR_ZONES = [*ZONES, "Asia/Tokyo", "Pacific/Apia", "Pacific/Kiritimati", "Pacific/Marquesas", "America/St_Johns", "America/Havana"]
SELDOM = ["45 2 L * *", "16 3 29 2 *", "30 23 * * SAT", "0 0 1 * *", "5 0 31 * *", "*/15 3 * * SUN", "59 12 25 12 *", "0 9 1-7 * MON"]


@st.composite
def moving(draw: st.DrawFn) -> tuple[CalendarSchedule, Instant]:
    zone, first = draw(st.sampled_from(FAR_ZONES)), at("1975-01-01T00:00:00Z") + draw(st.integers(0, 60 * 365)) * DAY
    holidays = draw(st.lists(st.tuples(st.integers(-30, 400), st.integers(1, 45)), max_size=3))
    start = to_datetime(first).date()
    used = tuple(
        Calendar(
            name=f"c{nth}",
            version=draw(st.integers(1, 1_000_000)),
            zone=draw(st.sampled_from([None, *FAR_ZONES])),
            business_days=draw(st.sampled_from([None, WORKDAYS, (Weekday.SUN, Weekday.TUE, Weekday.THU), (Weekday.WED,)])),
            holidays=tuple(Holiday(day=start + timedelta(days=day + more)) for day, run in holidays[nth : nth + 2] for more in range(run)),
            weekly=(WeeklyWindow(days=(Weekday.MON, Weekday.TUE), start=0, end=draw(st.integers(60, 900))),) if draw(st.booleans()) else (),
        )
        for nth in range(draw(st.integers(1, 3)))
    )
    base = draw(
        st.one_of(
            st.builds(cron, st.sampled_from([*SELDOM, *CRONS]), st.just(zone)),
            st.builds(lambda text: CronSchedule(parse_cron(text), zone, overlap=DstOverlap.BOTH), st.sampled_from(["30 * * * *", *CRONS])),
            st.builds(lambda days: OneTimeSchedule(first + days * DAY), st.integers(0, 90)),
        )
    )
    return CalendarSchedule(base, used, draw(st.sampled_from([OnExcluded.NEXT_BUSINESS_DAY, OnExcluded.PREVIOUS_BUSINESS_DAY]))), first


@settings(max_examples=50, deadline=None)
@given(moving(), st.integers(0, 3))
def test_the_fires_that_move_are_those_that_probing_every_quarter_finds(case: tuple[CalendarSchedule, Instant], nearby: int) -> None:
    schedule, first = case
    if isinstance(schedule.base, CronSchedule) and nearby and (found := changes(schedule.base.zone, first, first + 366 * DAY)):
        first = found[0].at - nearby * DAY

    after: Instant | None = first
    for _ in range(6):
        assert after is not None
        expected = next_moved(schedule, after)
        assert next_fire(schedule, after) == expected
        if expected is None:
            break
        explain_fire(schedule, expected)
        after = expected

    before: Instant | None = after
    for _ in range(6):
        assert before is not None
        expected = previous_moved(schedule, before)
        assert previous_fire(schedule, before) == expected
        if expected is None:
            break
        before = expected


@settings(max_examples=100, deadline=None)
@given(cases(), st.integers(0, DAYS * 1440))
def test_what_is_excluded_has_a_reason_and_what_is_not_has_none(case: tuple[CalendarSchedule, Instant], minute: int) -> None:
    schedule, first = case
    instant = first + minute * MINUTE

    reason = excluded_by(schedule, instant)

    is_excluded = any(
        day_is_closed(calendar, schedule.zone, instant) or is_in_a_window(calendar, schedule.zone, instant)
        for calendar in schedule.calendars
    )
    assert (reason is not None) is is_excluded


# ---------------------------------------------------------------- by hand


def test_a_holiday_is_left_out_or_moved() -> None:
    base = cron("30 2 * * *", "Europe/Berlin")
    after, until = at("2026-12-23T12:00:00Z"), at("2026-12-29T12:00:00Z")

    found = {mode: shown(fires(CalendarSchedule(base, (DE,), mode), after, until, 99)) for mode in OnExcluded}

    week = ["2026-12-24T01:30:00Z", "2026-12-28T01:30:00Z", "2026-12-29T01:30:00Z"]
    assert found == dict.fromkeys(OnExcluded, week)


def test_a_moved_fire_says_where_it_comes_from() -> None:
    schedule = CalendarSchedule(cron("0 9 25 * *", "Europe/Berlin"), (DE,), OnExcluded.NEXT_BUSINESS_DAY)
    (fire,) = fires(schedule, at("2026-12-01T00:00:00Z"), None, 1)

    assert to_rfc3339(fire) == "2026-12-28T08:00:00Z"
    assert explain_fire(schedule, fire) == "moved from Fri 25 Dec: Fri 25 Dec 2026 is a holiday, Christmas Day (calendar de)"
    assert excluded(schedule, at("2026-12-01T00:00:00Z"), fire, 9) == [
        (at("2026-12-25T08:00:00Z"), "Fri 25 Dec 2026 is a holiday, Christmas Day (calendar de)")
    ]


def test_fires_that_meet_are_one() -> None:
    schedule = CalendarSchedule(cron("0 9 * * FRI-SUN,MON"), (DE,), OnExcluded.NEXT_BUSINESS_DAY)

    found = fires(schedule, at("2026-11-06T00:00:00Z"), at("2026-11-10T00:00:00Z"), 9)

    assert shown(found) == ["2026-11-06T09:00:00Z", "2026-11-09T09:00:00Z"]
    assert (
        explain_fire(schedule, found[1]) == "moved from Sat 07 Nov: Sat 07 Nov 2026 is no business day (calendar de); one run with 1 more"
    )


@pytest.mark.parametrize(
    ("instant", "reason"),
    [
        ("2026-12-25T12:00:00Z", "Fri 25 Dec 2026 is a holiday, Christmas Day (calendar de)"),
        ("2026-12-26T12:00:00Z", "Sat 26 Dec 2026 is no business day (calendar de)"),
        ("2026-12-22T10:30:00Z", "it lies in the window new disks until 2026-12-22T11:00:00Z (calendar ops)"),
        ("2026-12-21T03:59:00Z", "it lies in a weekly window on Mon (calendar ops)"),
        ("2026-12-21T04:00:00Z", None),
        ("2026-12-22T11:00:00Z", None),
    ],
)
def test_the_reason_names_the_calendar(instant: str, reason: str | None) -> None:
    ops = Calendar(
        name="ops",
        version=3,
        windows=(Window(start=at("2026-12-22T10:00:00Z"), end=at("2026-12-22T11:00:00Z"), name="new disks"),),
        weekly=(WeeklyWindow(days=(Weekday.MON,), start=120, end=240),),
    )

    assert excluded_by(CalendarSchedule(cron("* * * * *"), (DE, ops)), at(instant)) == reason
    assert excluded_by(cron("* * * * *"), at(instant)) is None


def test_bounds_hold_for_moved_fires_too() -> None:
    base = cron("0 9 * * SAT", end_at=at("2026-11-08T00:00:00Z"))

    assert next_fire(CalendarSchedule(base, (DE,), OnExcluded.NEXT_BUSINESS_DAY), at("2026-11-06T12:00:00Z")) is None
    assert next_fire(CalendarSchedule(base, (DE,), OnExcluded.PREVIOUS_BUSINESS_DAY), at("2026-11-05T12:00:00Z")) == at(
        "2026-11-06T09:00:00Z"
    )


def test_a_one_time_job_is_moved_or_never_fires() -> None:
    once = OneTimeSchedule(at("2026-12-25T08:00:00Z"))

    assert next_fire(CalendarSchedule(once, (DE,)), 0) is None
    assert next_fire(CalendarSchedule(once, (DE,), OnExcluded.NEXT_BUSINESS_DAY), 0) == at("2026-12-28T08:00:00Z")
    assert next_fire(CalendarSchedule(once, (DE,), OnExcluded.PREVIOUS_BUSINESS_DAY), 0) == at("2026-12-24T08:00:00Z")


ALWAYS_SUNDAY = CalendarSchedule(cron("0 9 * * SUN"), (DE,))
IN_THE_WINDOW = CalendarSchedule(
    cron("0 3 * * *", "Europe/Berlin"), (Calendar(name="w", version=1, weekly=(WeeklyWindow(days=WEEK, start=120, end=240),)),)
)


NEVER_OPEN = (
    Calendar(name="wed", version=1, zone="America/New_York", business_days=(Weekday.WED,)),
    Calendar(name="sun", version=1, business_days=(Weekday.SUN, Weekday.MON)),
)


@pytest.mark.parametrize(
    "schedule",
    [
        ALWAYS_SUNDAY,
        IN_THE_WINDOW,
        CalendarSchedule(IN_THE_WINDOW.base, IN_THE_WINDOW.calendars, OnExcluded.NEXT_BUSINESS_DAY),
        CalendarSchedule(cron("*/15 * * * *"), NEVER_OPEN, OnExcluded.NEXT_BUSINESS_DAY),
        CalendarSchedule(cron("*/15 * * * *"), NEVER_OPEN, OnExcluded.PREVIOUS_BUSINESS_DAY),
    ],
)
def test_what_can_never_fire_is_found_out_soon(schedule: Schedule) -> None:
    began = process_time()

    assert next_fire(schedule, at("2026-01-01T00:00:00Z")) is None
    assert previous_fire(schedule, at("2026-01-01T00:00:00Z")) is None
    assert process_time() - began < 5


def test_a_busy_schedule_leaps_over_a_long_window() -> None:
    closed = Calendar(name="c", version=1, windows=(Window(start=at("2026-01-01T00:00:00Z"), end=at("2030-01-01T00:00:00Z")),))
    schedule = CalendarSchedule(CronSchedule(parse_cron("* * * * * *", seconds=True)), (closed,))
    began = process_time()

    assert next_fire(schedule, at("2026-01-01T00:00:00Z")) == at("2030-01-01T00:00:00Z")
    assert previous_fire(schedule, at("2029-12-31T00:00:00Z")) == at("2025-12-31T23:59:59Z")
    assert process_time() - began < 0.2


TOKYO = Calendar(name="tk", version=1, zone="Asia/Tokyo", business_days=WORKDAYS)


@pytest.mark.parametrize("text", ["45 2 L * *", "16 3 29 2 *", "30 2 * * *"])
@pytest.mark.parametrize("mode", list(OnExcluded))
def test_a_calendar_in_another_zone_is_asked_soon(text: str, mode: OnExcluded) -> None:
    schedule = CalendarSchedule(cron(text, "Europe/Berlin"), (TOKYO,), mode)
    began = process_time()

    assert len(fires(schedule, at("2026-01-01T00:00:00Z"), None, 200)) == 200
    assert process_time() - began < 1


def test_windows_that_take_up_every_day_are_found_out_soon() -> None:
    always = Calendar(name="w", version=1, zone="Asia/Tokyo", weekly=(WeeklyWindow(days=WEEK, start=0, end=1440),))
    schedule = CalendarSchedule(cron("*/15 * * * *", "Europe/Berlin"), (always,), OnExcluded.NEXT_BUSINESS_DAY)
    began = process_time()

    assert next_fire(schedule, at("2026-01-01T00:00:00Z")) is None
    assert process_time() - began < 0.5


def test_a_fire_is_moved_by_forty_days_at_most() -> None:
    def closed_for(days: int) -> Calendar:
        return Calendar(name="c", version=1, holidays=tuple(Holiday(day=date(2026, 1, 1) + timedelta(days=day)) for day in range(days)))

    once = OneTimeSchedule(at("2026-01-01T08:00:00Z"))

    assert next_fire(CalendarSchedule(once, (closed_for(40),), OnExcluded.NEXT_BUSINESS_DAY), 0) == at("2026-02-10T08:00:00Z")
    assert next_fire(CalendarSchedule(once, (closed_for(41),), OnExcluded.NEXT_BUSINESS_DAY), 0) is None


def test_what_fires_all_day_is_not_moved() -> None:
    with pytest.raises(Invalid) as refused:
        CalendarSchedule(cron("* * * * *"), (DE,), OnExcluded.NEXT_BUSINESS_DAY)

    assert (refused.value.code, refused.value.field) == ("DULY-E106", "onExcluded")


@pytest.mark.parametrize(
    ("calendar", "field"),
    [
        (Calendar(name="two words"), "name"),
        (Calendar(name="x", zone="Mars/Olympus"), "timezone"),
        (Calendar(name="x", business_days=()), "businessDays"),
        (Calendar(name="x", holidays=(Holiday(day=date(1900, 1, 1)),)), "holidays[0].date"),
        (Calendar(name="x", holidays=tuple(Holiday(day=date(2026, 1, 1)) for _ in range(2001))), "holidays"),
        (Calendar(name="x", windows=(Window(start=5, end=5),)), "windows[0].end"),
        (Calendar(name="x", weekly=(WeeklyWindow(days=(), start=0, end=60),)), "weekly[0]"),
        (Calendar(name="x", weekly=(WeeklyWindow(days=WEEK, start=60, end=60),)), "weekly[0]"),
    ],
)
def test_what_cannot_be_a_calendar_is_refused(calendar: Calendar, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_calendar(calendar)

    assert refused.value.field == field
    assert refused.value.hint


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [(1320, 0, "The end of a day is written 24:00"), (0, 0, "24:00"), (1440, 60, "The beginning of a day is written 00:00")],
)
def test_the_end_of_a_day_has_a_time_of_its_own(start: int, end: int, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_calendar(Calendar(name="x", weekly=(WeeklyWindow(days=WEEK, start=start, end=end),)))

    assert (refused.value.code, refused.value.field) == ("DULY-E135", "weekly[0]")
    assert words in str(refused.value)
    check_calendar(Calendar(name="x", weekly=(WeeklyWindow(days=WEEK, start=0, end=1440),)))


def test_a_calendar_survives_the_store() -> None:
    calendar = Calendar(
        name="x", version=2, zone="UTC", business_days=WORKDAYS, holidays=DE.holidays, weekly=(WeeklyWindow(days=WEEK, start=0, end=1440),)
    )

    assert msgspec.json.decode(msgspec.json.encode(calendar), type=Calendar) == calendar


def test_the_words_name_the_calendars() -> None:
    base = cron("30 2 * * *", "Europe/Berlin")

    assert describe(CalendarSchedule(base, (DE,))) == "Every day at 02:30 Berlin time, except as excluded by de"
    assert (
        describe(CalendarSchedule(base, (DE,), OnExcluded.NEXT_BUSINESS_DAY))
        == "Every day at 02:30 Berlin time, or on the next business day by de"
    )


def test_the_second_opinion_knows_a_gap() -> None:
    assert earliest("Europe/Berlin", datetime(2026, 3, 29, 2, 30)) == from_datetime(datetime(2026, 3, 29, 1, tzinfo=UTC))


def test_a_one_time_job_is_not_moved_out_of_its_bounds() -> None:
    timing = Timing(
        type=JobType.ONE_TIME,
        run_at=at("2026-12-25T08:00:00Z"),
        end_at=at("2026-12-26T00:00:00Z"),
        calendars=(DE,),
        on_excluded=OnExcluded.NEXT_BUSINESS_DAY,
    )
    schedule = schedule_of(timing, new_id(0, lambda bits: 0))

    assert schedule is not None
    assert next_fire(schedule, 0) is None
