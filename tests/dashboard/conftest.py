"""One browser and one seeded fleet for these tests of a process; a fresh, logged-in context for each.

Playwright's blocking calls keep an event loop running in their thread, and other tests need theirs free: so the browser has a thread
of its own, in which every test that drives it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from tests.dashboard.browser import chromium, executable
from tests.dashboard.fleet import ZONE, Fleet
from tests.http.conftest import ADMIN
from tests.services.missing import service_missing

# Generous: a machine under load is slow, not wrong.
PATIENCE_MS = 30_000

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="package")
def fleet() -> Iterator[Fleet]:
    made = Fleet().start()
    yield made
    made.stop()


@pytest.fixture(scope="package")
def browser_thread() -> Iterator[Executor]:
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="browser") as thread:
        yield thread


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that drives the browser runs in the browser's thread."""
    thread = pyfuncitem.funcargs.get("browser_thread")
    if not isinstance(thread, Executor):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    thread.submit(pyfuncitem.obj, **arguments).result()
    return True


@pytest.fixture(scope="package")
def browser(browser_thread: Executor) -> Iterator[Browser]:
    if executable() is None:
        service_missing("Chromium", "apt-get install chromium")
    opened = chromium()
    yield browser_thread.submit(opened.__enter__).result()
    browser_thread.submit(opened.__exit__, None, None, None).result()


@pytest.fixture
def log_in(fleet: Fleet, browser: Browser, browser_thread: Executor) -> Iterator[Callable[..., Page]]:
    """Opens a page with a session of its own. At the end no page may have complained."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_page(key: str = ADMIN, theme: str = "light", width: int = 1360) -> Page:
        size = {"width": width, "height": 860}
        context = browser.new_context(viewport=size, timezone_id=ZONE, locale="en-GB", color_scheme=theme, reduced_motion="reduce")
        context.set_default_timeout(PATIENCE_MS)
        # The server writes times in this zone from the first page on.
        context.add_cookies([{"name": "duly_zone", "value": ZONE, "url": fleet.url}])
        contexts.append(context)
        context.on("console", lambda message: complaints.extend(_complaint(message)))
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        page = context.new_page()
        page.goto(fleet.link(key))
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(fleet.url + "/")
        ready(page)
        return page

    yield open_page
    for context in contexts:
        browser_thread.submit(context.close).result()
    assert complaints == []


def _complaint(message: ConsoleMessage) -> list[str]:
    if "401 (Unauthorized)" in message.text or "412 (Precondition Failed)" in message.text:
        # The browser's own note that a session has ended, or that somebody else was faster, which is what a test may be about.
        return []
    return [f"{message.type}: {message.text} {message.location['url']}"] if message.type in ("error", "warning") else []


def ready(page: Page) -> None:
    """The scripts have begun, and the stream is open."""
    page.wait_for_selector("html[data-ready]")
    page.wait_for_selector("[data-live-chip][data-state=live]")


@pytest.fixture
def page(log_in: Callable[..., Page], browser_thread: Executor) -> Page:
    return browser_thread.submit(log_in).result()


@pytest.fixture
def visit(page: Page, fleet: Fleet) -> Callable[[str], Page]:
    """Go to a path of the dashboard."""

    def go(path: str) -> Page:
        page.goto(fleet.url + path)
        ready(page)
        return page

    return go
