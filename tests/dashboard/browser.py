"""Chromium, driven by Playwright: the system's own, headless, one for a whole run of tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable() -> str | None:
    """Where Chromium is on this machine."""
    return next((found for name in NAMES if (found := shutil.which(name)) is not None), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser. Raises FileNotFoundError when there is none."""
    path = executable()
    if path is None:
        raise FileNotFoundError("Chromium is not installed")
    # Tests may run as root, in a container without /dev/shm: what isolates the tests is the container.
    flags = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--font-render-hinting=none"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        try:
            yield browser
        finally:
            browser.close()
