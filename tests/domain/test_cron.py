"""Reading and printing cron expressions, and the days they choose."""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from duly.domain.cron import Cron, parse_cron
from duly.domain.errors import Invalid

EPOCH = datetime(1970, 1, 1)


def days_of(text: str, year: int, month: int) -> list[int]:
    """The days of one month on which the expression fires."""
    cron = parse_cron(text)
    found = []
    day = date(year, month, 1)
    while day.month == month:
        midnight = (datetime(day.year, day.month, day.day) - EPOCH) // timedelta(seconds=1)
        reading = cron.at_or_after(midnight)
        if reading is not None and reading < midnight + 86_400:
            found.append(day.day)
        day += timedelta(days=1)
    return found


# --- what is accepted -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("* * * * *", "* * * * *"),
        ("  0\t0  * * *  ", "0 0 * * *"),
        ("*/1 * * * *", "* * * * *"),
        ("05 02 * * *", "5 2 * * *"),
        ("0 0 ? * MON", "0 0 * * 1"),
        ("0 0 1 * ?", "0 0 1 * *"),
        ("0 0 * jan-mar sun", "0 0 * 1-3 0"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * SAT-SUN", "0 0 * * 6-7"),
        ("0 0 * * 6-0", "0 0 * * 6-7"),
        ("0 0 * * 5-7", "0 0 * * 5-7"),
        ("0 0 * * 7-0", "0 0 * * 0"),
        ("5/15 * * * *", "5-59/15 * * * *"),
        ("0 0 * * 1/2", "0 0 * * 1-6/2"),
        ("3-3 * * * *", "3 * * * *"),
        ("1,1,2 * * * *", "1,2 * * * *"),
        ("0 0 l * *", "0 0 L * *"),
        ("0 0 L-0 * *", "0 0 L * *"),
        ("0 0 lw * *", "0 0 LW * *"),
        ("0 0 015w * *", "0 0 15W * *"),
        ("0 0 * * mon#2", "0 0 * * 1#2"),
        ("0 0 * * friL", "0 0 * * 5L"),
        ("0 0 * * 7L", "0 0 * * 0L"),
        ("@daily", "0 0 * * *"),
        ("@Midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("*/60 * * * *", "*/60 * * * *"),
    ],
)
def test_an_expression_has_one_canonical_text(text: str, canonical: str) -> None:
    assert str(parse_cron(text)) == canonical


def test_a_cron_is_a_value_equal_by_its_canonical_text() -> None:
    assert parse_cron("0 0 * * SUN") == parse_cron(" 0  0 ? * 7 ")
    assert hash(parse_cron("0 0 * * SUN")) == hash(parse_cron("0 0 ? * 7"))
    assert parse_cron("0 0 * * *") != parse_cron("0 0 0 * * *", seconds=True)


def test_a_macro_with_seconds_fires_at_second_zero() -> None:
    assert str(parse_cron("@daily", seconds=True)) == "0 0 0 * * *"


@pytest.mark.parametrize(
    ("text", "seconds", "wild"),
    [
        ("* 2 * * *", False, True),
        ("*/5 2 * * *", False, True),
        ("*/5,7 2 * * *", False, True),
        ("7,*/5 2 * * *", False, False),
        ("0-59 2 * * *", False, False),
        ("0 * * * *", False, True),
        ("0 */2 * * *", False, True),
        ("@hourly", False, True),
        ("@daily", False, False),
        ("30 2 * * *", False, False),
        ("* 30 2 * * *", True, True),
        ("0 30 2 * * *", True, False),
        ("H/15 2 * * *", False, False),
    ],
)
def test_an_expression_is_wild_when_a_time_field_starts_with_a_star(text: str, seconds: bool, wild: bool) -> None:
    assert parse_cron(text, seconds=seconds).is_wild is wild


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "0 fields"),
        ("   ", "0 fields"),
        ("* * * *", "4 fields"),
        ("0 30 2 * * *", '"seconds": true'),
        ("0 0 0 1 1 * 2026", "no year field"),
        ("60 * * * *", "minute '60'"),
        ("* 24 * * *", "hour '24'"),
        ("0 0 0 * *", "day-of-month '0'"),
        ("0 0 32 * *", "day-of-month '32'"),
        ("0 0 * 13 *", "month '13'"),
        ("0 0 * 0 *", "month '0'"),
        ("0 0 * * 8", "day-of-week '8'"),
        ("*/0 * * * *", "step of 0"),
        ("*/90 * * * *", "wider than the field"),
        ("0 */25 * * *", "wider than the field"),
        ("22-2 * * * *", "runs backwards"),
        ("0 22-2 * * *", "22-23,0-2"),
        ("0 22-0 * * *", "22-23,0."),
        ("0 0 * * FRI-MON", "5-7,1."),
        ("0 0 * * 7-3", "0-3"),
        ("0 0 * nov-feb *", "11-12,1-2"),
        ("1,,2 * * * *", "empty item"),
        (", * * * *", "empty item"),
        ("? * * * *", "? stands alone"),
        ("0 0 ?,1 * *", "? stands alone"),
        ("L * * * *", "minute 'L'"),
        ("0 0 L-31 * *", "L-31"),
        ("0 0 32W * *", "32W"),
        ("0 0 W * *", "day-of-month 'W'"),
        ("0 0 L/2 * *", "day-of-month 'L/2'"),
        ("0 0 1-5W * *", "1-5W"),
        ("0 0 * * L", "5L is the last Friday"),
        ("0 0 * * 1#6", "#1 to #5"),
        ("0 0 * * 1#0", "#1 to #5"),
        ("0 0 * * MONDAY", "SUN MON TUE"),
        ("0 0 * MON *", "JAN FEB"),
        ("0 0 * * JAN", "SUN MON"),
        ("0001 * * * *", "more than 3 digits"),
        ("+1 * * * *", "minute '+1'"),
        ("1.5 * * * *", "minute '1.5'"),
        ("-5 * * * *", "minute '-5'"),
        ("* * * * * ; reboot", "7 fields"),
        ("@reboot", "enqueue the job"),
        ("@every 5m", "2 fields"),
        ("@fortnightly", "@hourly"),
        ("H(5-1) * * * *", "runs backwards"),
        ("H() * * * *", "minute 'H()'"),
        ("0 0\n* * *", "one line"),
        ("0 0 * * *\n", "one line"),
        ("0 0 * * *\x00", "plain ASCII"),
        ("\u0661 0 * * *", "plain ASCII"),
        ("0 0 * * \uff11", "plain ASCII"),
        ("0\u00a00 * * *", "plain ASCII"),
    ],
)
def test_a_malformed_expression_is_refused_with_the_part_that_is_wrong(text: str, part: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_cron(text)

    assert refused.value.code == "DULY-E101"
    assert refused.value.field == "schedule"
    assert part in str(refused.value)


def test_five_fields_with_seconds_are_refused_with_what_to_write() -> None:
    with pytest.raises(Invalid, match='put "0 " in front'):
        parse_cron("0 0 * * *", seconds=True)


@pytest.mark.parametrize("text", ["0" * 5000 + " * * * *", "*" * 257, "1," * 200, "\u0661" * 300])
def test_an_expression_longer_than_256_characters_is_refused_at_once(text: str) -> None:
    with pytest.raises(Invalid, match="at most 256"):
        parse_cron(text)


def test_more_than_64_items_are_refused() -> None:
    assert parse_cron(",".join(["1"] * 64) + " * * * *").text == "1 * * * *"
    with pytest.raises(Invalid, match="at most 64"):
        parse_cron(",".join(["1"] * 65) + " * * * *")


@pytest.mark.parametrize(
    "text", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30,31 2 *", "0 0 31W 2 *", "0 0 L-29 2 *", "0 0 L-30 4 *", "0 0 15W * */6"]
)
def test_a_date_that_never_comes_is_refused(text: str) -> None:
    # The last one: 15W is a working day, and */6 is Sunday and Saturday.
    with pytest.raises(Invalid) as refused:
        parse_cron(text)
    assert refused.value.code == "DULY-E102"


@pytest.mark.parametrize("text", ["0 0 29 2 *", "0 0 30 2 MON", "0 0 31 2,3 *", "0 0 L-28 2 *", "0 0 */28 2 1#5", "0 0 29W 2 *"])
def test_a_date_that_comes_rarely_is_accepted(text: str) -> None:
    assert parse_cron(text).at_or_after(0) is not None


# --- days -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "year", "month", "days"),
    [
        ("L * *", 2026, 2, [28]),
        ("L * *", 2028, 2, [29]),
        ("L-3 * *", 2026, 4, [27]),
        ("L-30 * *", 2026, 5, [1]),
        ("L-30 * *", 2026, 6, []),
        ("LW * *", 2026, 5, [29]),  # the 31st is a Sunday
        ("LW * *", 2026, 1, [30]),  # the 31st is a Saturday
        ("15W * *", 2026, 8, [14]),  # Saturday goes back to Friday
        ("15W * *", 2026, 2, [16]),  # Sunday goes on to Monday
        ("15W * *", 2026, 7, [15]),
        ("1W * *", 2026, 8, [3]),  # Saturday the 1st stays in the month
        ("1W * *", 2026, 3, [2]),
        ("31W * *", 2026, 5, [29]),  # Sunday the 31st stays in the month
        ("31W * *", 2026, 6, []),
        ("* * 1#2", 2026, 6, [8]),
        ("* * 0#5", 2026, 5, [31]),
        ("* * 0#5", 2026, 6, []),
        ("* * 5L", 2026, 7, [31]),
        ("* * 0L", 2026, 7, [26]),
        ("13 * FRI", 2026, 2, [6, 13, 20, 27]),  # either
        ("10 * MON", 2026, 6, [1, 8, 10, 15, 22, 29]),
        ("*/10 * MON", 2026, 6, [1]),  # a star: both
        ("10-12 * */2", 2026, 6, [11]),  # Sun, Tue, Thu, Sat
        ("1,L * *", 2026, 6, [1, 30]),
        ("1-7 * ?", 2026, 6, [1, 2, 3, 4, 5, 6, 7]),
        ("* * SAT-SUN", 2026, 6, [6, 7, 13, 14, 20, 21, 27, 28]),
        ("* * FRI-SUN", 2026, 6, [5, 6, 7, 12, 13, 14, 19, 20, 21, 26, 27, 28]),
        ("* * 1/2", 2026, 6, [1, 3, 5, 8, 10, 12, 15, 17, 19, 22, 24, 26, 29]),
        ("28/2 * *", 2026, 6, [28, 30]),
    ],
)
def test_the_day_fields_choose_these_days(fields: str, year: int, month: int, days: list[int]) -> None:
    assert days_of(f"0 0 {fields}", year, month) == days


def test_29_february_on_a_monday_waits_forty_years_across_2100() -> None:
    cron = parse_cron("0 0 */28 2 MON#5")

    reading = cron.at_or_after((datetime(2072, 3, 1) - EPOCH) // timedelta(seconds=1))

    assert reading is not None
    assert EPOCH + timedelta(seconds=reading) == datetime(2112, 2, 29)
    assert cron.at_or_before(reading - 1) == (datetime(2072, 2, 29) - EPOCH) // timedelta(seconds=1)


# --- H ----------------------------------------------------------------------------------------


def test_h_is_the_same_for_the_same_key_and_spreads_over_keys() -> None:
    crons = [parse_cron("H H * * *", hash_key=f"job {number}") for number in range(500)]

    assert crons == [parse_cron("H H * * *", hash_key=f"job {number}") for number in range(500)]
    assert len({cron.text for cron in crons}) > 400
    assert {cron.minute.values[0] for cron in crons} == set(range(60))


def test_the_slot_of_a_key_never_changes() -> None:
    # Stored jobs rely on it: these values are part of the contract.
    assert str(parse_cron("H H H H H", hash_key="nightly-report")) == "13 7 23 2 4"
    assert str(parse_cron("H * * * *")) == str(parse_cron("H * * * *", hash_key=""))


def test_h_in_the_day_of_month_stays_within_28() -> None:
    days = {parse_cron("0 0 H * *", hash_key=str(number)).day.values[0] for number in range(1000)}
    assert days == set(range(1, 29))


def test_h_with_a_step_is_an_offset_below_the_step() -> None:
    for number in range(200):
        minutes = parse_cron("H/15 * * * *", hash_key=str(number)).minute.values
        assert len(minutes) == 4
        assert minutes[0] < 15
        assert {later - earlier for earlier, later in pairwise(minutes)} == {15}


def test_h_with_a_range_stays_in_it() -> None:
    hours = {parse_cron("0 H(9-17) * * *", hash_key=str(number)).hour.values[0] for number in range(500)}
    steps = {tuple(parse_cron("H(10-30)/10 * * * *", hash_key=str(number)).minute.values) for number in range(500)}
    days = {parse_cron("0 0 * * H(MON-FRI)", hash_key=str(number)).weekday.values[0] for number in range(200)}

    assert hours == set(range(9, 18))
    assert {minutes[0] for minutes in steps} == set(range(10, 20))
    assert all(minutes[-1] <= 30 for minutes in steps)
    assert days == {1, 2, 3, 4, 5}


# --- properties -------------------------------------------------------------------------------


def items(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    step = st.integers(1, high - low + 1)
    spans = st.tuples(number, number).map(sorted)
    return st.one_of(
        st.just("*"),
        number.map(str),
        step.map(lambda s: f"*/{s}"),
        spans.map(lambda ends: f"{ends[0]}-{ends[1]}"),
        st.tuples(spans, step).map(lambda pair: f"{pair[0][0]}-{pair[0][1]}/{pair[1]}"),
        st.tuples(number, step).map(lambda pair: f"{pair[0]}/{pair[1]}"),
        st.sampled_from(["H", f"H({low}-{high})", "H/3", f"H({low}-{high})/2"]),
    )


def lists(item: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(item, min_size=1, max_size=4).map(",".join)


minutes, hours = lists(items(0, 59)), lists(items(0, 23))
month_days = lists(st.one_of(items(1, 31), st.sampled_from(["L", "LW", "L-3", "1W", "15W", "31W"]))) | st.just("?")
months = lists(st.one_of(items(1, 12), st.sampled_from(["JAN", "feb-APR", "dec"])))
weekdays = lists(st.one_of(items(0, 6), st.sampled_from(["7", "SUN", "sat-sun", "5-0", "1#2", "FRI#5", "5L", "sunL"]))) | st.just("?")
expressions = st.tuples(minutes, hours, month_days, months, weekdays).map(" ".join)


def parse_or_none(text: str, *, seconds: bool = False) -> Cron | None:
    try:
        return parse_cron(text, seconds=seconds, hash_key="property")
    except Invalid as refused:
        if refused.code not in ("DULY-E101", "DULY-E102") or not refused.message:
            raise AssertionError("a refusal has a code and a text") from refused
        return None


@given(expressions, minutes)
@settings(max_examples=500, deadline=None)
def test_printing_and_parsing_again_gives_an_equal_value(text: str, second: str) -> None:
    for source, seconds in ((text, False), (f"{second} {text}", True)):
        cron = parse_or_none(source, seconds=seconds)
        if cron is None:
            continue

        again = parse_cron(str(cron), seconds=seconds)

        assert again == cron
        assert str(again) == str(cron)
        assert (again.second, again.minute, again.hour, again.month, again.days, again.is_wild) == (
            cron.second,
            cron.minute,
            cron.hour,
            cron.month,
            cron.days,
            cron.is_wild,
        )


@given(st.text(max_size=256) | st.text("0123456789*/,-LWH#?()@ \tSUNMOJAFE", max_size=256), st.booleans())
@example("1," * 127 + "1 * * * *", False)
@example("*/1," * 50 + "* * * * *", False)
@example("H(" * 80, True)
@settings(max_examples=1000, deadline=None)
def test_any_text_is_parsed_or_refused_in_five_milliseconds(text: str, seconds: bool) -> None:
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        parse_or_none(text, seconds=seconds)
        times.append(time.perf_counter() - begin)
    assert min(times) < 0.005


@given(expressions, st.integers(0, 8_000_000_000))
@settings(max_examples=500, deadline=None)
def test_the_readings_before_and_after_a_point_enclose_it(text: str, local: int) -> None:
    cron = parse_or_none(text)
    if cron is None:
        return

    after, before = cron.at_or_after(local), cron.at_or_before(local)

    assert after is not None
    assert before is not None
    assert before <= local <= after
    assert cron.matches(after)
    assert cron.matches(before)
    assert (before == local) == (after == local) == cron.matches(local)
    assert cron.at_or_before(after - 1) == (before if before < after else cron.at_or_before(local - 1))
