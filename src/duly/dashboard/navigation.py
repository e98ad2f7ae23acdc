"""The places that every page leads to. A screen that is added here is in the sidebar, and has a key of its own after `g`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A screen: where it is, what it is called, its icon, and the key that leads there after `g`."""

    path: str
    label: str
    icon: str
    key: str
    # Those with less are not led there.
    role: str = "VIEWER"


PLACES = (
    Place("/", "Overview", "overview", "o"),
    Place("/upcoming", "Upcoming", "upcoming", "u"),
    Place("/jobs", "Jobs", "jobs", "j"),
    Place("/executions", "Executions", "executions", "e"),
    Place("/dead-letters", "Dead letters", "dead-letters", "d"),
    Place("/workers", "Workers", "workers", "w"),
    Place("/alerts", "Alerts", "alerts", "a"),
    Place("/audit", "Audit", "audit", "i", role="ADMIN"),
    Place("/tenants", "Tenants", "tenants", "t", role="ADMIN"),
    Place("/cluster", "Cluster", "cluster", "c"),
)
