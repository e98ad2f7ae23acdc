"""The overview's charts, zoomed by dragging and by buttons, and the runs of that time."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from duly.dashboard.pages.overview import OverviewQuery, twin_of, zoom_of
from duly.dashboard.terms import EXECUTION_KEYS, parse
from duly.domain.instants import MINUTE
from tests.dashboard.conftest import ready
from tests.dashboard.fleet import NOW, Fleet
from tests.http.conftest import VIEWER

Visit = Callable[[str], Page]
LogIn = Callable[..., Page]

MINUTE_NOW = NOW // MINUTE


def test_a_zoom_is_what_is_asked_for_or_the_last_hour() -> None:
    asked = zoom_of(OverviewQuery(since=MINUTE_NOW - 40, until=MINUTE_NOW - 20), NOW)

    assert (asked.is_chosen, asked.length) == (True, 20)
    assert asked.closer == {"since": MINUTE_NOW - 35, "until": MINUTE_NOW - 25}
    assert asked.wider == {"since": MINUTE_NOW - 50, "until": MINUTE_NOW - 10}
    assert asked.moved(20) == {"since": MINUTE_NOW - 20, "until": MINUTE_NOW}
    # Nothing leads past now.
    assert asked.moved(40) == {"since": MINUTE_NOW - 19, "until": MINUTE_NOW + 1}
    assert {asked.since, asked.until} <= set(asked.choices)
    assert zoom_of(OverviewQuery(since=MINUTE_NOW - 2, until=MINUTE_NOW), NOW).closer is None
    assert zoom_of(OverviewQuery(since=MINUTE_NOW - 600, until=MINUTE_NOW), NOW).wider is None


@pytest.mark.parametrize(("since", "until"), [(None, MINUTE_NOW), (MINUTE_NOW, MINUTE_NOW - 1), (MINUTE_NOW + 9, MINUTE_NOW + 19), (5, 90)])
def test_what_cannot_be_drawn_is_the_last_hour(since: int | None, until: int | None) -> None:
    found = zoom_of(OverviewQuery(since=since, until=until), NOW)

    assert (found.is_chosen, found.since, found.until) == (False, MINUTE_NOW - 59, MINUTE_NOW + 1)


def test_a_search_for_runs_knows_times_and_how_long_ago() -> None:
    terms = parse("since:2h until:2026-10-24T18:00:00Z", EXECUTION_KEYS, NOW)

    assert terms.wanted == {"since": "2026-10-24T16:40:00Z", "until": "2026-10-24T18:00:00Z"}


def _address(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def test_dragging_along_a_chart_zooms_all_of_them_and_leads_to_the_runs_of_that_time(visit: Visit) -> None:
    page = visit("/")
    chart = page.locator(".chart svg").nth(1)
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.4, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, y, steps=4)
    expect(page.locator(".brush")).to_have_count(3)
    page.mouse.up()

    expect(page).to_have_url(re.compile(r"since=\d+&until=\d+"))
    ready(page)
    since, until = int(_address(page)["since"][0]), int(_address(page)["until"][0])
    # Three tenths of a picture whose first tenth has no time in it.
    assert 18 <= until - since <= 22
    expect(page).to_have_title(re.compile(r"^Overview, \d\d:\d\d to \d\d:\d\d"))
    assert f"in {until - since} minutes" in (page.locator(".chart svg").first.get_attribute("aria-label") or "")
    page.get_by_role("link", name="Runs due then").click()
    expect(page.locator("#q")).to_have_value(re.compile("^since:2026-10-24T.*Z until:2026-10-24T.*Z$"))
    expect(page.locator("[data-rows] tr").first).to_be_visible()
    page.go_back()
    page.reload()
    expect(page).to_have_title(re.compile(r"^Overview, \d\d:\d\d to"))
    page.go_back()
    expect(page).to_have_title("Overview · duly")


def test_a_click_or_escape_zooms_nowhere(visit: Visit, fleet: Fleet) -> None:
    page = visit("/")
    chart = page.locator(".chart svg").first
    chart.click()
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 100, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 50)
    expect(page.locator(".brush")).to_have_count(3)
    page.keyboard.press("Escape")
    expect(page.locator(".brush")).to_have_count(0)
    page.mouse.up()
    assert page.url == fleet.url + "/"


def test_everything_is_done_by_buttons_too(visit: Visit, fleet: Fleet) -> None:
    page = visit("/")
    zoom = page.get_by_role("group", name="Time of the charts")
    expect(zoom).to_contain_text("the last hour")
    zoom.get_by_role("link", name="Zoom in").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("since="))
    first = _address(page)
    assert int(first["until"][0]) - int(first["since"][0]) == 30
    zoom.get_by_role("link", name="Earlier").click()
    expect(page).to_have_url(re.compile(f"until={first['since'][0]}"))
    zoom.get_by_role("link", name="Later").click()
    expect(page).to_have_url(re.compile(f"since={first['since'][0]}&until={first['until'][0]}"))
    zoom.get_by_role("link", name="Zoom out").click()
    expect(zoom.get_by_role("link", name="Zoom out")).to_have_count(0)
    zoom.get_by_label("From").select_option(label="20:00")
    zoom.get_by_label("to", exact=True).select_option(label="20:20")
    zoom.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile("since=29881080&until=29881100"))
    expect(zoom).to_contain_text("20:00 to 20:20")
    zoom.get_by_role("link", name="Last hour").click()
    expect(page).to_have_url(fleet.url + "/")


def test_charts_show_when_jobs_were_paused_and_have_a_table(visit: Visit, fleet: Fleet) -> None:
    job = fleet.jobs["gpu-train"]
    fleet.ask("POST", f"/v1/jobs/{job}/pause", {"reason": "the driver is new"})
    fleet.ask("POST", f"/v1/jobs/{job}/resume", {})
    page = visit("/")

    for kind in ("paused", "resumed"):
        # Each on all three charts. Others may have paused something too.
        expect(page.locator(f".chart .mark.{kind}")).not_to_have_count(0)
        assert page.locator(f".chart .mark.{kind}").count() % 3 == 0
        expect(page.locator(".legend.marks")).to_contain_text(kind)
    page.get_by_text("The charts as a table").click()
    table = page.get_by_role("group", name="The charts as a table")
    expect(table.locator("tbody tr", has_text=re.compile(r"(gpu-train|\d+ jobs) paused")).first).to_be_visible()
    ended = sum(int(text.replace(",", "")) for text in table.locator("tbody tr td:nth-child(2)").all_inner_texts())
    told = page.locator(".chart svg").first.get_attribute("aria-label") or ""
    assert int(told.split(" ")[0].replace(",", "")) >= ended > 0

    # What is open stays open when the charts are drawn anew.
    id = fleet.ask("POST", f"/v1/jobs/{job}/executions", {})["executionId"]
    fleet.ask("POST", f"/v1/executions/{id}/cancel", {})
    expect(table.locator("tbody tr").first.locator("td:nth-child(4)")).to_have_text(re.compile("[1-9]"))
    expect(table).to_be_visible()


def test_whoever_may_not_see_the_trail_is_not_sent_there(log_in: LogIn, fleet: Fleet) -> None:
    job = fleet.jobs["gpu-train"]
    fleet.ask("POST", f"/v1/jobs/{job}/pause", {})
    fleet.ask("POST", f"/v1/jobs/{job}/resume", {})
    page = log_in(VIEWER)

    expect(page.locator(".chart .mark.paused")).not_to_have_count(0)
    expect(page.get_by_role("link", name="Who did that")).to_have_count(0)


def test_one_of_many_folds_that_say_the_same_stays_open_alone(visit: Visit, fleet: Fleet) -> None:
    path = f"/v1/jobs/{fleet.jobs['gpu-train']}"
    plain = {"name": "gpu-train", "target": {"handler": "train", "pool": "gpu"}}
    for nth in (1, 2, 3):
        changed = {"timeoutSec": 60 + nth, "stopGraceSec": nth, "killGraceSec": nth, "maxQueued": nth, "description": f"turn {nth}"}
        fleet.ask("PUT", path, plain | changed)
    page = visit("/audit?q=action:job.change")
    folds = page.locator("[data-rows] details")
    says = folds.nth(1).inner_text()
    assert folds.first.inner_text() == says
    folds.first.locator("summary").click()
    opened = page.locator("[data-rows] tr").first.get_attribute("id")

    # Another record comes, and the list is drawn anew: not while the pointer is over it.
    page.mouse.move(0, 0)
    fleet.ask("PUT", path, plain)
    expect(page.locator("[data-rows] tr").first).not_to_have_id(str(opened))
    expect(page.locator("[data-rows] details[open]")).to_have_count(1)
    expect(page.locator(f"#{opened} details[open]")).to_have_count(1)


def test_the_table_of_the_charts_has_what_they_show() -> None:
    empty: dict[str, Any] = {"ended": {}, "latenessP50Ms": None, "latenessP95Ms": None, "latenessP99Ms": None, "running": 0.0}
    minutes = [dict(empty, at=f"2026-10-24T18:0{nth}:00Z") for nth in range(4)]
    minutes[1]["ended"] = {"DEAD": 2}
    minutes[2]["running"] = 0.5
    changes = [{"at": "2026-10-24T18:03:00Z", "action": "job.change", "jobs": 12, "jobId": None, "jobName": None}]

    assert [(row["at"][11:16], row["changes"]) for row in twin_of(minutes, changes)] == [
        ("18:03", ["12 jobs changed"]),
        ("18:02", []),
        ("18:01", []),
    ]
