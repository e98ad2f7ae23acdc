"""The API's calls on alerts, without any input or output: see `calls`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from duly.sdk.calls import JSON, Call, Request
from duly.sdk.encoding import encoded
from duly.wire.alerts import ChannelView, FireAuditView, IncidentView, PreviewView, RuleView, TestedView
from duly.wire.links import LinkView, NewLinkView
from duly.wire.shapes import Page

T = TypeVar("T")


def list_alerts(
    *, state: str | None = None, rule: str | None = None, limit: int = 50, cursor: str | None = None
) -> Call[Page[IncidentView]]:
    """Incidents, newest first."""
    return _get("/v1/alerts", Page[IncidentView], state=state, rule=rule, limit=limit, cursor=cursor)


def show_alert(incident_id: str) -> Call[IncidentView]:
    """One incident, with what was sent of it."""
    return _get(f"/v1/alerts/{incident_id}", IncidentView)


def snooze_alert(incident_id: str, *, for_sec: float | None) -> Call[IncidentView]:
    """Tell nobody of it for so long; None: somebody is again."""
    return _post(f"/v1/alerts/{incident_id}/snooze", {"forSec": for_sec}, IncidentView)


def list_rules() -> Call[Page[RuleView]]:
    """All rules, by name."""
    return _get("/v1/alert-rules", Page[RuleView])


def show_rule(name: str) -> Call[RuleView]:
    """One rule."""
    return _get(f"/v1/alert-rules/{quote(name, safe='')}", RuleView)


def set_rule(name: str, rule: Mapping[str, Any]) -> Call[RuleView]:
    """Make or change a rule."""
    return Call(Request("PUT", f"/v1/alert-rules/{quote(name, safe='')}", encoded(rule), JSON), RuleView)


def delete_rule(name: str) -> Call[RuleView]:
    """Delete a rule."""
    return Call(Request("DELETE", f"/v1/alert-rules/{quote(name, safe='')}"), RuleView)


def snooze_rule(name: str, *, for_sec: float | None) -> Call[RuleView]:
    """Tell nobody of what it sees for so long; None: somebody is again."""
    return _post(f"/v1/alert-rules/{quote(name, safe='')}/snooze", {"forSec": for_sec}, RuleView)


def preview_rule(rule: Mapping[str, Any], *, days: int = 30) -> Call[PreviewView]:
    """How often a rule would have fired."""
    return _post("/v1/alert-rules/preview", {"rule": rule, "days": days}, PreviewView)


def list_channels() -> Call[Page[ChannelView]]:
    """All channels, by name."""
    return _get("/v1/alert-channels", Page[ChannelView])


def show_channel(name: str) -> Call[ChannelView]:
    """One channel."""
    return _get(f"/v1/alert-channels/{quote(name, safe='')}", ChannelView)


def set_channel(name: str, channel: Mapping[str, Any]) -> Call[ChannelView]:
    """Make or change a channel."""
    return Call(Request("PUT", f"/v1/alert-channels/{quote(name, safe='')}", encoded(channel), JSON), ChannelView)


def delete_channel(name: str) -> Call[ChannelView]:
    """Delete a channel that no rule names."""
    return Call(Request("DELETE", f"/v1/alert-channels/{quote(name, safe='')}"), ChannelView)


def try_channel(name: str) -> Call[TestedView]:
    """Send a test, now."""
    return _post(f"/v1/alert-channels/{quote(name, safe='')}/test", {}, TestedView)


def missed_fires(*, open_only: bool = False, limit: int = 50, cursor: str | None = None) -> Call[FireAuditView]:
    """What should have fired and is not on record."""
    return _get("/v1/missed-fires", FireAuditView, state="OPEN" if open_only else None, limit=limit, cursor=cursor)


def list_links() -> Call[Page[LinkView]]:
    """Links to badges and calendars."""
    return _get("/v1/links", Page[LinkView])


def create_link(kind: str, *, job_id: str | None = None, expires_in_sec: float | None = None) -> Call[NewLinkView]:
    """Make a link; its path is shown this once."""
    return _post("/v1/links", {"kind": kind, "jobId": job_id, "expiresInSec": expires_in_sec}, NewLinkView)


def revoke_link(link_id: str) -> Call[LinkView]:
    """Revoke a link."""
    return Call(Request("DELETE", f"/v1/links/{link_id}"), LinkView)


def _get(path: str, answer: type[T], **query: Any) -> Call[T]:
    asked = urlencode({name: value for name, value in query.items() if value is not None})
    return Call(Request("GET", f"{path}?{asked}" if asked else path), answer, True)


def _post(path: str, body: Mapping[str, Any], answer: type[T]) -> Call[T]:
    return Call(Request("POST", path, encoded(body), JSON), answer)
