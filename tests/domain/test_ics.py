"""iCalendar files as they come from holiday services and calendars of teams."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.domain.calendars import Holiday, Window
from duly.domain.errors import Invalid
from duly.domain.ics import IcsEntries, read_ics
from duly.domain.instants import HOUR, from_rfc3339

NOW = from_rfc3339("2026-06-01T00:00:00Z")


def at(text: str) -> int:
    return from_rfc3339(text)


def read(*events: str, zone: str = "Europe/Berlin") -> IcsEntries:
    body = "".join(f"BEGIN:VEVENT\r\n{event.strip().replace(chr(10), chr(13) + chr(10))}\r\nEND:VEVENT\r\n" for event in events)
    return read_ics(f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{body}END:VCALENDAR\r\n", zone, NOW)


def test_whole_days_are_holidays() -> None:
    found = read(
        "DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261227\nSUMMARY:Christmas", "DTSTART;VALUE=DATE:20270101\nSUMMARY:New Year"
    )

    assert found.holidays == [
        Holiday(day=date(2026, 12, 25), name="Christmas"),
        Holiday(day=date(2026, 12, 26), name="Christmas"),
        Holiday(day=date(2027, 1, 1), name="New Year"),
    ]
    assert (found.windows, found.remarks) == ([], [])


def test_times_are_windows_in_the_zone_that_they_name() -> None:
    found = read(
        "DTSTART:20260701T220000Z\nDTEND:20260702T020000Z\nSUMMARY:utc",
        "DTSTART;TZID=America/New_York:20260701T220000\nDURATION:PT90M\nSUMMARY:there",
        "DTSTART:20260701T220000\nDURATION:P1DT2H\nSUMMARY:floating",
        "DTSTART;TZID=/example.org/2024/Asia/Tokyo:20260701T220000\nDTEND;TZID=Asia/Tokyo:20260701T230000\nSUMMARY:path",
    )

    assert found.windows == [
        Window(start=at("2026-07-01T22:00:00Z"), end=at("2026-07-02T02:00:00Z"), name="utc"),
        Window(start=at("2026-07-02T02:00:00Z"), end=at("2026-07-02T03:30:00Z"), name="there"),
        Window(start=at("2026-07-01T20:00:00Z"), end=at("2026-07-02T22:00:00Z"), name="floating"),
        Window(start=at("2026-07-01T13:00:00Z"), end=at("2026-07-01T14:00:00Z"), name="path"),
    ]


def test_what_repeats_is_written_out_for_five_years() -> None:
    found = read(
        "DTSTART;VALUE=DATE:20100501\nRRULE:FREQ=YEARLY\nEXDATE;VALUE=DATE:20280501\nSUMMARY:Labour Day",
        "DTSTART;TZID=Europe/Berlin:20260301T020000\nDTEND;TZID=Europe/Berlin:20260301T040000\nRRULE:FREQ=MONTHLY;BYDAY=1SU;COUNT=3",
    )

    assert [holiday.day for holiday in found.holidays] == [date(year, 5, 1) for year in (2026, 2027, 2029, 2030, 2031)]
    # 02:00 in Berlin, before and after the clocks have changed.
    assert found.windows == [
        Window(start=at(start), end=at(start) + 2 * HOUR)
        for start in ("2026-03-01T01:00:00Z", "2026-04-05T00:00:00Z", "2026-05-03T00:00:00Z")
    ]


def test_lines_are_unfolded_and_text_unescaped() -> None:
    found = read("DTSTART;VALUE=DATE:20261\n 225\nSUMMARY:Christmas\\, the \n\tfirst\\nday \\\\o/")

    assert found.holidays == [Holiday(day=date(2026, 12, 25), name="Christmas, the first day \\o/")]


def test_alarms_are_not_the_event_and_cancelled_ones_do_not_count() -> None:
    found = read(
        "DTSTART;VALUE=DATE:20261225\nBEGIN:VALARM\nDTSTART;VALUE=DATE:20200101\nSUMMARY:ring\nEND:VALARM\nSUMMARY:Christmas",
        "DTSTART;VALUE=DATE:20261226\nSTATUS:CANCELLED",
    )

    assert found.holidays == [Holiday(day=date(2026, 12, 25), name="Christmas")]


@pytest.mark.parametrize(
    ("event", "remark"),
    [
        ("SUMMARY:when", "when: has no DTSTART"),
        ("SUMMARY:x\nDTSTART:20261325T000000Z\nDURATION:PT1H", "x: '20261325T000000Z' is not a time"),
        ("SUMMARY:x\nDTSTART:20261225T000000Z", "x: has neither DTEND nor DURATION"),
        ("SUMMARY:x\nDTSTART:20261225T000000Z\nDTEND:20261224T000000Z", "x: does not last from a moment to 366 days"),
        ("SUMMARY:x\nDTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261225", "x: does not last from 1 to 366 days"),
        (
            "SUMMARY:x\nDTSTART;TZID=W. Europe Standard Time:20261225T000000\nDURATION:PT1H",
            "x: its zone 'W. Europe Standard Time' is not an IANA name",
        ),
        ("SUMMARY:x\nDTSTART;VALUE=DATE:20261225\nRRULE:FREQ=HOURLY", "x: FREQ=HOURLY is not for rules."),
        ("DTSTART;VALUE=DATE:18000101", "event 1: '18000101T000000' is out of range"),
    ],
)
def test_what_cannot_be_read_is_left_out_and_said(event: str, remark: str) -> None:
    found = read(event)

    assert (found.holidays, found.windows, found.remarks) == ([], [], [remark])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "BEGIN:VEVENT\nEND:VEVENT",
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nEND:VCALENDAR",
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\n",
        "BEGIN:VCALENDAR\n" + "BEGIN:X\n" * 20,
        "BEGIN:VCALENDAR\n" + "BEGIN:VEVENT\nEND:VEVENT\n" * 5001 + "END:VCALENDAR",
        "BEGIN:VCALENDAR\n" + "x\n" * 100_001,
    ],
)
def test_what_is_no_calendar_or_too_much_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_ics(text, "UTC", NOW)

    assert (refused.value.code, refused.value.field) == ("DULY-E135", "ics")
    assert refused.value.hint


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet='DTSTARENDULIO;:=,\\"\r\n \t0123456789ZPVBGXMF', max_size=200))
def test_whatever_stands_in_an_event_is_read_or_refused(text: str) -> None:
    try:
        found = read(f"DTSTART;VALUE=DATE:20261225\n{text}")
    except Invalid as refused:
        if refused.code != "DULY-E135":
            raise
    else:
        assert len(found.holidays) <= 366
