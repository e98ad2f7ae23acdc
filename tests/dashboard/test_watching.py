"""Alerts, the audit trail, tenants and the cluster in a real browser: what people do there, by mouse and by keyboard."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import PATIENCE_MS, ready
from tests.dashboard.fleet import Fleet
from tests.http.conftest import VIEWER

expect.set_options(timeout=PATIENCE_MS)

Visit = Callable[[str], Page]
LogIn = Callable[..., Page]
# Whatever changes something.
CHANGES = "[data-act], [data-snooze], [data-test-channel]"


def test_an_incident_says_what_why_since_when_and_who_was_told(visit: Visit, fleet: Fleet) -> None:
    page = visit("/alerts")
    row = page.locator("#incidents tbody tr", has_text="charge-card failed for good")
    expect(row).to_contain_text("TimeoutError: the bank did not answer")
    expect(row).to_contain_text("payments")
    expect(row).to_contain_text("events.pagerduty.com answered 503")
    row.get_by_role("link", name="charge-card failed for good").click()

    expect(page.get_by_role("heading", level=1)).to_contain_text("charge-card failed for good")
    expect(page.locator("#incident")).to_contain_text("Replay the dead letters when it is.")
    page.locator("#incident .lines a").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("charge-card")


def test_an_incident_is_snoozed_with_a_reason_and_that_is_undone(visit: Visit, fleet: Fleet) -> None:
    page = visit(f"/alerts?rule=payments#{fleet.incident('payments')}")
    page.get_by_role("button", name="Snooze charge-card").click()
    page.get_by_label("For how long").select_option("4 hours")
    page.get_by_label("Reason").fill("the bank knows")
    page.get_by_role("dialog").get_by_role("button", name="Snooze").click()

    row = page.locator("#incidents tbody tr").first
    expect(row).to_contain_text("Snoozed until")
    trail = fleet.ask("GET", "/v1/audit?action=alert.snooze")["items"][0]
    assert (trail["reason"], trail["channel"]) == ("the bank knows", "dashboard")

    page.get_by_role("button", name="Undo").click()
    expect(row).not_to_contain_text("Snoozed until")


def test_by_keyboard_a_rule_is_found_tried_on_the_past_and_snoozed(visit: Visit) -> None:
    page = visit("/")
    page.keyboard.press("g")
    page.keyboard.press("a")
    expect(page.get_by_role("heading", level=1)).to_contain_text("incidents open")
    ready(page)
    page.get_by_role("link", name="Rules").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Rules")).to_be_visible()
    ready(page)
    row = page.locator("#rule-payments")
    expect(row).to_contain_text("A run of charge-card fails for good.")
    row.get_by_role("button", name="Preview of payments").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("This rule would have fired")
    page.keyboard.press("Enter")
    expect(page.locator("dialog[open]")).to_have_count(0)
    row.get_by_role("button", name="Snooze payments").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("For how long")).to_be_focused()
    page.get_by_label("Reason").focus()
    page.keyboard.press("Enter")
    expect(row).to_contain_text("snoozed")
    row.get_by_role("button", name="End snooze of payments").focus()
    page.keyboard.press("Enter")
    expect(row).not_to_contain_text("snoozed")


def test_a_channel_is_tested_and_past_incidents_and_missed_fires_are_kept(visit: Visit) -> None:
    page = visit("/alerts?tab=channels")
    expect(page.locator("#channel-status-page")).to_contain_text("Posts to https://status.example.com/…")
    assert "s3cret-path" not in page.content()
    page.get_by_role("button", name="Send a test to finance").click()
    expect(page.locator("[data-toasts]")).to_contain_text("finance has taken the test.")

    page = visit("/alerts?tab=past")
    expect(page.locator("#incidents tbody tr")).to_contain_text("of its end")
    page = visit("/alerts?tab=missed")
    expect(page.locator("#missed tbody tr").first).to_contain_text("found after all")
    expect(page.locator("#missed tbody tr").nth(1)).to_contain_text("missing")


@pytest.mark.parametrize("path", ["/alerts", "/alerts?tab=rules", "/alerts?tab=channels", "/cluster"])
def test_who_may_only_look_is_offered_nothing_to_change(log_in: LogIn, fleet: Fleet, path: str) -> None:
    page = log_in(VIEWER)
    page.goto(fleet.url + path)
    ready(page)
    expect(page.locator("table.list").first).to_be_visible()
    assert page.locator("#store").count() == 0
    assert page.locator(CHANGES).count() == 0


def test_the_audit_trail_is_filtered_by_mouse_and_by_keyboard_and_verified(visit: Visit, fleet: Fleet) -> None:
    page = visit("/")
    # Whoever came before us did something that nobody has linked.
    fleet.do(fleet.watch.certify())
    page.keyboard.press("g")
    page.keyboard.press("i")
    expect(page.get_by_role("heading", name="Audit", level=1)).to_be_visible()
    ready(page)
    expect(page.locator("#chain")).to_contain_text("Chain verified to its end.")
    page.keyboard.press("/")
    page.keyboard.type("action:job.pause since:2h channel:api")
    rows = page.locator("[data-rows] tr")
    expect(rows.first).to_contain_text("job.pause")
    expect(rows.first).to_contain_text("the new template is not ready")
    expect(page).to_have_title("Audit: action:job.pause since:2h channel:api · duly")
    page.keyboard.press("Tab")
    page.locator("body").press("j")
    page.keyboard.press("Tab")
    expect(rows.first.get_by_role("link", name="job.pause")).to_be_focused()

    rows.first.locator("td").nth(3).get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("weekly-digest")
    page.go_back()
    expect(page.locator("#q")).to_have_value("action:job.pause since:2h channel:api")
    ready(page)
    page.get_by_role("button", name="Verify all of it").click()
    expect(page.locator("[data-toasts]")).to_contain_text("links are as they were written.")


def test_a_tenant_is_seen_beside_its_neighbours_and_given_another_weight_by_keyboard(visit: Visit, fleet: Fleet) -> None:
    page = visit("/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", level=1)).to_contain_text("1 quota is used up.")
    ready(page)
    expect(page.locator("#tenant-acme")).to_contain_text("2 of 2 full")
    expect(page.locator("#tenant-default")).to_contain_text("100 %")
    page.get_by_role("button", name="Change zebra").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Weight", exact=True)).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.type("75")
    page.get_by_label("Waiting", exact=True).fill("40")
    page.get_by_label("Reason").fill("they pay for more")
    page.keyboard.press("Enter")

    expect(page.locator("#tenant-zebra")).to_contain_text("75")
    expect(page.locator("#tenant-zebra")).to_contain_text("1 of 40")
    changed = fleet.ask("GET", "/v1/tenants/zebra")
    assert (changed["quotas"]["maxJobs"], changed["quotas"]["retentionDays"]) == (20, 14)
    assert fleet.ask("GET", "/v1/audit?action=tenant.change")["items"][0]["reason"] == "they pay for more"


def test_whoever_was_faster_with_a_tenant_is_not_overwritten(visit: Visit, fleet: Fleet) -> None:
    page = visit("/tenants")
    page.get_by_role("button", name="Change acme").click()
    fleet.ask("PUT", "/v1/tenants/acme", {"weight": 310})
    page.get_by_label("Weight", exact=True).fill("1")
    page.get_by_role("dialog").get_by_role("button", name="Change").click()

    expect(page.get_by_role("alert")).to_contain_text("has changed meanwhile")
    assert fleet.ask("GET", "/v1/tenants/acme")["weight"] == 310
    page.keyboard.press("Escape")
    fleet.ask("PUT", "/v1/tenants/acme", {"weight": 300})


def test_the_cluster_says_who_owns_which_shard_and_how_the_store_fares(visit: Visit) -> None:
    page = visit("/")
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Every shard has its owner.")
    ready(page)
    expect(page.locator("#dispatchers tbody tr")).to_have_count(3)
    expect(page.locator(".shards li.orphan")).to_have_count(0)
    page.get_by_text("As a table").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#shards tbody tr").first).to_contain_text("node-a:811:f3")
    expect(page.locator("#store")).to_contain_text("This kind of store cleans up at once")


def test_the_records_that_match_are_downloaded_line_by_line(visit: Visit, fleet: Fleet) -> None:
    page = visit("/audit?q=action:job.pause")

    with page.expect_download() as download:
        page.get_by_role("link", name="Download as JSONL").click()

    lines = [json.loads(line) for line in Path(download.value.path()).read_text(encoding="utf-8").splitlines()]
    assert download.value.suggested_filename == "audit.jsonl"
    assert {line["action"] for line in lines} == {"job.pause"}
    assert len(lines) == len(fleet.ask("GET", "/v1/audit?action=job.pause&limit=200")["items"])
