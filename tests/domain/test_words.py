"""Schedules in words, and what the lint finds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from duly.domain.cron import parse_cron
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND, from_rfc3339, to_rfc3339
from duly.domain.schedule import CronSchedule, DstGap, DstOverlap, IntervalSchedule, OneTimeSchedule, explain_fire, fires
from duly.domain.words import describe, lint, zone_in_words
from tests.domain.test_cron import expressions, parse_or_none


def cron(text: str, zone: str = "UTC", gap: DstGap = DstGap.RUN_AFTER, overlap: DstOverlap = DstOverlap.FIRST) -> CronSchedule:
    return CronSchedule(parse_cron(text, seconds=len(text.split()) == 6), zone, gap, overlap)


def test_the_preview_in_the_design_comes_out_word_for_word() -> None:
    schedule = cron("30 2 * * *", "America/New_York")

    found = fires(schedule, from_rfc3339("2026-03-07T12:00:00Z"), None, 2)

    assert describe(schedule) == "Every day at 02:30 New York time"
    assert [to_rfc3339(fire) for fire in found] == ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]
    assert [explain_fire(schedule, fire) for fire in found] == ["02:30 does not exist on this day; runs at 03:00", None]
    assert lint(schedule) == []


@pytest.mark.parametrize(
    ("text", "zone", "words"),
    [
        ("* * * * *", "UTC", "Every minute"),
        ("*/15 * * * *", "America/New_York", "Every 15 minutes"),
        ("*/7 * * * *", "UTC", "Every hour at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56"),
        ("@hourly", "UTC", "Every hour"),
        ("5 * * * *", "Europe/Berlin", "Every hour at minute 5"),
        ("5 * * * *", "Asia/Kathmandu", "Every hour at minute 5, Kathmandu time"),
        ("0 */6 * * *", "UTC", "Every 6 hours, UTC"),
        ("30 */6 * * *", "UTC", "Every 6 hours at minute 30, UTC"),
        ("0 */5 * * *", "UTC", "At minute 0 of hours 0, 5, 10, 15 and 20, UTC"),
        ("30 2 * * *", "Europe/Berlin", "Every day at 02:30 Berlin time"),
        ("0 9,17 * * *", "Asia/Tokyo", "Every day at 09:00 and 17:00 Tokyo time"),
        ("0 9 * * MON-FRI", "Europe/Berlin", "At 09:00 on weekdays, Berlin time"),
        ("0 9 * * SAT,SUN", "Europe/Berlin", "At 09:00 on weekends, Berlin time"),
        ("0 9 * * 1", "Europe/Berlin", "Every Monday at 09:00 Berlin time"),
        ("0 9 * * SUN,MON,WED", "UTC", "Every Monday, Wednesday and Sunday at 09:00 UTC"),
        ("*/5 9-17 * * MON-FRI", "US/Pacific", "Every 5 minutes from 09:00 to 17:55 on weekdays, US Pacific time"),
        ("*/10 1,5 * * *", "UTC", "Every 10 minutes of hours 1 and 5, UTC"),
        ("0 9-17 * * 1", "UTC", "Every hour from 09:00 to 17:00 on Mondays, UTC"),
        ("* 2 * * *", "UTC", "Every minute from 02:00 to 02:59, UTC"),
        ("0 0 L * *", "UTC", "On the last day of the month at 00:00 UTC"),
        ("0 0 L-1 * *", "UTC", "On the day before the last of the month at 00:00 UTC"),
        ("0 0 L-3 * *", "UTC", "On the day 3 days before the last of the month at 00:00 UTC"),
        ("0 0 LW * *", "UTC", "On the last weekday (Monday to Friday) of the month at 00:00 UTC"),
        ("0 0 15W * *", "UTC", "On the weekday (Monday to Friday) nearest the 15th of the month at 00:00 UTC"),
        ("0 0 1,15 * *", "UTC", "On the 1st and the 15th of the month at 00:00 UTC"),
        ("0 0 1-7 * *", "UTC", "On the 1st to 7th of the month at 00:00 UTC"),
        ("0 0 1 1 *", "UTC", "Every year on 1 January at 00:00 UTC"),
        ("0 0 29 2 *", "UTC", "On 29 February of every leap year at 00:00 UTC"),
        ("0 0 L 3,6 *", "UTC", "On the last day of March and June at 00:00 UTC"),
        ("0 0 * 7 *", "UTC", "Every day in July at 00:00 UTC"),
        ("*/5 * * 7 *", "UTC", "Every 5 minutes in July, UTC"),
        ("0 12 * * MON#2,FRIL", "UTC", "On the second Monday of the month and the last Friday of the month at 12:00 UTC"),
        ("0 0 13 * FRI", "UTC", "On the 13th of the month, and on Fridays, at 00:00 UTC"),
        ("0 0 */2 * MON", "UTC", "On every 2nd day of the month from the 1st when that is also a Monday, at 00:00 UTC"),
        ("1,2,5-9,30 1,3,5-7 * * *", "UTC", "At minutes 1, 2, 5 to 9 and 30 of hours 1, 3 and 5 to 7, UTC"),
        ("* * * * * *", "UTC", "Every second"),
        ("*/10 * * * * *", "UTC", "Every 10 seconds"),
        ("30 * * * * *", "UTC", "Every minute at second 30"),
        ("15 30 2 * * *", "UTC", "Every day at 02:30:15 UTC"),
        ("0 30 2 * * *", "UTC", "Every day at 02:30 UTC"),
        ("* 0 2 * * 1", "Europe/Berlin", "Every second of minute 0 of hour 2 on Mondays, Berlin time"),
    ],
)
def test_a_cron_schedule_reads_as_a_sentence(text: str, zone: str, words: str) -> None:
    assert describe(cron(text, zone)) == words


@pytest.mark.parametrize(
    ("zone", "words"),
    [
        ("UTC", "UTC"),
        ("Etc/UTC", "UTC"),
        ("America/Argentina/Buenos_Aires", "Buenos Aires time"),
        ("America/Port-au-Prince", "Port-au-Prince time"),
        ("US/Pacific", "US Pacific time"),
        ("Etc/GMT+5", "Etc/GMT+5 time"),
        ("Japan", "Japan time"),
    ],
)
def test_a_zone_reads_as_people_say_it(zone: str, words: str) -> None:
    assert zone_in_words(zone) == words


@pytest.mark.parametrize(
    ("every", "words"),
    [
        (15 * MINUTE, "Every 15 minutes"),
        (90 * MINUTE, "Every 90 minutes"),
        (HOUR, "Every hour"),
        (DAY, "Every 24 hours"),
        (7 * DAY, "Every 7 days"),
        (SECOND, "Every second"),
        (1500 * 1000, "Every 1500 milliseconds"),
        (1, "Every microsecond"),
    ],
)
def test_an_interval_reads_as_its_length(every: int, words: str) -> None:
    assert describe(IntervalSchedule(every, 0)) == words


def test_a_single_time_and_bounds_are_told() -> None:
    noon = from_rfc3339("2026-03-08T07:00:00Z")

    assert describe(OneTimeSchedule(noon)) == "On 2026-03-08 at 07:00 UTC, once"
    assert describe(OneTimeSchedule(noon + 30 * SECOND)) == "On 2026-03-08 at 07:00:30 UTC, once"
    assert describe(CronSchedule(parse_cron("@daily"), start_at=noon)) == "Every day at 00:00 UTC, from 2026-03-08 07:00 UTC"
    assert describe(IntervalSchedule(HOUR, 0, end_at=noon)) == "Every hour, until 2026-03-08 07:00 UTC"


@given(expressions)
@settings(max_examples=500, deadline=None)
def test_every_expression_has_a_sentence_and_a_lint(text: str) -> None:
    parsed = parse_or_none(text)
    if parsed is None:
        return
    sentence = describe(CronSchedule(parsed, "Europe/Berlin"))
    assert sentence[0].isupper()
    assert "  " not in sentence
    assert not sentence.endswith((",", ".", " "))
    assert all(warning and warning == warning.strip() for warning in lint(CronSchedule(parsed, "Europe/Berlin")))


@pytest.mark.parametrize(
    ("schedule", "warnings"),
    [
        (cron("0 0 * * *"), []),
        (cron("*/15 * * * *", "America/New_York"), []),
        (cron("0 0 * * */7"), []),
        (
            cron("0 0 13 * FRI"),
            ["day-of-month and day-of-week are both restricted: it fires on days that match either, not only on those that match both"],
        ),
        (cron("*/7 * * * *"), ["*/7 minutes is not evenly spaced: 4 minutes at the hour's end"]),
        (cron("3/7 * * * *"), ["3-59/7 minutes is not evenly spaced: 4 minutes at the hour's end"]),
        (cron("5/15 * * * *"), []),
        (cron("0 */5 * * *"), ["*/5 hours is not evenly spaced: 4 hours at the day's end"]),
        (cron("*/40 0 0 * * *"), ["*/40 seconds is not evenly spaced: 20 seconds at the minute's end"]),
        (cron("*/60 * * * *"), ["*/60 chooses one minute only: 0"]),
        (cron("0 0 */2 * *"), ["*/2 days is not evenly spaced: it starts again on the 1st of each month"]),
        (cron("0 0 * * */2"), ["*/2 weekdays is not evenly spaced: it starts again each Sunday"]),
        (cron("0 0 29 2 *"), ["fires only on 29 February, so only in a leap year"]),
        (cron("0 0 L-28 2 *"), ["fires only in a February of 29 days, so only in a leap year"]),
        (cron("0 0 29 2 */7"), ["fires only on 29 February, so only in some leap years"]),
        (cron("0 0 31 * *"), ["months without day 31 are skipped; L is the last day of every month"]),
        (
            cron("30 2 * * *", "America/New_York", gap=DstGap.SKIP),
            ["02:30 does not exist when the clocks go forward, and dstGap=skip leaves the run out"],
        ),
        (
            cron("0,30 2 * * *", "America/New_York"),
            ["02:00 to 02:30 do not exist when the clocks go forward, and become one run at 03:00"],
        ),
        (
            cron("0 2,3 * * *", "America/New_York"),
            ["02:00 does not exist when the clocks go forward, and becomes one run with 03:00"],
        ),
        (
            cron("30 1 * * *", "America/New_York", overlap=DstOverlap.BOTH),
            ["01:30 happens twice when the clocks go back, and dstOverlap=both runs it twice"],
        ),
        (
            cron("*/30 2 * * *", "America/New_York"),
            ["has no run on the day when the clocks go forward: 02:00 to 02:30 do not exist then"],
        ),
        (cron("30 2 * * *", "Asia/Tokyo", gap=DstGap.SKIP), []),
        (IntervalSchedule(HOUR, 0), []),
    ],
)
def test_the_lint_says_what_a_person_may_not_have_meant(schedule: CronSchedule, warnings: list[str]) -> None:
    assert lint(schedule) == warnings


def test_the_lint_names_a_schedule_that_is_over() -> None:
    assert lint(OneTimeSchedule(5), now=4) == []
    assert lint(OneTimeSchedule(5), now=5) == ["never fires again"]
    assert "never fires again" in lint(
        cron("30 2 8-14 3 */7", "America/New_York", gap=DstGap.SKIP), now=from_rfc3339("2026-01-01T00:00:00Z")
    )
