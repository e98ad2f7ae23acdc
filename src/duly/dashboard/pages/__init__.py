"""The screens, each a module of its own: what a page asks the API for, and which template shows it."""

from __future__ import annotations

from duly.dashboard import assets
from duly.dashboard.pages import (
    alerts,
    audit,
    cluster,
    compare,
    dead_letters,
    execution,
    executions,
    job,
    jobs,
    overview,
    tenants,
    upcoming,
    workers,
)
from duly.dashboard.refusal import refusal
from duly.http.app import Pages

SCREENS = (overview, upcoming, jobs, job, executions, execution, compare, dead_letters, workers, alerts, audit, tenants, cluster)
ROUTES = [*(route for screen in SCREENS for route in screen.ROUTES), *assets.ROUTES]


def pages() -> Pages:
    """The dashboard, to be served beside the API."""
    return Pages(ROUTES, refusal)
