"""The demo as somebody meets it: one command, a browser, and a night that passes in seconds."""

from __future__ import annotations

import re
import signal
from concurrent.futures import Executor
from pathlib import Path

import httpx
from playwright.sync_api import Browser, expect

from tests.cli.processes import Running
from tests.dashboard.conftest import PATIENCE_MS, ready
from tests.dashboard.test_browser import AXE, RULES
from tests.http.conftest import ADMIN

PASSED = "begun => Date.parse(document.querySelector('[data-demo-now]').dateTime) - begun > 15 * 60_000"


def test_one_command_shows_a_fleet_and_its_time_is_hurried_by_keyboard(browser: Browser, browser_thread: Executor, tmp_path: Path) -> None:
    running = Running.start("dev", "--demo", "--port", "0", home=tmp_path, DULY_ADMIN_KEY=ADMIN, TMPDIR=str(tmp_path))
    try:
        found = re.search(r"http://[\d.:]+", running.until("api "))
        assert found is not None
        url = found[0]
        running.ready()
        link = httpx.post(f"{url}/v1/sessions/link", json={}, headers={"authorization": f"Bearer {ADMIN}"}).json()["url"]
        context = browser.new_context(viewport={"width": 1360, "height": 860}, timezone_id="Europe/Berlin", reduced_motion="reduce")
        context.set_default_timeout(PATIENCE_MS)
        complaints: list[str] = []
        context.on("console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None)
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        page = context.new_page()
        page.goto(url + link[link.index("/login") :])
        page.get_by_role("button", name="Log in").click()
        ready(page)

        # A past is there, and what is wrong with it is said.
        expect(page.get_by_text(re.compile(r"import-supplier: \d+ dead letters")).first).to_be_visible()
        page.goto(f"{url}/jobs?q=nightly")
        ready(page)
        expect(page.get_by_role("link", name="nightly-report")).to_be_visible()
        page.evaluate(AXE)
        assert page.evaluate("async (rules) => (await axe.run(document, rules)).violations.map(each => each.id)", RULES) == []
        now = page.get_by_role("radio", name="1×", exact=True)
        expect(now).to_be_checked()
        begun = page.evaluate("Date.now()")
        now.focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        expect(page.get_by_role("radio", name="600×", exact=True)).to_be_checked()
        expect(page.locator("[data-demo-said]")).to_have_text("Demo time passes 600 times as fast as real time.")
        page.wait_for_function(PASSED, arg=begun)
        # The keys of the page are as quick as before.
        page.keyboard.press("Escape")
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("g")
        page.keyboard.press("e")
        page.wait_for_url(f"{url}/executions")
        ready(page)
        expect(page.get_by_role("radio", name="600×", exact=True)).to_be_checked()
        context.close()
        assert complaints == []
    finally:
        running.process.send_signal(signal.SIGINT)
        assert running.process.stdout is not None
        with running.process.stdout as printed:
            rest = printed.read()
        code = running.process.wait()
    assert (code, rest.strip().splitlines()[-1]) == (0, "Stopped.")
    assert [left.name for left in tmp_path.iterdir() if left.name.startswith("duly-demo-")] == []
