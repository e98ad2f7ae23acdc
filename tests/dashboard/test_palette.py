"""The command palette in a real browser: screens, jobs, runs and actions, by keyboard alone and by mouse."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.dashboard.conftest import ready
from tests.dashboard.fleet import Fleet
from tests.dashboard.test_browser import AXE, RULES
from tests.http.conftest import VIEWER

Visit = Callable[[str], Page]
LogIn = Callable[..., Page]


def _open(page: Page, text: str) -> None:
    page.keyboard.press("Control+k")
    expect(page.locator("#palette-text")).to_be_focused()
    page.keyboard.type(text)


def test_a_screen_is_reached_by_keyboard_alone_from_wherever_one_types(visit: Visit) -> None:
    page = visit("/jobs")
    page.locator("#q").focus()
    _open(page, "dead")
    expect(page.locator("#palette").get_by_role("option", selected=True)).to_contain_text("Dead letters")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile("/dead-letters$"))


def test_a_job_and_its_runs_are_found_by_a_part_of_the_name_and_a_run_by_its_id(visit: Visit, fleet: Fleet) -> None:
    page = visit("/")
    _open(page, "tly-rep")
    expect(page.locator("#palette").get_by_role("option", name="Job nightly-report")).to_be_visible()
    expect(page.locator("#palette").get_by_role("option", name=re.compile("Run nightly-report …"))).to_be_visible()
    page.keyboard.press("ArrowUp")
    expect(page.locator("#palette").get_by_role("option", selected=True)).to_contain_text("Run")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(fleet.jobs["nightly-report"]))
    ready(page)

    _open(page, fleet.runs["dead"])
    expect(page.locator("#palette").get_by_role("option")).to_contain_text("charge-card")
    page.locator("#palette").get_by_role("option").click()
    expect(page).to_have_url(re.compile(fleet.runs["dead"]))
    ready(page)
    page.get_by_role("button", name="command palette").click()
    expect(page.locator("#palette").get_by_role("option", name=re.compile("Recent nightly-report"))).to_be_visible()


def test_a_job_is_paused_from_anywhere_and_the_pages_own_actions_are_offered(visit: Visit, fleet: Fleet) -> None:
    page = visit(f"/jobs/{fleet.jobs['search-index']}")
    _open(page, "pause search-ind")
    expect(page.locator("#palette").get_by_role("option", name=re.compile("Do Pause search-index"))).to_be_visible()
    page.keyboard.press("Enter")
    page.get_by_label("Reason").fill("the index is moved")
    page.keyboard.press("Enter")
    expect(page.locator("#head .state")).to_contain_text("paused")

    _open(page, "resum")
    expect(page.locator("#palette").get_by_role("option", selected=True)).to_contain_text("Here Resume")
    page.keyboard.press("Enter")
    expect(page.locator("#head .state")).to_contain_text("active")


def test_a_question_is_over_when_it_is_answered_however_slow_the_page_is(visit: Visit, fleet: Fleet) -> None:
    page = visit(f"/jobs/{fleet.jobs['search-index']}")
    held: list[Route] = []
    page.route(re.compile("part=grid"), lambda route: held.append(route))
    _open(page, "pause search-ind")
    expect(page.locator("#palette").get_by_role("option", name=re.compile("Do Pause search-index"))).to_be_visible()
    page.keyboard.press("Enter")
    page.get_by_label("Reason").fill("the index is moved")
    page.keyboard.press("Enter")

    expect(page.locator("#confirm")).to_be_hidden()
    expect(page.locator("#head .state")).to_contain_text("paused")
    _open(page, "resum")
    assert held, "the page is still being fetched"
    expect(page.locator("#palette").get_by_role("option", selected=True)).to_contain_text("Here Resume")
    # From here on they are let through, and those that were held as well.
    page.unroute_all()
    page.keyboard.press("Enter")
    expect(page.locator("#head .state")).to_contain_text("active")


def test_what_is_not_there_is_said_and_escape_gives_the_focus_back(visit: Visit) -> None:
    page = visit("/jobs")
    page.locator("#q").focus()
    _open(page, "<img src=x onerror=window.pwned=1>")
    expect(page.locator("#palette")).to_contain_text("Nothing here is called “<img src=x")
    assert page.evaluate("window.pwned") is None
    page.keyboard.press("Escape")
    expect(page.locator("#q")).to_be_focused()


def test_a_nasty_name_stays_text_and_who_may_only_look_is_offered_nothing_to_change(log_in: LogIn) -> None:
    page = log_in(VIEWER)
    _open(page, "nasty")
    expect(page.locator("#palette").get_by_role("option", name="Job nasty")).to_be_visible()
    page.locator("#palette-text").fill("pause nasty")
    expect(page.locator("#palette")).to_contain_text("Nothing here is called")
    assert page.evaluate("window.pwned") is None


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_palette_is_accessible(log_in: LogIn, theme: str) -> None:
    page = log_in(theme=theme)
    _open(page, "report")
    expect(page.locator("#palette").get_by_role("option", name="Job nightly-report")).to_be_visible()
    page.evaluate(AXE)
    violations = page.evaluate("async (rules) => (await axe.run('#palette', rules)).violations", RULES)
    assert [(each["id"], [node["html"][:160] for node in each["nodes"]]) for each in violations] == []
