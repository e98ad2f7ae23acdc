"""What is said of an incident, in the shape that each channel takes. The incident's id goes along: whoever gets it twice can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duly.domain.alerts.evaluate import INCIDENT_PREFIX, About, Event, Incident, Phase
from duly.domain.durations import format_duration
from duly.domain.instants import MINUTE, SECOND, Instant, to_rfc3339

LONGEST_TITLE = 300
PAGERDUTY_EVENTS = "https://events.pagerduty.com/v2/enqueue"


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to tell: what happened to which incident. `home` is where the server is seen, where it knows its own address."""

    incident: Incident
    event: Event
    tenant_name: str
    home: str | None = None
    is_test: bool = False

    @property
    def incident_id(self) -> str:
        """As people and the wire see it."""
        return incident_text(self.incident)

    @property
    def url(self) -> str | None:
        """Its page on the dashboard. A test has none."""
        return None if self.home is None or self.is_test else f"{self.home.rstrip('/')}/alerts/{self.incident_id}"

    @property
    def dedup_key(self) -> str:
        """The same for all that is told of one incident."""
        return f"duly-{self.incident_id}"

    @property
    def title(self) -> str:
        """One line."""
        title = self.incident.about.title[:LONGEST_TITLE]
        if self.is_test:
            return f"Test: {title}"
        return title if self.event is Event.OPENED else f"Recovered: {title}, after {self.length}"

    @property
    def length(self) -> str:
        """How long it has lasted: from when the condition held."""
        micros = max((self.incident.resolved_at or self.incident.since) - self.incident.since, 0)
        step = SECOND if micros < 60 * MINUTE else MINUTE
        return format_duration(micros - micros % step)

    @property
    def text(self) -> str:
        """All of it, as plain text."""
        about = self.incident.about
        lines = [self.title, "", *about.lines]
        if about.note:
            lines += ["", about.note]
        told = [
            ("rule", self.incident.rule),
            ("since", to_rfc3339(self.incident.since)),
            ("incident", self.incident_id),
            ("owner", about.owner),
        ]
        lines += ["", *(f"{name}: {value}" for name, value in told if value)]
        return "\n".join([*lines, *([self.url] if self.url else [])])


def incident_text(incident: Incident) -> str:
    """The id as people and the wire see it: `inc_…`."""
    return INCIDENT_PREFIX + incident.id.hex


def trial_notice(incident_id: Any, tenant: int, tenant_name: str, channel: str, now: Instant) -> Notice:
    """What a test of a channel says."""
    about = About(kind="test", title=f"this is a test of the channel {channel}", lines=("Nothing is wrong: somebody pressed the button.",))
    made = Incident(
        id=incident_id, tenant=tenant, rule="test", subject="test", phase=Phase.OPEN, since=now, opened_at=now, is_told=True, about=about
    )
    return Notice(made, Event.OPENED, tenant_name, is_test=True)


def webhook_body(notice: Notice) -> dict[str, Any]:
    """For a webhook: everything."""
    incident, about = notice.incident, notice.incident.about
    return {
        "event": "alert.test" if notice.is_test else "alert.opened" if notice.event is Event.OPENED else "alert.resolved",
        "incidentId": notice.incident_id,
        "tenant": notice.tenant_name,
        "rule": incident.rule,
        "kind": about.kind,
        "subject": incident.subject,
        "title": notice.title,
        "lines": list(about.lines),
        "jobs": list(about.jobs),
        "owner": about.owner,
        "note": about.note,
        "since": to_rfc3339(incident.since),
        "openedAt": None if incident.opened_at is None else to_rfc3339(incident.opened_at),
        "resolvedAt": None if incident.resolved_at is None else to_rfc3339(incident.resolved_at),
        "lastedSec": None if incident.resolved_at is None else (incident.resolved_at - incident.since) / SECOND,
        "url": notice.url,
    }


def slack_body(notice: Notice) -> dict[str, Any]:
    """For an incoming webhook of Slack. Plain text in a block: what a job said cannot mention or link anybody."""
    sign = "✅" if notice.event is Event.RESOLVED else "🔔" if notice.is_test else "🔴"
    body = notice.text.partition("\n")[2].strip()[:2900]
    blocks = [{"type": "section", "text": {"type": "plain_text", "text": f"{sign} {notice.title}"[:2900]}}]
    blocks += [{"type": "section", "text": {"type": "plain_text", "text": body}}] if body else []
    return {"text": _slack_escaped(f"{sign} {notice.title}"), "blocks": blocks}


def pagerduty_body(notice: Notice, routing_key: str) -> dict[str, Any]:
    """For the events interface (version 2) that PagerDuty and those like it take: one `dedup_key` opens and resolves."""
    if notice.event is Event.RESOLVED:
        return {"routing_key": routing_key, "event_action": "resolve", "dedup_key": notice.dedup_key}
    incident, about = notice.incident, notice.incident.about
    body: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": "trigger",
        "dedup_key": notice.dedup_key,
        "payload": {
            "summary": notice.title,
            "source": f"duly/{notice.tenant_name}",
            "severity": "info" if notice.is_test else "error",
            "timestamp": to_rfc3339(incident.opened_at or incident.since),
            "component": incident.subject,
            "group": incident.rule,
            "class": about.kind,
            "custom_details": {"lines": list(about.lines), "note": about.note, "owner": about.owner},
        },
    }
    return body | ({"links": [{"href": notice.url, "text": "Duly"}]} if notice.url else {})


def _slack_escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
