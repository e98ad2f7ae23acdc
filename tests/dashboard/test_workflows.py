"""Workflows in a real browser: the graph as it changes, its twins, and what people do to a run."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.dashboard.conftest import ready
from tests.dashboard.fleet import Fleet
from tests.http.conftest import VIEWER

Visit = Callable[[str], Page]


def _parcel(fleet: Fleet) -> str:
    """A run of its own, of which nothing has run yet."""
    return str(fleet.do(fleet.flows.begin("parcel")))


def test_the_graph_changes_as_steps_end_and_keeps_what_is_focused(visit: Visit, fleet: Fleet) -> None:
    run = _parcel(fleet)
    page = visit(f"/executions/{run}")
    hello = page.locator("#node-hello")
    expect(hello).to_have_attribute("class", re.compile("at-pending"))
    hello.focus()

    fleet.do(fleet.flows.work())

    expect(hello).to_have_attribute("class", re.compile("at-succeeded"))
    expect(hello).to_have_attribute("aria-label", re.compile("hello succeeded"))
    expect(hello).to_be_focused()
    expect(page.locator("#node-paid")).to_have_attribute("aria-label", re.compile("waits for signal payment"))
    hello.click()
    expect(page.locator("#head")).to_contain_text("Step hello of the run")


def test_a_run_is_signalled_approved_and_done_by_mouse(visit: Visit, fleet: Fleet) -> None:
    run = _parcel(fleet)
    fleet.do(fleet.flows.work())
    page = visit(f"/executions/{run}")

    page.get_by_role("button", name="Send the signal…").click()
    expect(page.get_by_label("Name")).to_have_value("payment")
    page.get_by_role("textbox", name="Payload").fill('{"amount": 12345678901234567890}')
    page.get_by_role("dialog").get_by_role("button", name="Send").click()
    page.get_by_role("button", name="Approve… sign_off").click()
    page.get_by_label("Reason").fill("it is paid")
    page.get_by_role("dialog").get_by_role("button", name="Approve").click()

    expect(page.locator("#node-sign_off")).to_have_attribute("class", re.compile("at-succeeded"))
    page.get_by_role("link", name="Table", exact=True).click()
    row = page.locator("#steps tbody tr", has_text="paid").first
    expect(row).to_contain_text("12345678901234567890")
    fleet.do(fleet.flows.work())
    expect(page.locator("#head .state").first).to_contain_text("succeeded")


def test_a_run_is_walked_along_paused_resumed_and_rejected_by_keyboard(visit: Visit, fleet: Fleet) -> None:
    run = _parcel(fleet)
    fleet.do(fleet.flows.work())
    fleet.ask("POST", f"/v1/executions/{run}/signal", {"name": "payment"})
    page = visit(f"/executions/{run}")

    page.locator("#node-hello").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#node-sign_off")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#node-paid")).to_be_focused()
    page.get_by_role("button", name="Pause", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#head h1")).to_contain_text("paused")
    page.get_by_role("button", name="Resume", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#head h1")).not_to_contain_text("paused")
    page.get_by_role("button", name="Reject… sign_off").focus()
    page.keyboard.press("Enter")
    page.keyboard.type("the address is wrong")
    page.keyboard.press("Enter")

    expect(page.locator("#node-sign_off")).to_have_attribute("class", re.compile("at-cancelled"))
    expect(page.locator("#node-ship")).to_have_attribute("class", re.compile("at-skipped"))


def test_what_failed_is_done_again_and_the_rest_is_taken_over(visit: Visit, fleet: Fleet) -> None:
    page = visit(f"/executions/{fleet.runs['flow-dead']}?steps=table")
    page.get_by_role("button", name="From here: run again from charge on").click()

    expect(page).not_to_have_url(re.compile(fleet.runs["flow-dead"]))
    ready(page)
    run = page.url.rsplit("/", 1)[1]
    fleet.do(fleet.flows.turn())
    expect(page.locator("#node-reserve")).to_have_attribute("class", re.compile("at-succeeded"))
    expect(page.locator("#node-charge")).to_have_attribute("class", re.compile("at-pending"))
    fleet.ask("POST", f"/v1/executions/{run}/cancel", {})


def test_the_table_and_the_gantt_tell_the_same_steps_and_lead_to_them(visit: Visit, fleet: Fleet) -> None:
    page = visit(f"/executions/{fleet.runs['flow']}")
    names = [step["name"] for step in fleet.ask("GET", f"/v1/executions/{fleet.runs['flow']}/steps")["steps"]]
    for view in ("Table", "Gantt"):
        page.get_by_role("link", name=view, exact=True).click()
        expect(page.locator("#steps tbody tr")).to_have_count(len(names))
        assert [name for name in names if page.locator("#steps tbody tr", has_text=name).count() == 0] == []
    expect(page.locator("#steps tbody tr", has_text="totals").locator(".gantt-line rect")).not_to_have_count(0)
    page.get_by_role("link", name="totals").click()
    expect(page.locator("#head")).to_contain_text("Step totals of the run")
    page.get_by_role("link", name="the run").click()
    expect(page.locator("#node-load")).to_contain_text("12/12")


def test_the_page_of_a_workflow_shows_its_declared_graph_and_its_twin(visit: Visit, fleet: Fleet) -> None:
    page = visit(f"/jobs/{fleet.jobs['warehouse']}")
    expect(page.get_by_role("img", name=re.compile("totals after load and check_customers"))).to_be_visible()
    page.get_by_text("The steps as a table").click()
    expect(page.locator(".twin tr", has_text="tell_somebody")).to_contain_text("when one before it has failed")


def test_who_may_only_look_sees_the_run_and_no_way_to_change_it(log_in: Callable[..., Page], fleet: Fleet) -> None:
    page = log_in(VIEWER)
    for path in (f"/executions/{fleet.runs['flow']}", f"/executions/{fleet.runs['flow-dead']}?steps=table"):
        page.goto(fleet.url + path)
        ready(page)
        expect(page.locator("#steps")).to_be_visible()
        assert page.locator("[data-act], [data-signal]").count() == 0
