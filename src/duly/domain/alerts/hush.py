"""When nobody is told: somebody snoozed it, it is night for those who are told, or a maintenance window is on."""

from __future__ import annotations

from collections.abc import Sequence

from duly.domain.alerts.rule import Rule
from duly.domain.calendars import Calendar, is_closed_day, is_in_window
from duly.domain.instants import Instant


def hushed(rule: Rule, calendars: Sequence[Calendar], snoozed_until: Sequence[Instant | None], now: Instant) -> str | None:
    """Why nobody is told now; None: they are."""
    if any(until is not None and now < until for until in snoozed_until):
        return "snoozed"
    if rule.quiet is not None and _is_in(rule.quiet, now):
        return "quiet hours"
    named = next((calendar for calendar in calendars if _is_in(calendar, now)), None)
    return None if named is None else f"maintenance ({named.name})"


def _is_in(calendar: Calendar, now: Instant) -> bool:
    zone = calendar.zone or "UTC"
    return is_in_window((calendar,), zone, now) or is_closed_day((calendar,), zone, now)
