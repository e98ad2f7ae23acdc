"""Two runs beside each other: by mouse, by keyboard, by plain links, and what is said of them."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from duly.dashboard.pages.compare import difference
from tests.dashboard.conftest import ready
from tests.dashboard.fleet import NASTY, Fleet
from tests.http.conftest import VIEWER

Visit = Callable[[str], Page]
LogIn = Callable[..., Page]


def test_documents_are_compared_line_by_line_and_only_around_their_changes() -> None:
    before = {"region": "eu", "rows": [12345678901234567890, 2], **{f"k{nth:02}": nth for nth in range(20)}}
    after = {**before, "rows": [12345678901234567890, 3], "k19": "x"}

    found = difference(before, after)

    assert found is not None
    assert [line for line in found if line[0] in "-+"] == [
        ("-", "    2"),
        ("+", "    3"),
        ("-", '  "k19": 19'),
        ("+", '  "k19": "x"'),
    ]
    assert found.count(("…", "")) == 1
    assert (" ", "    12345678901234567890,") in found
    assert difference(before, dict(before)) is None
    assert difference(None, {"a": 1}) is not None


def test_shift_chooses_two_runs_of_the_grid_by_mouse(visit: Visit, fleet: Fleet) -> None:
    page = visit(f"/jobs/{fleet.jobs['charge-card']}")
    bars = page.locator(".run-grid a")
    newest, oldest = bars.last.get_attribute("data-run"), bars.first.get_attribute("data-run")
    bars.last.click(modifiers=["Shift"])
    expect(page.locator("[data-chosen]")).to_have_count(1)
    expect(page.locator("[data-chosen-runs]")).to_contain_text(f"…{(newest or '')[-8:]} is chosen")
    bars.first.click(modifiers=["Shift"])

    expect(page).to_have_url(re.compile(f"run={newest}&other={oldest}"))
    expect(page.get_by_role("heading", name="Compare two runs")).to_be_visible()
    assert len(page.context.pages) == 1
    page.get_by_role("link", name="Exchange them").click()
    expect(page).to_have_url(re.compile(f"run={oldest}&other={newest}"))


def test_shift_chooses_two_runs_by_keyboard_and_escape_takes_that_back(visit: Visit, fleet: Fleet) -> None:
    page = visit(f"/jobs/{fleet.jobs['charge-card']}")
    hint = page.locator("[data-chosen-runs]").inner_text()
    page.locator(".run-grid a").first.focus()
    page.keyboard.press("Shift+Enter")
    expect(page.locator("[data-chosen]")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator("[data-chosen]")).to_have_count(0)
    expect(page.locator("[data-chosen-runs]")).to_have_text(hint)
    page.keyboard.press("Shift+Enter")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+Enter")

    expect(page).to_have_url(re.compile("/compare"))
    ready(page)
    payload = page.get_by_role("group", name="Payload, line by line")
    expect(payload.locator(".removed")).to_contain_text('"order": 1004')
    expect(payload.locator(".added")).to_contain_text('"order": 1008')
    row = page.locator(".compare tr", has=page.get_by_role("rowheader", name="State"))
    expect(row).to_contain_text("dead")
    expect(row).to_contain_text("succeeded")
    expect(row).to_contain_text("differs")
    expect(page.locator(".compare tr", has=page.get_by_role("rowheader", name="Job"))).to_contain_text("same")
    expect(page.locator(".tries").first).to_contain_text("the bank did not answer for order 1004")
    page.get_by_role("button", name="This screen as a command").click()
    expect(page.get_by_role("dialog", name="This screen as a command")).to_contain_text("duly run compare run_")


def test_plain_links_and_a_form_lead_there_too(log_in: LogIn, fleet: Fleet) -> None:
    page = log_in(VIEWER)
    page.goto(f"{fleet.url}/jobs/{fleet.jobs['charge-card']}")
    page.get_by_role("link", name=re.compile("^Compare run_")).first.click()
    expect(page.locator("main .sub")).to_contain_text("the payload too")
    other = page.get_by_label("Before").locator("option").last.get_attribute("value")
    page.get_by_label("Before").select_option(other)
    page.get_by_role("button", name="Compare").click()
    expect(page).to_have_url(re.compile(f"other={other}"))
    page.goto(f"{fleet.url}/executions/{fleet.runs['dead']}")
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("heading", name="Attempts, on one scale")).to_be_visible()
    page.goto(f"{fleet.url}/compare?run={fleet.runs['succeeded']}")
    expect(page.get_by_role("heading", name="There is no run of nightly-report before it")).to_be_visible()
    page.goto(f"{fleet.url}/compare")
    expect(page.get_by_role("heading", name="Choose two runs")).to_be_visible()


def test_what_people_write_stays_text_when_it_is_compared(visit: Visit, fleet: Fleet) -> None:
    page = visit(f"/compare?run={fleet.runs['nasty']}&other={fleet.runs['dead']}")
    expect(page.get_by_role("group", name="Payload, line by line")).to_contain_text("<script>window.pwned=1</script>")
    expect(page.locator(".compare")).to_contain_text(NASTY[:60])
    assert page.evaluate("window.pwned") is None
    assert page.locator("img").count() == 0


def test_the_grid_is_walked_cell_by_cell_and_says_where_it_is(visit: Visit, fleet: Fleet) -> None:
    page = visit(f"/jobs/{fleet.jobs['warehouse']}")
    column = page.locator(".run-grid a").last
    column.focus()
    told = page.locator("[data-cell]")
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    expect(told).to_contain_text("extract_customers: succeeded. Run: running, due")
    expect(page.locator(".run-grid .cursor")).to_be_visible()
    page.keyboard.press("ArrowUp")
    expect(told).to_contain_text("extract_orders: succeeded")
    expect(page.locator("[data-announce]")).to_contain_text("extract_orders: succeeded")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/executions/run_"))


def test_the_grid_tells_what_is_under_the_pointer(visit: Visit, fleet: Fleet) -> None:
    page = visit(f"/jobs/{fleet.jobs['charge-card']}")
    svg = page.locator(".run-grid svg")
    top, tall = (int(svg.get_attribute(f"data-{name}") or 0) for name in ("top", "tall"))
    told = page.locator("[data-cell]")
    hint = told.inner_text()
    svg.hover(position={"x": 5, "y": top + tall / 2})
    expect(told).to_contain_text("attempt 1: failed. Run: dead, due")
    svg.hover(position={"x": 5, "y": top - 10})
    expect(told).to_have_text(re.compile("^dead, due"))
    page.get_by_role("heading", name="Runs", exact=True).hover()
    expect(told).to_have_text(hint)
    svg.click(position={"x": 5, "y": top + tall / 2})
    expect(page).to_have_url(re.compile("/executions/run_"))
    page.go_back()
    ready(page)
    page.get_by_role("navigation", name="How many runs").get_by_role("link", name="500").click()
    expect(page).to_have_url(re.compile("runs=500"))
    page.get_by_text("The rows as a table").click()
    expect(page.get_by_role("group", name="The rows as a table").get_by_role("row").last).to_contain_text("attempt 1")
