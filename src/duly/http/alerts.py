"""Alerts: incidents, rules, channels, previews, tests; and the audit of fires."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from duly.domain.access import Role
from duly.domain.alerts.rule import parse_rule_name
from duly.domain.errors import Invalid
from duly.domain.ids import parse_job_id
from duly.domain.instants import SECOND, Instant, to_rfc3339
from duly.http.cursors import Cursor, Limit, MomentCursor, from_cursor, from_moment_cursor, to_cursor, to_moment_cursor
from duly.http.etags import IF_MATCH, IF_NONE_MATCH, PUT_IF, UNCHANGED, expected_of_put, expected_version, tagged, tagged_as_read
from duly.http.routing import Call, Reply, route
from duly.ports.alerts import ChannelRow, IncidentFilter
from duly.ports.fire_audit import MissedFilter
from duly.wire.alerts import (
    AlertName,
    ChannelShape,
    ChannelView,
    FireAuditView,
    IncidentView,
    PreviewShape,
    PreviewView,
    RuleShape,
    RuleView,
    SnoozeShape,
    TestedView,
    channel_of,
    channel_view,
    incident_view,
    missed_view,
    rule_of,
    rule_view,
    would_view,
)
from duly.wire.shapes import NothingShape, Page, moment, pattern

BAD_RULE = ("DULY-E103", "DULY-E106", "DULY-E114", "DULY-E135", "DULY-E160", "DULY-E209", "DULY-E255")
BAD_CHANNEL = ("DULY-E106", "DULY-E114", "DULY-E141", "DULY-E161", "DULY-E209")
ETAG = {"ETag": "What was answered, for If-None-Match and If-Match."}

RULES = {
    "missed": {"kind": "missed", "jobs": ["nightly-report"], "afterSec": 900, "channels": ["ops"]},
    "threeInARow": {"kind": "failures", "count": 3, "recovery": {"runs": 2}, "groupBy": "cause", "channels": ["ops"]},
    "pool": {"kind": "pool_saturated", "pools": ["gpu"], "afterSec": 600, "graceSec": 120},
}
CHANNELS = {
    "webhook": {"kind": "webhook", "url": "https://ops.example.com/duly", "secret": "env:DULY_SECRET_OPS"},
    "slack": {"kind": "slack", "secret": "file:slack-url"},
    "email": {"kind": "email", "to": ["ops@example.com"], "from": "duly@example.com", "host": "mail.example.com"},
}


class IncidentState(StrEnum):
    """Which incidents are listed."""

    OPEN = "OPEN"
    RESOLVED = "RESOLVED"


class IncidentQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which incidents to list."""

    state: IncidentState | None = None
    rule: AlertName | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class FlawState(StrEnum):
    """Which missed fires are listed."""

    OPEN = "OPEN"


class FireAuditQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which missed fires to list."""

    state: FlawState | None = None
    job_id: Annotated[str, Meta(extra_json_schema=pattern("^job_[0-9a-f]{32}$"))] | None = None
    limit: Limit = 50
    cursor: MomentCursor | None = None


@route("GET", "/v1/alerts", role=Role.VIEWER, answer=Page[IncidentView], problems=("DULY-E112", "DULY-E114", "DULY-E120"))
async def list_alerts(call: Call, query: IncidentQuery) -> Reply:
    """List incidents, newest first"""
    wanted = IncidentFilter(
        call.actor.tenant,
        None if query.state is None else query.state is IncidentState.OPEN,
        None if query.rule is None else parse_rule_name(query.rule, "rule"),
        from_cursor(query.cursor, call.listing),
        query.limit + 1,
    )
    found = await call.services.alerts.incidents(wanted)
    page = found[: query.limit]
    following = to_cursor(page[-1].id, call.listing) if len(found) > query.limit else None
    return Reply(Page(items=[incident_view(incident) for incident in page], next_cursor=following))


@route("GET", "/v1/alerts/{incidentId}", role=Role.VIEWER, answer=IncidentView, problems=("DULY-E111", "DULY-E257"))
async def show_alert(call: Call, incident_id: object) -> Reply:
    """Show an incident, and what was sent of it"""
    return Reply(incident_view(*await call.services.alerts.incident(call.actor, incident_id)))  # type: ignore[arg-type]


@route(
    "POST",
    "/v1/alerts/{incidentId}/snooze",
    role=Role.OPERATOR,
    answer=IncidentView,
    problems=("DULY-E105", "DULY-E106", "DULY-E111", "DULY-E257", "DULY-E258"),
    body_optional=True,
)
async def snooze_alert(call: Call, incident_id: object, body: SnoozeShape) -> Reply:
    """Tell nobody of an incident for a while"""
    until = _until(call, body)
    return Reply(incident_view(*await call.services.alerts.snooze(call.actor, incident_id, until)))  # type: ignore[arg-type]


@route("GET", "/v1/alert-rules", role=Role.VIEWER, answer=Page[RuleView])
async def list_alert_rules(call: Call) -> Reply:
    """List alert rules, by name"""
    return Reply(Page(items=[rule_view(row) for row in await call.services.alerts.rules(call.actor)]))


@route(
    "POST",
    "/v1/alert-rules/preview",
    role=Role.VIEWER,
    answer=PreviewView,
    problems=(*BAD_RULE[:-2], "DULY-E162"),
    examples={"missed": {"rule": RULES["missed"], "days": 30}},
)
async def preview_alert_rule(call: Call, body: PreviewShape) -> Reply:
    """How often a rule would have fired, by what is recorded"""
    found = await call.services.alerts.preview(call.actor, body.rule, body.days)
    times = len(found.would)
    often = "not have fired" if times == 0 else "have fired once" if times == 1 else f"have fired {times} times"
    words = f"This rule would {often} in the last {body.days} days."
    return Reply(
        PreviewView(words=words, times=times, incidents=[would_view(item) for item in found.would[-200:]], complete=found.complete)
    )


@route(
    "GET",
    "/v1/alert-rules/{name}",
    role=Role.VIEWER,
    answer=RuleView,
    also=UNCHANGED,
    problems=("DULY-E114", "DULY-E254"),
    request_headers=IF_NONE_MATCH,
    response_headers={"ETag": "What was answered, for If-None-Match and If-Match."},
)
async def show_alert_rule(call: Call, name: str) -> Reply:
    """Show an alert rule"""
    row = await call.services.alerts.rule(call.actor, name)
    return tagged(call, rule_view(row), row.version)


@route(
    "PUT",
    "/v1/alert-rules/{name}",
    role=Role.ADMIN,
    answer=RuleView,
    problems=BAD_RULE,
    request_headers=PUT_IF,
    response_headers=ETAG,
    examples=RULES,
)
async def set_alert_rule(call: Call, name: str, body: RuleShape) -> Reply:
    """Make or change an alert rule"""
    row = await call.services.alerts.put_rule(call.actor, rule_of(body, name), expected_of_put(call))
    return tagged_as_read(rule_view(row), row.version)


@route(
    "DELETE",
    "/v1/alert-rules/{name}",
    role=Role.ADMIN,
    answer=RuleView,
    problems=("DULY-E106", "DULY-E114", "DULY-E209", "DULY-E254"),
    request_headers=IF_MATCH,
)
async def delete_alert_rule(call: Call, name: str) -> Reply:
    """Delete an alert rule; what is open of it ends without a word"""
    return Reply(rule_view(await call.services.alerts.delete_rule(call.actor, name, expected_version(call))))


@route(
    "POST",
    "/v1/alert-rules/{name}/snooze",
    role=Role.OPERATOR,
    answer=RuleView,
    problems=("DULY-E105", "DULY-E106", "DULY-E114", "DULY-E209", "DULY-E254"),
    body_optional=True,
    request_headers=IF_MATCH,
)
async def snooze_alert_rule(call: Call, name: str, body: SnoozeShape) -> Reply:
    """Tell nobody of what a rule sees for a while"""
    return Reply(rule_view(await call.services.alerts.snooze_rule(call.actor, name, _until(call, body), expected_version(call))))


@route("GET", "/v1/alert-channels", role=Role.VIEWER, answer=Page[ChannelView])
async def list_alert_channels(call: Call) -> Reply:
    """List alert channels, by name"""
    return Reply(Page(items=[_channel(call, row) for row in await call.services.alerts.channels(call.actor)]))


@route(
    "GET",
    "/v1/alert-channels/{name}",
    role=Role.VIEWER,
    answer=ChannelView,
    also=UNCHANGED,
    problems=("DULY-E114", "DULY-E255"),
    request_headers=IF_NONE_MATCH,
    response_headers={"ETag": "What was answered, for If-None-Match and If-Match."},
)
async def show_alert_channel(call: Call, name: str) -> Reply:
    """Show an alert channel"""
    row = await call.services.alerts.channel(call.actor, name)
    return tagged(call, _channel(call, row), row.version)


@route(
    "PUT",
    "/v1/alert-channels/{name}",
    role=Role.ADMIN,
    answer=ChannelView,
    problems=BAD_CHANNEL,
    request_headers=PUT_IF,
    response_headers=ETAG,
    examples=CHANNELS,
)
async def set_alert_channel(call: Call, name: str, body: ChannelShape) -> Reply:
    """Make or change an alert channel"""
    row = await call.services.alerts.put_channel(call.actor, channel_of(body, name), expected_of_put(call))
    return tagged_as_read(_channel(call, row), row.version)


@route(
    "DELETE",
    "/v1/alert-channels/{name}",
    role=Role.ADMIN,
    answer=ChannelView,
    problems=("DULY-E106", "DULY-E114", "DULY-E209", "DULY-E255", "DULY-E256"),
    request_headers=IF_MATCH,
)
async def delete_alert_channel(call: Call, name: str) -> Reply:
    """Delete an alert channel that no rule names"""
    return Reply(_channel(call, await call.services.alerts.delete_channel(call.actor, name, expected_version(call))))


@route(
    "POST",
    "/v1/alert-channels/{name}/test",
    role=Role.OPERATOR,
    answer=TestedView,
    problems=("DULY-E114", "DULY-E255"),
    body_optional=True,
)
async def test_alert_channel(call: Call, name: str, body: NothingShape) -> Reply:
    """Send a test to an alert channel, now"""
    error = await call.services.alerts.test_channel(call.actor, name)
    return Reply(TestedView(is_sent=error is None, error=error))


@route("GET", "/v1/missed-fires", role=Role.VIEWER, answer=FireAuditView, problems=("DULY-E111", "DULY-E112", "DULY-E120"))
async def list_missed_fires(call: Call, query: FireAuditQuery) -> Reply:
    """What should have fired and is not on record, newest first, and up to when that was looked at"""
    wanted = MissedFilter(
        call.actor.tenant,
        None if query.job_id is None else parse_job_id(query.job_id),
        query.state is not None,
        from_moment_cursor(query.cursor, call.listing),
        query.limit + 1,
    )
    found, standing, count = await call.services.alerts.missed(wanted)
    page = found[: query.limit]
    following = to_moment_cursor(page[-1].at, page[-1].job_id, call.listing) if len(found) > query.limit else None
    return Reply(
        FireAuditView(
            audited_to=None if standing is None or not standing.audited_to else to_rfc3339(standing.audited_to),
            looked_at=0 if standing is None else standing.looked_at,
            open_count=count,
            items=[missed_view(item) for item in page],
            next_cursor=following,
        )
    )


def _until(call: Call, body: SnoozeShape) -> Instant | None:
    until = moment(body.until, "until")
    if until is not None and body.for_sec is not None:
        raise Invalid("DULY-E106", "does not go with until.", field="forSec")
    return until if body.for_sec is None else call.services.clock.now() + round(body.for_sec * SECOND)


def _channel(call: Call, row: ChannelRow) -> ChannelView:
    return channel_view(row, whole=call.actor.may(Role.ADMIN))


ROUTES = [
    list_alerts,
    show_alert,
    snooze_alert,
    list_alert_rules,
    preview_alert_rule,
    show_alert_rule,
    set_alert_rule,
    delete_alert_rule,
    snooze_alert_rule,
    list_alert_channels,
    show_alert_channel,
    set_alert_channel,
    delete_alert_channel,
    test_alert_channel,
    list_missed_fires,
]
