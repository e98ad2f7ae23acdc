"""Recurrence rules: agreement with the library they come from, refusals, and speed."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from time import process_time

import pytest
from dateutil.rrule import rrulestr
from hypothesis import example, given, settings
from hypothesis import strategies as st

from duly.domain.errors import Invalid
from duly.domain.ids import new_id
from duly.domain.instants import from_rfc3339, to_datetime, to_rfc3339
from duly.domain.job import JobType, Timing, schedule_of
from duly.domain.rule import Rule, parse_rule
from duly.domain.schedule import DstGap, DstOverlap, Schedule, explain_fire, fires, next_fire, previous_fire
from duly.domain.schedule_lint import lint
from duly.domain.words import describe
from duly.domain.zones import load_zone

EPOCH = datetime(1970, 1, 1)
START = datetime(2024, 1, 31, 9, 30)
JOB = new_id(0, lambda bits: 0)


def reading(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(seconds=1)


def named(rule: Rule, first: datetime, last: datetime) -> list[datetime]:
    found: list[datetime] = []
    at = rule.at_or_after(reading(first))
    while at is not None and at <= reading(last):
        found.append(EPOCH + timedelta(seconds=at))
        at = rule.at_or_after(at + 1)
    return found


def parsed(text: str, start: datetime) -> Rule | None:
    """The rule, or None when it is one that never fires."""
    try:
        return parse_rule(text, reading(start), "UTC")
    except Invalid as refused:
        if refused.code != "DULY-E102":
            raise
        return None


def schedule(rule: str, zone: str = "UTC", start: str | None = "2026-01-01T09:00:00Z", **more: object) -> Schedule:
    start_at = None if start is None else from_rfc3339(start)
    made = schedule_of(Timing(type=JobType.RRULE, rule=rule, zone=zone, start_at=start_at, **more), JOB)  # type: ignore[arg-type]
    assert made is not None
    return made


def shown(found: list[int]) -> list[str]:
    return [to_rfc3339(at) for at in found]


numbers = st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True)
weekdays = st.lists(st.sampled_from(["MO", "TU", "WE", "TH", "FR", "SA", "SU"]), min_size=1, max_size=4, unique=True)


@st.composite
def rules(draw: st.DrawFn) -> str:
    freq = draw(st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY"]))
    parts = {"FREQ": freq}
    if draw(st.booleans()):
        parts["INTERVAL"] = str(draw(st.integers(1, 5)))
    if draw(st.booleans()):
        parts["BYMONTH"] = ",".join(map(str, draw(st.lists(st.integers(1, 12), min_size=1, max_size=4, unique=True))))
    if draw(st.booleans()):
        days = draw(weekdays)
        if freq in ("YEARLY", "MONTHLY") and draw(st.booleans()):
            days = [f"{draw(st.sampled_from([1, 2, 5, -1, -2]))}{day}" for day in days]
        parts["BYDAY"] = ",".join(days)
    elif freq in ("MONTHLY", "DAILY", "YEARLY") and draw(st.booleans()):
        parts["BYMONTHDAY"] = ",".join(
            map(str, draw(st.lists(st.sampled_from([1, 15, 29, 31, -1, -3]), min_size=1, max_size=3, unique=True)))
        )
    elif freq == "YEARLY" and draw(st.booleans()):
        parts[draw(st.sampled_from(["BYWEEKNO", "BYYEARDAY"]))] = ",".join(map(str, draw(st.sampled_from([[1, 20], [53], [-1]]))))
    if draw(st.booleans()):
        parts["BYHOUR"] = ",".join(map(str, sorted(draw(st.lists(st.integers(0, 23), min_size=1, max_size=3, unique=True)))))
    # The library counts positions in its first, partial week from the start on; the RFC counts in the whole week.
    if freq != "WEEKLY" and len(parts) > 2 and ("BYDAY" in parts or "BYMONTHDAY" in parts) and draw(st.booleans()):
        parts["BYSETPOS"] = ",".join(map(str, draw(st.sampled_from([[1], [-1], [1, -1], [2]]))))
    if draw(st.booleans()):
        parts["WKST"] = draw(st.sampled_from(["MO", "SU", "WE"]))
    if draw(st.booleans()):
        parts["COUNT"] = str(draw(st.integers(1, 30)))
    elif draw(st.booleans()):
        parts["UNTIL"] = "20270630T120000"
    return ";".join(f"{key}={value}" for key, value in parts.items())


@settings(max_examples=200, deadline=None)
@given(rules(), st.integers(0, 900))
def test_a_rule_names_what_the_library_names(text: str, skipped: int) -> None:
    start = START + timedelta(days=skipped % 40)
    # A leap year is among them; the library takes most of the time.
    last = start + timedelta(days=365 * 3)
    peer = rrulestr(text, dtstart=start)
    expected = list(peer.between(start, last, inc=True))
    rule = parsed(text, start)
    if rule is None:
        assert expected == []
        return

    first = start + timedelta(days=skipped)

    assert named(rule, start, last) == expected
    assert named(rule, first, last) == [moment for moment in expected if moment >= first]
    backwards = rule.at_or_before(reading(last))
    assert backwards == (reading(expected[-1]) if expected else None)


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=YEARLY;BYWEEKNO=1,53,-1;BYDAY=MO,SU",
        "FREQ=YEARLY;BYWEEKNO=1,53,-1;BYDAY=MO,SU;WKST=SU",
        "FREQ=YEARLY;BYYEARDAY=60,366,-1,-366",
        "FREQ=YEARLY;BYDAY=1MO,53TH,-1SU",
        "FREQ=MONTHLY;BYDAY=5FR,-2MO",
    ],
)
def test_years_of_one_shape_name_the_days_that_the_library_names(text: str) -> None:
    start = datetime(1970, 1, 1, 9, 30)
    rule = parse_rule(text, reading(start), "UTC")

    for first in (start, datetime(2090, 1, 1)):
        last = first + timedelta(days=40 * 365)
        assert named(rule, first, last) == list(rrulestr(text, dtstart=start).between(first, last, inc=True))


@pytest.mark.parametrize("freq", ["DAILY", "WEEKLY", "MONTHLY", "YEARLY"])
def test_periods_that_are_passed_over_cost_next_to_nothing(freq: str) -> None:
    rule = parse_rule(f"FREQ={freq};INTERVAL=999;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", reading(START), "UTC")
    began = process_time()

    assert named(rule, START, datetime(9990, 1, 1))
    assert process_time() - began < 0.8


def test_positions_choose_from_the_whole_week_even_the_first() -> None:
    rule = parse_rule("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=17;BYMINUTE=0", reading(datetime(2025, 12, 29)), "UTC")

    assert named(rule, datetime(2025, 12, 29), datetime(2026, 1, 17)) == [datetime(2026, 1, day, 17) for day in (2, 9, 16)]


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("", "KEY=VALUE"),
        ("FREQ", "KEY=VALUE"),
        ("BYDAY=MO", "no FREQ"),
        ("FREQ=HOURLY", "CRON"),
        ("FREQ=MINUTELY;INTERVAL=5", "INTERVAL"),
        ("FREQ=SECONDLY", "CRON"),
        ("FREQ=FORTNIGHTLY", "YEARLY"),
        ("FREQ=DAILY;FREQ=DAILY", "twice"),
        ("FREQ=DAILY;BYEASTER=0", "not a part"),
        ("FREQ=DAILY;INTERVAL=0", "from 1"),
        ("FREQ=DAILY;INTERVAL=99999", "from 1"),
        ("FREQ=DAILY;COUNT=0", "from 1"),
        ("FREQ=DAILY;COUNT=5;UNTIL=20270101", "contradict"),
        ("FREQ=DAILY;UNTIL=20271301", "not a time"),
        ("FREQ=DAILY;UNTIL=soon", "not a time"),
        ("FREQ=WEEKLY;BYDAY=XX", "not a weekday"),
        ("FREQ=WEEKLY;BYDAY=1MO", "MONTHLY or YEARLY"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", "does not go"),
        ("FREQ=MONTHLY;BYDAY=6MO", "more than five"),
        ("FREQ=MONTHLY;BYYEARDAY=1", "YEARLY only"),
        ("FREQ=MONTHLY;BYWEEKNO=1", "YEARLY only"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "no 0"),
        ("FREQ=MONTHLY;BYMONTHDAY=32", "from -31 to 31"),
        ("FREQ=DAILY;BYHOUR=24", "from 0 to 23"),
        ("FREQ=DAILY;BYHOUR=١", "from 0 to 23"),
        ("FREQ=DAILY;WKST=1", "WKST"),
        ("FREQ=DAILY;BYSETPOS=1", "chooses from"),
        ("FREQ=DAILY;BYHOUR=" + ",".join(map(str, range(24))) + ";BYMINUTE=0,10,20,30,40", "96 times a day"),
        ("FREQ=DAILY;BYMONTH=" + "1," * 600 + "1", "characters long"),
        ("FREQ=DAILY\nDTSTART=20260101", "unknown"),
    ],
)
def test_a_bad_rule_is_refused_with_a_way_out(text: str, about: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_rule(text, reading(START), "UTC")

    assert (refused.value.code, refused.value.field) == ("DULY-E134", "schedule")
    assert refused.value.hint
    assert about.lower() in str(refused.value).lower()


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="FREQ=DAILYMONTHWK;BYSETPOSCUUNTIL0123456789,+-TZ:\x00é ", max_size=80), st.integers(0, 5_000_000_000))
def test_whatever_is_written_is_a_rule_or_refused(text: str, start: int) -> None:
    with suppress(Invalid):
        parse_rule(f"FREQ=YEARLY;{text}", start, "Europe/Berlin")


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=YEARLY;BYMONTH=4;BYMONTHDAY=31",
        "FREQ=MONTHLY;BYMONTHDAY=31;BYMONTH=6",
        "FREQ=DAILY;UNTIL=20200101",
        "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=5",
        "FREQ=YEARLY;BYYEARDAY=366;INTERVAL=100;BYMONTH=1",
    ],
)
def test_a_rule_that_never_fires_is_refused_soon(text: str) -> None:
    began = process_time()

    with pytest.raises(Invalid) as refused:
        parse_rule(text, reading(START), "UTC")

    assert refused.value.code == "DULY-E102"
    assert process_time() - began < 2


@pytest.mark.parametrize(
    "text", ["FREQ=DAILY", "FREQ=WEEKLY;BYDAY=MO,FR", "FREQ=MONTHLY;BYDAY=-1FR", "FREQ=YEARLY", "FREQ=DAILY;INTERVAL=3;BYHOUR=1,2,3"]
)
def test_a_rule_that_began_30_years_ago_answers_in_milliseconds(text: str) -> None:
    made = schedule(text, start="1996-01-01T00:00:00Z")
    next_fire(made, from_rfc3339("2020-01-01T00:00:00Z"))
    began = process_time()

    for day in range(100):
        next_fire(made, from_rfc3339("2026-06-01T00:00:00Z") + day * 86_400_000_000)

    assert process_time() - began < 0.5


def test_the_start_is_a_reading_of_the_zone_and_a_rule_keeps_it_through_the_clock_changes() -> None:
    made = schedule("FREQ=WEEKLY", "Europe/Berlin", "2026-03-20T08:00:00Z")

    assert shown(fires(made, 0, None, 3)) == ["2026-03-20T08:00:00Z", "2026-03-27T08:00:00Z", "2026-04-03T07:00:00Z"]
    assert previous_fire(made, from_rfc3339("2026-03-27T08:00:00Z")) == from_rfc3339("2026-03-20T08:00:00Z")


@pytest.mark.parametrize(
    ("gap", "expected", "note"),
    [
        (DstGap.RUN_AFTER, "2026-03-29T01:00:00Z", "02:30 does not exist on this day; runs at 03:00"),
        (DstGap.SHIFT, "2026-03-29T01:30:00Z", "02:30 does not exist on this day; moved to 03:30"),
        (DstGap.SKIP, "2026-03-30T00:30:00Z", None),
    ],
)
def test_a_time_that_does_not_exist_follows_the_policy(gap: DstGap, expected: str, note: str | None) -> None:
    made = schedule("FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "Europe/Berlin", dst_gap=gap)

    found = next_fire(made, from_rfc3339("2026-03-28T12:00:00Z"))

    assert found == from_rfc3339(expected)
    assert explain_fire(made, found or 0) == note


def test_a_time_that_comes_twice_follows_the_policy() -> None:
    after, until = from_rfc3339("2026-10-24T12:00:00Z"), from_rfc3339("2026-10-25T12:00:00Z")

    found = {
        policy: shown(fires(schedule("FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "Europe/Berlin", dst_overlap=policy), after, until, 9))
        for policy in DstOverlap
    }

    first, second = "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"
    assert found == {DstOverlap.FIRST: [first], DstOverlap.SECOND: [second], DstOverlap.BOTH: [first, second]}


def test_until_is_local_or_utc_and_a_date_holds_all_day() -> None:
    def last(until: str) -> str:
        return shown(fires(schedule(f"FREQ=DAILY;BYHOUR=20;UNTIL={until}", "America/New_York", "2026-01-01T05:00:00Z"), 0, None, 99))[-1]

    assert last("20260110") == "2026-01-11T01:00:00Z"
    assert last("20260110T200000") == "2026-01-11T01:00:00Z"
    assert last("20260111T010000Z") == "2026-01-11T01:00:00Z"
    assert last("20260111T005959Z") == "2026-01-10T01:00:00Z"


def test_a_count_ends_the_schedule() -> None:
    made = schedule("FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=3")

    assert shown(fires(made, 0, None, 99)) == ["2026-01-31T09:00:00Z", "2026-02-28T09:00:00Z", "2026-03-31T09:00:00Z"]
    assert next_fire(made, from_rfc3339("2026-03-31T09:00:00Z")) is None


def test_without_a_start_a_rule_counts_from_1970() -> None:
    made = schedule("FREQ=DAILY;INTERVAL=2", "Europe/Berlin", None)

    assert shown(fires(made, from_rfc3339("2026-01-01T00:00:00Z"), None, 2)) == ["2026-01-02T23:00:00Z", "2026-01-04T23:00:00Z"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9", "Every month on the last Friday at 09:00 Berlin time"),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;BYHOUR=8,16", "Every 2 weeks on Monday and Wednesday at 08:00 and 16:00 Berlin time"),
        ("FREQ=MONTHLY;BYMONTHDAY=15,-1;BYHOUR=0;COUNT=12", "Every month on the last day and the 15th at 00:00 Berlin time, 12 times"),
        (
            "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=17",
            "Every month on Monday, Tuesday, Wednesday, Thursday and Friday, the last of these at 17:00 Berlin time",
        ),
        (
            "FREQ=YEARLY;BYMONTH=1;BYMONTHDAY=1;BYHOUR=0;UNTIL=20301231",
            "Every year on the 1st in January at 00:00 Berlin time, until 2030-12-31 23:59",
        ),
    ],
)
def test_a_rule_in_words(text: str, words: str) -> None:
    assert describe(schedule(text, "Europe/Berlin", None)) == words


def test_the_clocks_are_linted_as_for_cron() -> None:
    made = schedule("FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "Europe/Berlin", dst_gap=DstGap.SKIP)

    assert lint(made) == ["02:30 does not exist when the clocks go forward, and dstGap=skip leaves the run out"]


# ---------------------------------------------------------------- weekdays with and without a number


def union(text: str, start: datetime, last: datetime) -> list[datetime]:
    """The readings of a MONTHLY or YEARLY rule with BYDAY, day by day from what the RFC says and without a library."""
    parts = dict(part.split("=") for part in text.split(";"))
    wanted = [(int(day[:-2] or 0), ["MO", "TU", "WE", "TH", "FR", "SA", "SU"].index(day[-2:])) for day in parts["BYDAY"].split(",")]
    months = [int(month) for month in parts.get("BYMONTH", "1,2,3,4,5,6,7,8,9,10,11,12").split(",")]
    is_monthly = parts["FREQ"] == "MONTHLY" or "BYMONTH" in parts
    hours = [int(hour) for hour in parts.get("BYHOUR", str(start.hour)).split(",")]

    def is_named(day: datetime) -> bool:
        first = day.replace(day=1) if is_monthly else day.replace(month=1, day=1)
        following = (first + timedelta(days=31)).replace(day=1) if is_monthly else first.replace(year=first.year + 1)
        from_first, from_last = (day - first).days // 7 + 1, -(((following - day).days - 1) // 7 + 1)
        return day.month in months and any(weekday == day.weekday() and nth in (0, from_first, from_last) for nth, weekday in wanted)

    found: list[datetime] = []
    period: dict[int, list[datetime]] = {}
    day = datetime(start.year, 1, 1)
    while day.year <= last.year:
        nth = day.year - start.year if parts["FREQ"] == "YEARLY" else (day.year - start.year) * 12 + day.month - start.month
        if nth >= 0 and nth % int(parts.get("INTERVAL", 1)) == 0 and is_named(day):
            period.setdefault(nth, []).extend(day.replace(hour=hour, minute=start.minute) for hour in hours)
        day += timedelta(days=1)
    for readings in period.values():
        positions = parts.get("BYSETPOS")
        if positions is not None:
            chosen = [position - 1 if position > 0 else len(readings) + position for position in map(int, positions.split(","))]
            readings = [moment for nth, moment in enumerate(readings) if nth in chosen]
        found += readings
    until = datetime.strptime(parts.get("UNTIL", "99981231T000000"), "%Y%m%dT%H%M%S")
    found = [moment for moment in found if start <= moment <= min(last, until)]
    return found[: int(parts.get("COUNT", 1_000_000))]


@st.composite
def mixed(draw: st.DrawFn) -> str:
    freq = draw(st.sampled_from(["MONTHLY", "YEARLY"]))
    numbered = st.builds(lambda nth, day: f"{nth}{day}", st.sampled_from([1, 2, 5, -1, -2]), st.sampled_from(["MO", "TU", "FR", "SU"]))
    days = draw(weekdays) + draw(st.lists(numbered, min_size=1, max_size=3, unique=True))
    parts = {"FREQ": freq, "BYDAY": ",".join(draw(st.permutations(days))), "INTERVAL": str(draw(st.sampled_from([1, 1, 2, 5])))}
    if draw(st.booleans()):
        parts["BYMONTH"] = ",".join(map(str, draw(st.lists(st.integers(1, 12), min_size=1, max_size=4, unique=True))))
    if draw(st.booleans()):
        parts["BYHOUR"] = ",".join(map(str, sorted(draw(st.lists(st.integers(0, 23), min_size=1, max_size=2, unique=True)))))
    if draw(st.booleans()):
        parts["BYSETPOS"] = ",".join(map(str, draw(st.sampled_from([[1], [-1], [1, -1], [2, 3], [-7]]))))
    if draw(st.booleans()):
        parts["COUNT"] = str(draw(st.integers(1, 30)))
    elif draw(st.booleans()):
        parts["UNTIL"] = "20250630T120000"
    return ";".join(f"{key}={value}" for key, value in parts.items())


@settings(max_examples=80, deadline=None)
@given(mixed(), st.integers(0, 60))
@example("FREQ=MONTHLY;BYDAY=MO,FR,-1FR;BYHOUR=9", 0)
@example("FREQ=MONTHLY;BYDAY=MO,TU,1TU", 0)
@example("FREQ=MONTHLY;BYDAY=MO,-1FR;BYSETPOS=-1", 0)
def test_weekdays_with_and_without_a_number_are_a_union(text: str, later: int) -> None:
    start = START + timedelta(days=later)
    last = start + timedelta(days=800)
    expected = union(text, start, last)

    rule = parsed(text, start)

    assert ([] if rule is None else named(rule, start, last)) == expected
    if rule is not None and expected:
        assert rule.at_or_before(reading(last)) == reading(expected[-1])


# ---------------------------------------------------------------- what COUNT counts


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("2026-01-01T09:00:00Z", ["2026-01-01T09:00:00Z", "2026-01-02T09:00:00Z"]),
        ("2026-01-01T09:00:00.25Z", ["2026-01-02T09:00:00Z", "2026-01-03T09:00:00Z"]),
        ("2025-12-31T23:59:59.999999Z", ["2026-01-01T23:59:59Z", "2026-01-02T23:59:59Z"]),
    ],
)
def test_a_start_in_the_midst_of_a_second_costs_a_count_nothing(start: str, expected: list[str]) -> None:
    assert shown(fires(schedule("FREQ=DAILY;COUNT=2", start=start), 0, None, 9)) == expected


@pytest.mark.parametrize("text", ["FREQ=DAILY;COUNT=2", "FREQ=DAILY;BYHOUR=2;BYMINUTE=0,15,45;COUNT=2", "FREQ=DAILY;BYHOUR=3;COUNT=2"])
@pytest.mark.parametrize("overlap", list(DstOverlap))
@pytest.mark.parametrize("start", ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T01:30:00.5Z"])
def test_a_start_in_an_hour_that_comes_twice_costs_a_count_nothing(text: str, overlap: DstOverlap, start: str) -> None:
    uncounted = schedule(text.removesuffix(";COUNT=2"), "Europe/Berlin", start, dst_overlap=overlap)
    expected = fires(uncounted, 0, None, 5)

    found = fires(schedule(text, "Europe/Berlin", start, dst_overlap=overlap), 0, None, 5)

    # With `both` a time counts once and fires twice.
    readings = list(dict.fromkeys(to_datetime(at).astimezone(load_zone("Europe/Berlin")).replace(tzinfo=None, fold=0) for at in expected))
    last = [at for at in expected if to_datetime(at).astimezone(load_zone("Europe/Berlin")).replace(tzinfo=None, fold=0) in readings[:2]]
    assert found == last
