"""Lists as they stand, saved under a name in the browser, or copied as a link."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import ready
from tests.dashboard.fleet import NASTY, Fleet
from tests.dashboard.test_browser import AXE, RULES
from tests.http.conftest import VIEWER

Visit = Callable[[str], Page]
LogIn = Callable[..., Page]


def _save(page: Page, name: str) -> None:
    page.get_by_role("button", name="Save view…").click()
    page.get_by_label("Name").fill(name)
    page.keyboard.press("Enter")
    expect(page.locator("dialog[open]")).to_have_count(0)


def test_a_view_is_saved_listed_above_its_list_and_found_in_the_palette(visit: Visit, fleet: Fleet) -> None:
    page = visit("/jobs")
    page.locator("#q").fill("state:paused")
    expect(page).to_have_url(re.compile("state%3Apaused"))
    _save(page, "What rests")
    views = page.get_by_role("list", name="Saved views")
    expect(views.get_by_role("link", name="What rests")).to_have_attribute("aria-current", "true")

    page = visit("/executions?q=state%3Adead&cursor=")
    expect(page.get_by_role("list", name="Saved views")).to_have_count(0)
    page.keyboard.press("Control+k")
    page.keyboard.type("what re")
    expect(page.locator("#palette").get_by_role("option", selected=True)).to_contain_text("View What rests jobs")
    page.keyboard.press("Enter")

    expect(page).to_have_url(fleet.url + "/jobs?q=state%3Apaused")
    expect(page.locator("[data-rows] tr")).to_have_count(1)
    ready(page)
    page.locator("#q").fill("")
    expect(views.get_by_role("link", name="What rests")).not_to_have_attribute("aria-current", "true")


def test_a_view_is_replaced_by_its_name_removed_and_brought_back(visit: Visit) -> None:
    page = visit("/upcoming?show=week&pool=mail")
    _save(page, "Mail")
    page = visit("/upcoming?show=month&pool=mail")
    _save(page, "Mail")
    views = page.get_by_role("list", name="Saved views")
    expect(views.get_by_role("listitem")).to_have_count(1)
    expect(views.get_by_role("link", name="Mail")).to_have_attribute("href", "/upcoming?show=month&pool=mail")

    page.get_by_role("button", name="Remove the view Mail").focus()
    page.keyboard.press("Enter")
    expect(views).to_have_count(0)
    expect(page.get_by_role("button", name="Save view…")).to_be_focused()
    page.get_by_role("button", name="Undo").click()
    expect(views.get_by_role("link", name="Mail")).to_be_visible()
    page.reload()
    expect(views.get_by_role("link", name="Mail")).to_be_visible()


def test_what_is_called_like_script_stays_text_and_what_is_no_view_is_left_out(visit: Visit) -> None:
    page = visit("/dead-letters")
    _save(page, NASTY)
    expect(page.locator(".views .chip")).to_contain_text("<script>window.pwned=1</script>")
    assert page.evaluate("window.pwned") is None
    page.evaluate(
        """() => {
            const key = Object.keys(localStorage).find((name) => name.startsWith("duly-views"));
            const bad = [{ name: "away", path: "//evil.example", query: "" }, { name: "run", path: "javascript:x", query: "" }, 7, null];
            localStorage.setItem(key, JSON.stringify([...bad, { name: "good", path: "/dead-letters", query: "" }]));
        }"""
    )
    page.reload()
    expect(page.locator(".views .chip")).to_have_text(["good"])
    page.evaluate("localStorage.setItem(Object.keys(localStorage).find((name) => name.startsWith('duly-views')), '{broken')")
    page.reload()
    ready(page)
    expect(page.get_by_role("button", name="Save view…")).to_be_visible()


def test_a_name_is_demanded(visit: Visit) -> None:
    page = visit("/jobs")
    page.get_by_role("button", name="Save view…").click()
    page.get_by_label("Name").fill("   ")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("Give it a name.")


def test_the_link_of_a_list_is_copied_without_what_passes(visit: Visit, fleet: Fleet) -> None:
    page = visit("/executions?q=state%3Adead")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("[data-toasts]")).to_contain_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == fleet.url + "/executions?q=state%3Adead"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_saved_views_are_accessible_to_whoever_may_look(log_in: LogIn, fleet: Fleet, theme: str) -> None:
    page = log_in(VIEWER, theme=theme)
    page.goto(fleet.url + "/executions")
    ready(page)
    _save(page, "Everything")
    expect(page.get_by_role("list", name="Saved views")).to_be_visible()
    page.evaluate(AXE)
    violations = page.evaluate("async (rules) => (await axe.run('.views', rules)).violations", RULES)
    assert [(each["id"], [node["html"][:160] for node in each["nodes"]]) for each in violations] == []
