"""The pictures in the README and the docs, made from the seeded fleet.

python -m tests.dashboard.screenshots                       those of the docs, into docs/images
python -m tests.dashboard.screenshots DIRECTORY [NAME …]    all of them, or these, to look at
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.dashboard.browser import chromium
from tests.dashboard.fleet import ZONE, Fleet

IN_DOCS = {"overview", "upcoming", "jobs", "job", "grid", "execution", "workflow", "dead-letters", "alerts", "audit", "tenants", "cluster"}
IMAGES = Path(__file__).parents[2] / "docs" / "images"
DESKTOP, PHONE = {"width": 1360, "height": 860}, {"width": 360, "height": 800}
SETS = (("light", "light", DESKTOP), ("dark", "dark", DESKTOP), ("phone", "light", PHONE))


def screens(fleet: Fleet) -> dict[str, str]:
    """Every screen and where it is."""
    return {
        "overview": "/",
        "overview-zoomed": "/?since=29881080&until=29881100",
        "upcoming": "/upcoming?day=2026-10-25",
        "upcoming-hour": "/upcoming?show=hour",
        "upcoming-hour-night": "/upcoming?show=hour&day=2026-10-25",
        "upcoming-hour-paused": "/upcoming?show=hour&hour=29883240",
        "upcoming-hour-maintained": "/upcoming?show=hour&hour=29881620",
        "upcoming-month": "/upcoming?show=month&day=2026-11-01",
        "upcoming-week": "/upcoming?show=week",
        "upcoming-load": "/upcoming?mode=load&pool=default",
        "spread": "/upcoming?show=spread&most=3",
        "jobs": "/jobs",
        "job": f"/jobs/{fleet.jobs['nightly-report']}",
        "job-runs": f"/jobs/{fleet.jobs['etl-hourly']}",
        "grid": f"/jobs/{fleet.jobs['order']}#grid",
        "versions": f"/jobs/{fleet.jobs['refresh-totals']}?tab=versions",
        "executions": "/executions",
        "execution": f"/executions/{fleet.runs['dead']}",
        "execution-succeeded": f"/executions/{fleet.runs['succeeded']}",
        "compare": f"/compare?run={fleet.runs['dead']}",
        "workflow": f"/executions/{fleet.runs['flow']}",
        "workflow-table": f"/executions/{fleet.runs['flow-dead']}?steps=table",
        "workflow-gantt": f"/executions/{fleet.runs['flow']}?steps=gantt",
        "workflow-job": f"/jobs/{fleet.jobs['warehouse']}",
        "dead-letters": "/dead-letters",
        "workers": "/workers",
        "alerts": "/alerts",
        "alerts-past": "/alerts?tab=past",
        "alert-rules": "/alerts?tab=rules",
        "alert-channels": "/alerts?tab=channels",
        "missed-fires": "/alerts?tab=missed",
        "incident": f"/alerts/{fleet.incident('payments')}",
        "audit": "/audit",
        "tenants": "/tenants",
        "cluster": "/cluster",
    }


def log_in(page: Page, fleet: Fleet) -> None:
    page.goto(fleet.link())
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(fleet.url + "/")
    page.wait_for_selector("html[data-ready]")


def take(browser: Browser, fleet: Fleet, directory: Path, only: set[str]) -> list[Path]:
    """A picture of each screen in each set."""
    directory.mkdir(parents=True, exist_ok=True)
    made = []
    for suffix, theme, size in SETS:
        context = browser.new_context(viewport=size, timezone_id=ZONE, locale="en-GB", color_scheme=theme, reduced_motion="reduce")
        page = context.new_page()
        log_in(page, fleet)
        for name, path in screens(fleet).items():
            if only and name not in only:
                continue
            page.goto(fleet.url + path)
            page.wait_for_selector("html[data-ready]")
            page.wait_for_selector("[data-live-chip][data-state=live]")
            made.append(directory / f"{name}-{suffix}.png")
            page.screenshot(path=made[-1], full_page=False)
        context.close()
    return made


if __name__ == "__main__":
    target, only = (Path(sys.argv[1]), set(sys.argv[2:])) if len(sys.argv) > 1 else (IMAGES, IN_DOCS)
    fleet = Fleet(is_nasty=False, orders=58).start()
    try:
        with chromium() as browser:
            for path in take(browser, fleet, target, only):
                print(path)
    finally:
        fleet.stop()
