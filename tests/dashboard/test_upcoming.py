"""Upcoming in a real browser, an hour as lanes and a month as a calendar; and how lanes and calendars are made."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Any

from playwright.sync_api import Page, expect

from duly.dashboard.drawing import lanes, month
from duly.dashboard.drawing.heat import hour_lines
from duly.dashboard.drawing.overlay import Overlay, Stretch, closed
from duly.domain.calendars import Calendar, Holiday, Weekday, WeeklyWindow, Window
from duly.domain.instants import MINUTE, from_rfc3339, to_rfc3339
from duly.domain.zones import load_zone
from tests.dashboard.conftest import ready
from tests.dashboard.fleet import Fleet

START = from_rfc3339("2026-10-25T03:00:00Z")
BERLIN = load_zone("Europe/Berlin")
SHOWN = lanes.Hour(START, BERLIN, "?show=hour", START + 10 * MINUTE)

Visit = Callable[[str], Page]
LogIn = Callable[..., Page]


def _fire(name: str, minute: float, seconds: float | None = None, *, is_skipped: bool = False) -> dict[str, Any]:
    at = to_rfc3339(START + round(minute * MINUTE))
    return {"jobId": f"job_{name}", "jobName": name, "at": at, "expectedSec": seconds, "isSkipped": is_skipped}


def test_bars_that_overlap_or_nearly_touch_are_one_batch() -> None:
    fires = [_fire("a", minute, 30) for minute in (0, 1, 2, 20)] + [_fire("b", 5, 1200), _fire("b", 20, 1200), _fire("b", 50)]

    drawn = lanes.lanes(fires, {}, SHOWN)

    assert [(lane.name, [batch.fires for batch in lane.batches]) for lane in drawn] == [("a", [3, 1]), ("b", [2, 1])]
    first = drawn[0].batches[0]
    assert (first.minutes, first.words.replace("\u00a0", " ")) == (3, "a: 3 fires from 04:00 to 04:02, mostly takes 30 s")
    assert "how long it takes" not in drawn[1].batches[0].words
    assert f"at={START // MINUTE}&amp;span=3" in str(drawn[0].drawing)


def test_what_has_no_lane_of_its_own_is_counted_by_the_minute() -> None:
    fires = [_fire(f"job-{nth}", 0, 10) for nth in range(lanes.MOST_LANES + 5)]
    counts = {START: 400, START + 30 * MINUTE: 7}

    drawn = lanes.lanes(fires, counts, SHOWN)

    assert len(drawn) == lanes.MOST_LANES + 1
    assert (drawn[-1].job_id, drawn[-1].fires) == (None, 400 - lanes.MOST_LANES + 7)
    assert [batch.fires for batch in drawn[-1].batches] == [400 - lanes.MOST_LANES, 7]


def test_a_crowded_hour_is_drawn_with_few_things_to_click() -> None:
    fires = [_fire(f"job-{nth}", minute, 5) for nth in range(lanes.MOST_LANES) for minute in range(0, 60, 3)]

    drawn = lanes.lanes(fires, {}, SHOWN)

    assert sum(len(lane.batches) for lane in drawn) <= lanes.MOST_BATCHES
    assert all(lane.fires == 20 for lane in drawn)


def test_a_month_has_its_days_in_weeks_and_knows_what_the_clocks_do() -> None:
    counts = {from_rfc3339("2026-10-24T22:30:00Z"): 3, from_rfc3339("2026-10-25T22:30:00Z"): 1, from_rfc3339("2026-11-01T12:00:00Z"): 9}

    weeks = month.weeks(counts, date(2026, 10, 25), BERLIN, date(2026, 10, 24), from_rfc3339("2026-10-27T12:00:00Z"))

    days = {day.date.day: day for week in weeks for day in week if day is not None}
    assert len(days) == 31
    assert all(len(week) == 7 for week in weeks)
    assert weeks[0][:3] == [None, None, None]
    # Half past midnight in Berlin is another day than in UTC.
    assert (days[25].fires, days[25].level, days[25].peak) == (4, 4, (from_rfc3339("2026-10-24T22:30:00Z"), 3))
    assert days[25].note == "the clocks go back"
    assert (days[23].is_past, days[24].is_today, days[26].is_known, days[27].is_known) == (True, True, True, False)
    assert (month.before(date(2026, 1, 31)), month.following(date(2026, 1, 31))) == (date(2025, 12, 1), date(2026, 2, 1))


def test_an_hour_has_a_lane_for_each_job_and_is_walked_along_with_the_arrows(visit: Visit) -> None:
    page = visit("/upcoming?show=hour&day=2026-10-25")
    expect(page.locator("#hour-title")).to_have_text("72 fires of 8 jobs")
    expect(page.locator(".lanes tbody tr", has_text="thumbnails")).to_contain_text("60")
    assert page.locator(".lane a[tabindex='0']").count() == 1

    page.locator(".lanes tbody tr", has_text="refresh-totals").locator(".lane a").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")

    expect(page.locator("#opened")).to_contain_text("refresh-totals")
    expect(page).to_have_url(re.compile("show=hour&hour=\\d+&at=\\d+&span=1"))
    page.go_back()
    expect(page.locator("#opened")).to_have_count(0)


def test_hours_follow_one_another_and_the_address_says_which_it_is(visit: Visit) -> None:
    page = visit("/upcoming?show=hour")
    expect(page).to_have_title(re.compile("20:00 to 21:00"))
    assert page.get_by_role("link", name="Earlier").count() == 0
    page.get_by_role("link", name="Later").click()
    expect(page).to_have_title(re.compile("21:00 to 22:00"))
    page.reload()
    expect(page).to_have_title(re.compile("21:00 to 22:00"))
    page.get_by_label("Pool").select_option("media")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("#hour-title")).to_have_text("60 fires of 1 job")
    expect(page).to_have_title(re.compile("of media.*21:00 to 22:00"))
    page.get_by_role("link", name="This hour").click()
    expect(page).to_have_title(re.compile("20:00 to 21:00"))
    page.get_by_text("The lanes as a table").click()
    expect(page.locator("#hour details tbody tr").first).to_contain_text("thumbnails")


def test_a_month_leads_to_its_days_by_mouse_and_by_keyboard(visit: Visit) -> None:
    page = visit("/upcoming?show=month")
    expect(page.locator(".month [data-today]")).to_contain_text("today")
    expect(page.locator(".month")).to_contain_text("the clocks go back")
    page.get_by_role("link", name="Later").click()
    ready(page)
    expect(page).to_have_title(re.compile("^Upcoming, November 2026"))
    page.get_by_text("The days as a table").click()
    expect(page.locator("#month details tbody tr")).to_have_count(30)

    page.get_by_role("link", name=re.compile("^Tuesday 10 ")).focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name=re.compile("^Tuesday 17 "))).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile("day=2026-11-18"))
    expect(page).to_have_title(re.compile("^Upcoming, Wed 18 Nov"))
    page.get_by_role("link", name="Hour", exact=True).click()
    expect(page).to_have_title(re.compile("Wed 18 Nov, 00:00 to 01:00"))


def test_lanes_and_calendar_fit_a_phone(log_in: LogIn, fleet: Fleet) -> None:
    page = log_in(width=360)
    for show, part in (("hour", ".lanes"), ("month", ".month")):
        page.goto(f"{fleet.url}/upcoming?show={show}")
        ready(page)
        assert page.locator(part).evaluate("(table) => table.parentElement.scrollWidth <= table.parentElement.clientWidth"), show
        # Whatever can be touched is large enough for a finger.
        sizes = page.locator(f"{part} tbody a").evaluate_all(
            "(links) => links.map((link) => [link.getBoundingClientRect().width, link.getBoundingClientRect().height])"
        )
        assert sizes, show
        assert all(width >= 24 and height >= 24 for width, height in sizes), (show, sizes)


def test_the_times_that_a_calendar_excludes_are_found_to_the_minute() -> None:
    night = WeeklyWindow(days=(Weekday.SUN,), start=22 * 60, end=30)
    once = Window(start=START + 7 * MINUTE, end=START + 8 * MINUTE)
    calendar = Calendar(name="works", zone="Europe/Berlin", weekly=(night,), windows=(once,), holidays=(Holiday(day=date(2026, 10, 27)),))

    found = closed(calendar, START, from_rfc3339("2026-10-28T12:00:00Z"))

    assert [(to_rfc3339(start), to_rfc3339(end)) for start, end in found] == [
        ("2026-10-25T03:07:00Z", "2026-10-25T03:08:00Z"),
        ("2026-10-25T21:00:00Z", "2026-10-25T23:30:00Z"),
        ("2026-10-26T23:00:00Z", "2026-10-27T23:00:00Z"),
    ]
    # What has begun before is cut where the page begins, and one that goes on where it ends.
    assert closed(calendar, from_rfc3339("2026-10-27T05:00:00Z"), from_rfc3339("2026-10-27T06:00:00Z")) == [
        (from_rfc3339("2026-10-27T05:00:00Z"), from_rfc3339("2026-10-27T06:00:00Z"))
    ]


def test_a_cell_says_what_lies_over_it_beside_how_strong_it_is() -> None:
    over = Overlay([Stretch(START, START + 2 * MINUTE, "works", ("rule",))], {START + MINUTE: 2})

    line = hour_lines({START: 3}, START, START + 3 * MINUTE, BERLIN, START - 1, over=over)[0]

    assert [cell.kind for cell in line.cells] == ["h3", "p0", ""]
    assert [cell.is_maintained for cell in line.cells] == [True, True, False]
    assert not line.is_maintained
    assert [cell.paused for cell in line.cells] == [0, 2, 0]


def test_a_paused_job_is_hatched_where_it_would_fire_and_named_in_words(visit: Visit) -> None:
    page = visit("/upcoming?show=week")
    expect(page.locator("#map .overlay")).to_contain_text("Paused weekly-digest would fire Mon 26 Oct 07:30:00")
    expect(page.locator("#map .legend")).to_contain_text("a paused job would fire")
    cell = page.locator(".heat td[class^=p]:not(.past)")
    expect(cell).to_have_count(1)
    assert "repeating-linear-gradient" in cell.evaluate("(cell) => getComputedStyle(cell).backgroundImage")
    expect(page.locator(".heat caption")).to_contain_text("What follows a plus would fire, and is paused.")
    cell.get_by_role("link", name=re.compile(r"^\d+\+1$")).click()
    expect(page.locator("#opened")).to_contain_text("1 fire of paused jobs would be here: weekly-digest")

    page = visit("/upcoming?show=hour&hour=29883240")
    lane = page.locator(".lanes tr", has_text="weekly-digest")
    expect(lane).to_contain_text("paused")
    expect(lane.get_by_role("link", name="paused: weekly-digest: due 07:30")).to_be_visible()


def test_maintenance_lies_over_the_hours_that_it_takes_and_is_named_in_words(visit: Visit) -> None:
    page = visit("/upcoming?day=2026-10-25")
    expect(page.locator("#map .overlay")).to_contain_text("Maintenance Sun 25 Oct 04:30:00 to Sun 25 Oct 06:00:00")
    expect(page.locator("#map .overlay")).to_contain_text("calendar sunday-works, named by nightly-missed")
    # Half an hour, and an hour that is marked as a whole.
    expect(page.locator(".heat td.w")).to_have_count(30)
    expect(page.locator(".heat tr.w td")).to_have_count(60)
    page = visit("/upcoming?show=hour&hour=29881620")
    expect(page.get_by_role("img", name="sunday-works, 04:30 to 05:00")).to_be_visible()
    page = visit("/upcoming?show=month&day=2026-11-01")
    expect(page.locator(".month td.w")).to_have_count(5)
    expect(page.get_by_role("link", name=re.compile("^Sunday 8 .*maintenance"))).to_be_visible()
