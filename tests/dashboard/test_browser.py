"""The dashboard in a real browser: what people do there, by mouse and by keyboard, and what may never happen."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.dashboard.conftest import ready
from tests.dashboard.fleet import NASTY, Fleet
from tests.dashboard.screenshots import screens
from tests.http.conftest import VIEWER

Rules = dict[str, object]
AXE = (Path(__file__).parent / "vendor" / "axe" / "axe.min.js").read_text("utf-8")
RULES: Rules = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], "resultTypes": ["violations"]}
COLOURS: Rules = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
MORE_CONTRAST: Rules = {"runOnly": {"type": "rule", "values": ["color-contrast", "color-contrast-enhanced", "link-in-text-block"]}}
# Rows of one kind are alike: of long lists the first ones are looked at.
ALIKE = [
    [".heat tbody tr:nth-child(n+6)"],
    [".heat tbody td:nth-child(n+16)"],
    ["[data-rows] tr:nth-child(n+6)"],
    [".log li:nth-child(n+6)"],
]

Visit = Callable[[str], Page]
LogIn = Callable[..., Page]


def offences_on(page: Page, name: str, rules: Rules) -> list[object]:
    """Where the page breaks these rules, as axe says; it has been loaded there."""
    violations = page.evaluate("async ([exclude, rules]) => (await axe.run({ exclude }, rules)).violations", [ALIKE, rules])
    return [(name, each["id"], [node["html"][:160] for node in each["nodes"]][:3]) for each in violations]


def test_every_screen_is_accessible_has_its_own_title_and_is_small(log_in: LogIn, fleet: Fleet) -> None:
    page = log_in()
    nasty, why = f"/executions/{fleet.runs['nasty']}", f"/jobs/{fleet.jobs['gpu-train']}?tab=why"
    titles: dict[str, str] = {}
    offences: list[object] = []
    for name, path in {**screens(fleet), "nasty": nasty, "why": why}.items():
        answer = page.goto(fleet.url + path)
        assert answer is not None
        assert len(answer.body()) <= 100_000, name
        ready(page)
        page.evaluate(AXE)
        offences += offences_on(page, name, RULES)
        # The other theme has other colours, and nothing else.
        page.emulate_media(color_scheme="dark")
        offences += offences_on(page, f"{name}, dark", COLOURS)
        page.emulate_media(color_scheme="light")
        titles[name] = page.title()

    assert offences == []
    assert len(set(titles.values())) == len(titles), titles


def test_whoever_asks_for_more_contrast_has_it_on_every_kind_of_screen(log_in: LogIn, fleet: Fleet) -> None:
    page = log_in()
    page.emulate_media(contrast="more")
    offences: list[object] = []
    for name in ("overview", "upcoming", "spread", "jobs", "job", "execution", "workflow", "alerts"):
        page.goto(fleet.url + screens(fleet)[name])
        ready(page)
        assert page.evaluate("getComputedStyle(document.body).getPropertyValue('--page')").strip() == "#000"
        page.evaluate(AXE)
        offences += offences_on(page, name, MORE_CONTRAST)

    assert offences == []


def test_a_page_reflows_on_a_phone(log_in: LogIn, fleet: Fleet) -> None:
    page = log_in(width=360)
    for name, path in screens(fleet).items():
        page.goto(fleet.url + path)
        ready(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
        # A list is read downwards alone; only pictures are wider than the screen.
        wide = page.evaluate(
            "[...document.querySelectorAll('.table-wrap:has(> .list)')].filter((one) => one.scrollWidth > one.clientWidth)"
        )
        assert wide == [], name
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Workers", exact=True).click()
    expect(page.get_by_role("heading", name="Workers and pools")).to_be_visible()


def test_on_a_phone_a_row_says_what_its_columns_are_called_and_all_are_selected_at_once(log_in: LogIn, fleet: Fleet) -> None:
    page = log_in(width=360)
    page.goto(fleet.url + "/jobs")
    ready(page)
    cell = page.locator("[data-rows] tr", has_text="backups").locator("td[data-label='Schedule']")
    expect(cell).to_contain_text("Every day at 03:00")
    assert cell.evaluate("(cell) => getComputedStyle(cell, '::before').content") == '"Schedule"'
    page.get_by_label("Select all jobs on this page").check()
    expect(page.get_by_role("group", name="Selected jobs")).to_contain_text("selected")
    # It is still a table to those who hear it.
    expect(page.get_by_role("cell", name="Every day at 03:00 Berlin time").first).to_be_visible()


def test_what_people_write_stays_text(visit: Visit, fleet: Fleet) -> None:
    job, run = f"/jobs/{fleet.jobs['nasty']}", f"/executions/{fleet.runs['nasty']}"
    incident = f"/alerts/{fleet.incident('nasty')}"
    for path in (
        "/",
        "/jobs",
        job,
        f"{job}?tab=definition",
        run,
        "/dead-letters",
        "/alerts",
        "/alerts?tab=rules",
        incident,
        "/audit?q=action:job",
        "/audit?q=alert_rule.set",
    ):
        page = visit(path)
        assert page.evaluate("window.pwned") is None, path
        assert page.locator("img").count() == 0, path
        assert page.evaluate("[...document.scripts].every((script) => script.src !== '' && script.textContent === '')"), path
    page = visit(f"/executions/{fleet.runs['nasty']}")
    expect(page.locator("[data-log] li .message").first).to_contain_text(NASTY)
    assert "49" not in page.locator("#failure").inner_text()
    page.goto(fleet.url + "/jobs?q=" + "%3Cscript%3Ewindow.pwned%3D1%3C%2Fscript%3E")
    expect(page.locator("#q")).to_have_value("<script>window.pwned=1</script>")
    assert page.evaluate("window.pwned") is None


def test_a_change_is_seen_without_a_reload(visit: Visit, fleet: Fleet) -> None:
    page = visit("/executions")

    id = fleet.ask("POST", f"/v1/jobs/{fleet.jobs['gpu-train']}/executions", {})["executionId"]

    expect(page.locator(f"#run-{id}")).to_contain_text("pending")
    fleet.ask("POST", f"/v1/executions/{id}/cancel", {})
    expect(page.locator(f"#run-{id}")).to_contain_text("cancelled")


def test_live_updates_can_be_paused_and_what_was_missed_comes_afterwards(visit: Visit, fleet: Fleet) -> None:
    page = visit("/executions")
    page.keyboard.press("Space")
    chip = page.locator("[data-live-chip]")
    expect(chip).to_have_attribute("data-state", "paused")

    id = fleet.ask("POST", f"/v1/jobs/{fleet.jobs['gpu-train']}/executions", {})["executionId"]
    other = page.context.new_page()
    other.goto(fleet.url + "/executions")
    # Another tab of the same browser has seen it: the news has come, and this one held still.
    expect(other.locator(f"#run-{id}")).to_be_visible()
    assert page.locator(f"#run-{id}").count() == 0

    chip.click()
    expect(page.locator(f"#run-{id}")).to_be_visible()
    fleet.ask("POST", f"/v1/executions/{id}/cancel", {})


def test_tabs_of_one_browser_share_a_stream(visit: Visit, fleet: Fleet) -> None:
    page = visit("/jobs")
    streams: list[str] = []
    page.context.on("request", lambda request: streams.append(request.url) if request.url.endswith("/v1/events") else None)

    second = page.context.new_page()
    second.goto(fleet.url + "/executions")
    ready(second)
    id = fleet.ask("POST", f"/v1/jobs/{fleet.jobs['gpu-train']}/executions", {})["executionId"]

    expect(second.locator(f"#run-{id}")).to_be_visible()
    assert streams == []
    page.close()
    fleet.ask("POST", f"/v1/executions/{id}/cancel", {})
    expect(second.locator(f"#run-{id}")).to_contain_text("cancelled")
    assert len(streams) == 1


def test_a_filter_is_in_the_address_and_back_returns_to_it(visit: Visit) -> None:
    page = visit("/jobs")
    box = page.locator("#q")
    box.fill("state:paused")
    expect(page.locator("[data-rows] tr")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"q=state%3Apaused"))

    page.get_by_role("link", name="weekly-digest").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("weekly-digest")
    page.go_back()

    expect(page.locator("#q")).to_have_value("state:paused")
    expect(page.locator("[data-rows] tr")).to_have_count(1)
    page.go_back()
    expect(page.locator("#q")).to_have_value("")
    expect(page.locator("[data-rows] tr", has_text="invoices")).to_be_visible()


def test_a_search_that_means_nothing_says_so(visit: Visit) -> None:
    page = visit("/jobs?q=state%3Abroken")
    expect(page.get_by_role("heading", name="This search cannot be understood")).to_be_visible()
    page = visit("/jobs?q=no-such-job")
    expect(page.get_by_role("heading", name="No job matches")).to_be_visible()


def test_a_job_is_paused_with_a_reason_and_that_is_undone(visit: Visit, fleet: Fleet) -> None:
    page = visit(f"/jobs/{fleet.jobs['invoices']}")
    page.get_by_role("button", name="Pause…").click()
    page.get_by_label("Reason").fill("the bank is closed")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()

    expect(page.locator("#head .state")).to_contain_text("paused")
    expect(page.locator("#head")).to_contain_text("the bank is closed")

    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#head .state")).to_contain_text("active")


def test_several_jobs_are_paused_together_after_a_preview_and_resumed_by_undo(visit: Visit, fleet: Fleet) -> None:
    page = visit("/jobs")
    for name in ("crm-sync", "backups"):
        page.get_by_label(f"Select {name}").check()
    bar = page.get_by_role("group", name="Selected jobs")
    expect(bar).to_contain_text("2 selected")
    bar.get_by_role("button", name="Pause…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("crm-sync")
    dialog.get_by_role("button", name="Pause").click()

    expect(page.locator(f"#row-{fleet.jobs['crm-sync']}")).to_contain_text("paused")
    expect(page.locator(f"#row-{fleet.jobs['backups']}")).to_contain_text("paused")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(f"#row-{fleet.jobs['crm-sync']}")).not_to_contain_text("paused")


def test_a_fire_is_skipped_and_that_is_taken_back(visit: Visit, fleet: Fleet) -> None:
    page = visit(f"/jobs/{fleet.jobs['nightly-report']}")
    first = page.locator("#fires tbody tr").first
    expect(first).to_contain_text("02:30 happens twice")
    first.get_by_role("button").click()
    expect(first).to_contain_text("skipped")
    first.get_by_role("button", name="Take the skip").click()
    expect(first.get_by_role("button", name="Skip the fire")).to_be_visible()


def test_a_job_runs_with_another_payload_and_what_is_no_json_is_refused(visit: Visit, fleet: Fleet) -> None:
    page = visit(f"/jobs/{fleet.jobs['gpu-train']}")
    page.get_by_role("button", name="Run with…").click()
    page.get_by_label("Payload").fill('{"epoch": 12345678901234567890')
    page.get_by_role("dialog").get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_contain_text("not JSON")
    page.get_by_label("Payload").fill('{"epoch": 12345678901234567890}')
    page.get_by_role("dialog").get_by_role("button", name="Run").click()

    expect(page.locator("#values")).to_contain_text("12345678901234567890")
    expect(page.locator("#why")).to_contain_text("worker")
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the execution").click()
    expect(page.locator("#head .state")).to_contain_text("cancelled")


def test_log_lines_appear_as_they_are_written(visit: Visit, fleet: Fleet) -> None:
    id = fleet.runs["running-reindex"]
    page = visit(f"/executions/{id}")
    expect(page.locator("[data-log] li")).to_have_count(1)
    fence = {"workerId": fleet.workers["worker-a2"], "fence": int(fleet.runs["fence-reindex"])}
    lines = [{"message": f"<b>half</b> {NASTY}"}, {"message": "trouble", "level": "error"}]
    fleet.ask("POST", f"/v1/executions/{id}/log", {**fence, "lines": lines})

    expect(page.locator("[data-log] li")).to_have_count(3)
    expect(page.locator("[data-log] li .message").nth(1)).to_contain_text("<b>half</b>")
    page.locator("[data-log-level]").select_option("ERROR")
    expect(page.locator("[data-log] li:visible")).to_have_count(1)
    assert page.evaluate("window.pwned") is None


def test_dead_letters_are_replayed_after_a_dry_run_and_the_replay_is_aborted(visit: Visit, fleet: Fleet) -> None:
    page = visit("/dead-letters")
    row = page.locator("#groups tbody tr", has_text="charge-card")
    row.get_by_role("button", name="Replay…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Dry run: 7 match, 7 can be replayed, 0 cannot.")
    # All at once: what has a rate waits for its turn or does not, as fast as the machine is.
    dialog.get_by_label("At most per second").fill("")
    dialog.get_by_label("First only").fill("2")
    dialog.get_by_role("button", name="Replay").click()

    expect(page.locator("#batch")).to_contain_text("2 pending")
    expect(page.locator("#groups tbody tr", has_text="charge-card")).to_contain_text("5")
    page.locator("#batch").get_by_role("button", name="Abort").click()
    expect(page.locator("#batch")).to_contain_text("aborted")


def test_the_heat_map_is_walked_along_with_the_arrows(visit: Visit) -> None:
    page = visit("/upcoming?day=2026-10-25")
    expect(page.locator("#map")).to_contain_text("this hour comes twice")
    page.locator(".heat a").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.locator(".heat a[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    expect(page.locator("#opened")).to_contain_text("thumbnails")
    assert "at=" in page.url


def test_the_main_tasks_are_done_by_keyboard_alone(visit: Visit, fleet: Fleet) -> None:
    page = visit("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.get_by_role("heading", name="Jobs", level=1)).to_be_visible()
    ready(page)
    page.keyboard.press("/")
    page.keyboard.type("ledger")
    expect(page.locator("[data-rows] tr")).to_have_count(1)
    page.keyboard.press("Tab")
    page.locator("body").press("j")
    expect(page.get_by_role("link", name="ledger-close")).to_be_focused()
    page.keyboard.press("x")
    expect(page.get_by_label("Select ledger-close")).to_be_checked()
    page.get_by_role("link", name="ledger-close").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("ledger-close")
    ready(page)
    page.get_by_role("button", name="Pause…").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("by keys")
    page.keyboard.press("Enter")
    expect(page.locator("#head .state")).to_contain_text("paused")
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.get_by_role("button", name="Resume").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#head .state")).to_contain_text("active")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_hidden()


def test_the_theme_and_the_clock_are_remembered(visit: Visit) -> None:
    page = visit("/jobs")
    page.keyboard.press("t")
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator("[data-zone-name]")).to_have_text("Mine")
    page.locator("[data-zone-chip]").click()
    expect(page.locator("[data-zone-name]")).to_have_text("Job's zone")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.locator("[data-zone-chip]").click()
    expect(page.locator("[data-zone-name]")).to_have_text("UTC")
    expect(page.locator(".state").first).to_be_visible()


def test_a_screen_offers_itself_as_a_command(visit: Visit) -> None:
    page = visit("/jobs?q=state%3Apaused")
    page.get_by_role("button", name="This screen as a command").click()
    dialog = page.get_by_role("dialog", name="This screen as a command")
    expect(dialog).to_contain_text("duly job list --state paused")
    expect(dialog).to_contain_text('"$DULY_URL/v1/jobs?state=PAUSED"')


def test_who_may_only_look_is_offered_nothing_to_change(log_in: LogIn, fleet: Fleet) -> None:
    page = log_in(VIEWER)
    for path in ("/jobs", f"/jobs/{fleet.jobs['invoices']}", f"/executions/{fleet.runs['dead']}", "/dead-letters"):
        page.goto(fleet.url + path)
        ready(page)
        assert page.locator("[data-act], [data-select], [data-pause], [data-run-with], [data-bulk-act], [data-replay-with]").count() == 0, (
            path
        )


def test_without_a_session_a_page_says_how_to_log_in_and_logging_out_leads_there(page: Page, fleet: Fleet) -> None:
    page.get_by_role("button", name="Log out").click()

    expect(page.get_by_role("heading", name="Log in to Duly")).to_be_visible()
    expect(page.locator("body")).to_contain_text("duly login")


def test_upcoming_shows_the_load_on_the_slots_and_says_what_it_does_not_know(visit: Visit) -> None:
    page = visit("/upcoming?day=2026-10-25")
    page.get_by_role("link", name="Load", exact=True).click()

    expect(page.locator("#map-title")).to_contain_text("slots")
    expect(page.locator("#map")).to_contain_text("too few runs are known")
    expect(page).to_have_url(re.compile("mode=load"))


def test_upcoming_shows_the_load_of_one_pool_chosen_by_keyboard(visit: Visit) -> None:
    page = visit("/upcoming?mode=load")
    whole = page.locator("#map-title").inner_text()
    page.get_by_label("Pool").focus()
    page.keyboard.type("media")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile("mode=load.*pool=media"))
    expect(page.locator("#map-title")).to_contain_text("of 4 slots")
    assert page.locator("#map-title").inner_text() != whole
    expect(page).to_have_title(re.compile("^Upcoming load of media"))
    page.locator(".heat a").first.click()
    expect(page.locator("#opened")).to_contain_text("thumbnails")
    assert "etl-hourly" not in page.locator("#opened").inner_text()
    page.go_back()
    expect(page.get_by_label("Pool")).to_have_value("media")


def test_a_crowded_minute_is_spread_after_a_preview_and_that_is_undone(visit: Visit, fleet: Fleet) -> None:
    target = {"handler": "herd.one", "pool": "herd"}
    herd = [fleet.ask("POST", "/v1/jobs", {"name": f"herd-{n}", "schedule": "0 5 * * *", "target": target})["jobId"] for n in range(6)]
    try:
        page = visit("/upcoming?show=spread&most=2&pool=herd")
        expect(page.locator("#spread-title")).to_contain_text("4 moves: at most 6 in a minute now")
        page.get_by_role("checkbox", name="Move herd-5").uncheck()
        page.get_by_role("button", name="Apply 3…").click()
        page.get_by_label("Reason").fill("five is crowded")
        page.keyboard.press("Enter")

        expect(page.locator("[data-toasts]")).to_contain_text("Moved 3 of 3.")
        moved = [fleet.ask("GET", f"/v1/jobs/{id}")["schedule"] for id in herd]
        assert (moved.count("H 5 * * *"), moved[5]) == (3, "0 5 * * *")
        assert fleet.ask("GET", "/v1/audit?action=job.change")["items"][0]["reason"] == "five is crowded"

        page.get_by_role("button", name="Undo").click()
        expect(page.locator("[data-toasts]")).to_contain_text("3 moved back.")
        expect(page.locator("#spread-title")).to_contain_text("4 moves")
        # What was not wanted is still not.
        expect(page.get_by_role("button", name="Apply 3…")).to_be_visible()
        assert {fleet.ask("GET", f"/v1/jobs/{id}")["schedule"] for id in herd} == {"0 5 * * *"}
    finally:
        for id in herd:
            fleet.ask("DELETE", f"/v1/jobs/{id}")


def test_who_may_not_change_jobs_sees_the_moves_and_no_way_to_make_them(log_in: LogIn, fleet: Fleet) -> None:
    page = log_in(VIEWER)
    page.goto(fleet.url + "/upcoming?show=spread&most=3")

    expect(page.locator("#spread-title")).to_contain_text("moves: at most 5 in a minute now")
    assert page.get_by_role("button", name="Apply").count() == 0
    assert page.get_by_role("checkbox", name=re.compile("Move")).count() == 0
    page.goto(fleet.url + "/upcoming?show=spread&most=100")
    expect(page.locator("#spread-title")).to_have_text("No minute is crowded")
