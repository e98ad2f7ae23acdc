"""Schedules in words: what they mean, which are refused, and that fires are those of a walk over days which knows no cron."""

from __future__ import annotations

import contextlib
import re
import time
from calendar import monthrange
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.domain.cron import Cron, parse_cron
from duly.domain.cron_phrases import cron_text
from duly.domain.errors import Invalid
from duly.domain.phrases import MONTH_NAMES, join, ordinal
from duly.domain.schedule import CronSchedule
from duly.domain.words import describe
from tests.domain.test_cron import expressions, parse_or_none

EPOCH = datetime(1970, 1, 1)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("every minute", "* * * * *"),
        ("every 15 minutes", "*/15 * * * *"),
        ("Every  fifteen minutes", "*/15 * * * *"),
        ("every hour", "0 * * * *"),
        ("hourly", "0 * * * *"),
        ("every 60 minutes", "0 * * * *"),
        ("every 2 hours", "0 */2 * * *"),
        ("every 120 minutes", "0 */2 * * *"),
        ("every hour at minute 5", "5 * * * *"),
        ("every hour at :05", "5 * * * *"),
        ("every hour at minutes 0 and 30", "0,30 * * * *"),
        ("every day at 02:30", "30 2 * * *"),
        ("daily at noon", "0 12 * * *"),
        ("at 9am and 5pm", "0 9,17 * * *"),
        ("every day at 9:00, 12:00 and 17:00", "0 9,12,17 * * *"),
        ("every day at 12:15 am", "15 0 * * *"),
        ("every weekday at 07:30", "30 7 * * 1-5"),
        ("on weekends at 10", "0 10 * * 0,6"),
        ("every monday and thursday at 9am", "0 9 * * 1,4"),
        ("mondays, tuesdays, and fridays at 9", "0 9 * * 1,2,5"),
        ("every sunday at 4", "0 4 * * 0"),
        ("every mon-thu at 9", "0 9 * * 1-4"),
        ("every friday to monday at 9", "0 9 * * 0,1,5,6"),
        ("on the 1st of every month at 06:00", "0 6 1 * *"),
        ("monthly on the 1st and the 15th at 6", "0 6 1,15 * *"),
        ("last day of the month at 23:00", "0 23 L * *"),
        ("on the last weekday of the month at 17:30", "30 17 LW * *"),
        ("every first monday of the month at 9", "0 9 * * 1#1"),
        ("the last friday of march and june at 18:00", "0 18 * 3,6 5L"),
        ("on the weekday nearest the 15th at 9", "0 9 15W * *"),
        ("every year on 1 January at 00:00", "0 0 1 1 *"),
        ("on December 24th at noon", "0 12 24 12 *"),
        ("every january on the 1st at 9", "0 9 1 1 *"),
        ("every day in july and august at 5", "0 5 * 7,8 *"),
        ("every 15 minutes on weekdays between 9 and 17", "*/15 9-16 * * 1-5"),
        ("every 15 minutes from 09:00 to 16:45 on weekdays", "*/15 9-16 * * 1-5"),
        ("every 10 minutes between 22:00 and 02:00", "*/10 0,1,22,23 * * *"),
        ("every 30 minutes between 20 and midnight", "*/30 20-23 * * *"),
        ("every hour from 09:30 to 17:30", "30 9-17 * * *"),
        ("every hour between 9 and 17", "0 9-16 * * *"),
        ("every 5 hours from 8 to 18", "0 8,13,18 * * *"),
    ],
)
def test_a_phrase_is_the_expression_that_it_means(phrase: str, text: str) -> None:
    assert cron_text(phrase) == text
    assert parse_cron(text).text == text


@pytest.mark.parametrize(
    ("phrase", "message", "hint"),
    [
        ("every 7 minutes", "not even", '"every 6 minutes" or "every 10 minutes"'),
        ("every 90 minutes", "wider than the hour", 'every="90m"'),
        ("every 5 hours", "starts again with each day", '"every 4 hours"'),
        ("every 24 hours", "not even", "every day at 00:00"),
        ("every 2 days", "does not count days", "INTERVAL=2"),
        ("every other week", "does not count", "FREQ=WEEKLY"),
        ("every 2nd day of the month at 3", "does not count", "FREQ=DAILY"),
        ("every 10 seconds", "counts in minutes", "seconds"),
        ("every monday", "at what time", "every monday at 9am"),
        ("every day", "at what time", "every day at 00:00"),
        ("every week at 9", "which day of the week", "every monday"),
        ("every month at 9", "which day of the month", "on the 1st"),
        ("every january at 9", "which day of the year", "on the 1st"),
        ("every monday at 9 and 17:30", "09:30 too", "a job for each"),
        ("every monday at 9 and every friday at 10", "'and' after 'at 9'", "two jobs"),
        ("every monday on the 1st at 9", "weekdays and days of the month", "either"),
        ("every 15 minutes from 9 to 17", "whole hours", 'or "from 09:00 to 16:45"'),
        ("every 15 minutes between 9:30 and 17", "whole hours", "between 09:00 and 17:00"),
        ("every hour between 22 and 6 on weekdays", "over midnight", "two jobs"),
        ("every hour from 20 to midnight on weekdays", "over midnight", "two jobs"),
        ("every hour at 9:30", "a time of day as well", "at minute 30"),
        ("every day at 25:00", "not a time of day", "23:59"),
        ("every day at 13pm", "from 1 to 12", ""),
        ("every day at 9 Europe/Berlin", "is not understood", "tz"),
        ("every blue moon", "'blue'", "every weekday at 07:30"),
        ("every", "ends in the middle", "every weekday at 07:30"),
        ("every day at 9 at 10", "twice", "list them"),
        ("every weekdäy at 9", "plain ASCII", ""),
        ("on the 40th of the month at 9", "1 to 31", ""),
        ("on the sixth monday at 9", "", ""),
        ("every 99999 minutes", "1 to 9999", ""),
        (f"every day at 9{', 10' * 80}", "characters long", ""),
    ],
)
def test_what_cron_cannot_say_is_refused_with_what_to_write(phrase: str, message: str, hint: str) -> None:
    with pytest.raises(Invalid) as refused:
        cron_text(phrase)

    assert (refused.value.code, refused.value.field) == ("DULY-E101", "schedule")
    assert message in refused.value.message
    assert hint in (refused.value.hint or "")


def test_seconds_take_six_fields() -> None:
    assert cron_text("every 10 seconds", seconds=True) == "*/10 * * * * *"
    assert cron_text("every minute at second 30", seconds=True) == "30 * * * * *"
    assert cron_text("every day at 02:30:15", seconds=True) == "15 30 2 * * *"
    assert cron_text("every hour", seconds=True) == "0 0 * * * *"


def test_a_phrase_may_end_in_its_own_zone_and_in_no_other() -> None:
    assert cron_text("Every day at 02:30 New York time", zone="America/New_York") == "30 2 * * *"
    assert cron_text("At 07:30 on weekdays, UTC") == "30 7 * * 1-5"
    with pytest.raises(Invalid, match="not understood"):
        cron_text("Every day at 02:30 New York time", zone="Europe/Berlin")


@pytest.mark.parametrize(
    "text", ["", "  ", "0 3 * * *", " 0 3 * * *", "@daily", "H H * * *", "h h * * *", "H(0-5) * * * *", "MON * * * *", "?", "L"]
)
def test_what_is_no_phrase_is_left_as_it_is(text: str) -> None:
    assert cron_text(text) == text


@given(expressions)
@settings(max_examples=300, deadline=None)
def test_no_expression_is_taken_for_a_phrase(text: str) -> None:
    assert cron_text(text) == text


def test_the_page_about_cron_says_what_phrases_mean() -> None:
    page = (Path(__file__).parents[2] / "docs/explanation/cron.md").read_text(encoding="utf-8")
    section = page.partition("### In words")[2].partition("### ")[0]
    meant, _, refused = section.partition("| words | why | instead |")

    pairs = [
        (phrase, text)
        for row in re.findall(r"^\| (`.*`) \| (`.*`) \|$", meant, re.MULTILINE)
        for phrase, text in zip(*(re.findall("`([^`]+)`", cell) for cell in row), strict=True)
    ]
    phrases = [phrase for row in re.findall(r"^\| (`[^|]*`) \|", refused, re.MULTILINE) for phrase in re.findall("`([^`]+)`", row)]

    assert len(pairs) > 15
    assert [(phrase, cron_text(phrase)) for phrase, _ in pairs] == pairs
    assert len(phrases) > 8
    for phrase in phrases:
        with pytest.raises(Invalid):
            cron_text(phrase)


# --- fires ------------------------------------------------------------------------------------


@st.composite
def clocks(draw: st.DrawFn) -> tuple[str, set[int]]:
    """A clock in words, and the minutes of the day that it means."""
    kind = draw(st.sampled_from(("times", "minutes", "hours", "between", "from")))
    if kind == "times":
        minute = draw(st.integers(0, 59))
        hours = draw(st.lists(st.integers(0, 23), min_size=1, max_size=4, unique=True))
        words = [
            draw(st.sampled_from((f"{hour:02}:{minute:02}", f"{hour % 12 or 12}:{minute:02}{'pm' if hour > 11 else 'am'}")))
            for hour in hours
        ]
        return f"at {join(words)}", {hour * 60 + minute for hour in hours}
    if kind == "hours":
        step = draw(st.sampled_from((1, 2, 3, 4, 6, 8, 12)))
        minute = draw(st.integers(0, 59))
        said = "every hour" if step == 1 else f"every {step} hours"
        return f"{said} at minute {minute}", {hour * 60 + minute for hour in range(0, 24, step)}
    step = draw(st.sampled_from((1, 2, 5, 10, 12, 15, 20, 30)))
    said = "every minute" if step == 1 else f"every {step} minutes"
    if kind == "minutes":
        return said, set(range(0, 1440, step))
    first = draw(st.integers(0, 22))
    last = draw(st.integers(first + 1, 23))
    meant = set(range(first * 60, last * 60, step))
    if kind == "between":
        return f"{said} between {first} and {last:02}:00", meant
    return f"{said} from {first:02}:00 to {last - 1:02}:{60 - step:02}", meant


@st.composite
def choices(draw: st.DrawFn) -> tuple[str, set[date]]:
    """Days in words, and those of 2027 and 2028 that they mean."""
    year = [date(2027, 1, 1) + timedelta(days=nth) for nth in range(731)]
    kind = draw(st.sampled_from(("every", "weekdays", "named", "numbers", "last", "nth", "months", "date")))
    month = draw(st.integers(1, 12))
    name = MONTH_NAMES[month - 1]
    if kind == "weekdays":
        return draw(st.sampled_from(("on weekdays", "every weekday", "every monday to friday"))), {day for day in year if day.weekday() < 5}
    if kind == "named":
        chosen = draw(st.lists(st.integers(0, 6), min_size=1, max_size=6, unique=True))
        return f"every {join([DAYS[one] for one in chosen])}", {day for day in year if day.weekday() in chosen}
    if kind == "numbers":
        chosen = draw(st.lists(st.integers(1, 28), min_size=1, max_size=5, unique=True))
        said = join([f"the {ordinal(one)}" for one in chosen])
        return f"on {said} of every month", {day for day in year if day.day in chosen}
    if kind == "last":
        return "on the last day of the month", {day for day in year if day.day == monthrange(day.year, day.month)[1]}
    if kind == "nth":
        nth, weekday = draw(st.integers(1, 4)), draw(st.integers(0, 6))
        word = ("first", "second", "third", "fourth")[nth - 1]
        return f"on the {word} {DAYS[weekday]} of {name}", {
            day for day in year if day.month == month and day.weekday() == weekday and (day.day - 1) // 7 + 1 == nth
        }
    if kind == "months":
        return f"every day in {name}", {day for day in year if day.month == month}
    if kind == "date":
        return f"every year on {month} {name}", {day for day in year if (day.month, day.day) == (month, month)}
    return "every day", set(year)


@given(choices(), clocks(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_a_phrase_fires_when_a_walk_over_the_days_says_so(
    days: tuple[str, set[date]], clock: tuple[str, set[int]], days_first: bool
) -> None:
    phrase = f"{days[0]} {clock[0]}" if days_first else f"{clock[0]} {days[0]}"

    cron = parse_cron(cron_text(phrase))

    for day in sorted(days[1])[:: max(1, len(days[1]) // 3)]:
        assert minutes_on(cron, day) == clock[1], phrase
    for nth in range(731):
        day = date(2027, 1, 1) + timedelta(days=nth)
        midnight = (datetime(day.year, day.month, day.day) - EPOCH) // timedelta(seconds=1)
        reading = cron.at_or_after(midnight)
        assert (reading is not None and reading < midnight + 86_400) is (day in days[1]), f"{phrase}: {day}"


def minutes_on(cron: Cron, day: date) -> set[int]:
    midnight = (datetime(day.year, day.month, day.day) - EPOCH) // timedelta(seconds=1)
    found: set[int] = set()
    at = midnight
    while (reading := cron.at_or_after(at)) is not None and reading < midnight + 86_400:
        assert reading % 60 == 0
        found.add((reading - midnight) // 60)
        at = reading + 1
    return found


# --- the words of a preview -------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "* * * * *", "*/15 * * * *", "*/7 * * * *", "0 * * * *", "5 * * * *", "0 */6 * * *", "30 */6 * * *", "30 2 * * *", "0 9,17 * * *",
        "0 9 * * 1-5", "0 9 * * 0,6", "0 9 * * 1", "0 9 * * 0,1,3", "*/5 9-17 * * 1-5", "*/10 1,5 * * *", "0 9-17 * * 1", "* 2 * * *",
        "0 0 L * *", "0 0 L-1 * *", "0 0 L-3 * *", "0 0 LW * *", "0 0 15W * *", "0 0 1,15 * *", "0 0 1-7 * *", "0 0 1 1 *", "0 0 29 2 *",
        "0 0 L 3,6 *", "0 0 * 7 *", "*/5 * * 7 *", "0 12 * * 1#2,5L", "0 22 * 1-3 *", "1,2,5-9,30 1,3,5-7 * * *",
    ],
)  # fmt: skip
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kathmandu", "US/Pacific", "Japan"])
def test_the_sentences_of_a_preview_are_understood_again(text: str, zone: str) -> None:
    cron = parse_cron(text)

    again = parse_cron(cron_text(describe(CronSchedule(cron, zone)), zone=zone))

    assert facts(again) == facts(cron)
    assert again.is_wild is cron.is_wild


@given(expressions)
@settings(max_examples=500, deadline=None)
def test_a_sentence_is_never_understood_as_something_else(text: str) -> None:
    cron = parse_or_none(text)
    if cron is None:
        return
    try:
        again = parse_cron(cron_text(describe(CronSchedule(cron)), seconds=cron.has_seconds), seconds=cron.has_seconds)
    except Invalid:
        return

    assert facts(again) == facts(cron)


def facts(cron: Cron) -> tuple[int, int, int, int, tuple[int, ...]]:
    """What it names, however it is written."""
    return cron.second.mask, cron.minute.mask, cron.hour.mask, cron.month.mask, cron.days


SOME = """every each on at the last first of in between from to and , day week month year weekday weekdays monday mon-fri sunday 1st 15th
1 5 15 17 60 9am 07:30 25:00 minute minutes hour hours seconds january feb other daily monthly nearest before days noon UTC time : - 31st"""
WORDS = st.sampled_from(SOME.split())


@given(st.one_of(st.lists(WORDS, max_size=14).map(" ".join), st.text(max_size=60).map("every ".__add__)))
@settings(max_examples=1000, deadline=None)
def test_any_words_are_answered_at_once(text: str) -> None:
    began = time.perf_counter()
    with contextlib.suppress(Invalid):
        answer = cron_text(text, seconds=True)
        assert answer == text or parse_or_none(answer, seconds=True) is None or parse_cron(answer, seconds=True).text == answer
    assert time.perf_counter() - began < 0.5
