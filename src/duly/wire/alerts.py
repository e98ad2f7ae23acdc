"""Alerts on the wire: rules, channels, incidents, previews, and fires that are missing."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, field

from duly.domain.alerts.channel import Channel, ChannelKind, Encryption
from duly.domain.alerts.evaluate import Event, Incident, Phase
from duly.domain.alerts.history import Would
from duly.domain.alerts.message import incident_text
from duly.domain.alerts.rows import ChannelRow, RuleRow, Sent
from duly.domain.alerts.rule import Condition, GroupBy, Kind, Recovery, Rule
from duly.domain.alerts.words import channel_words, masked_url, rule_words
from duly.domain.calendars import Calendar
from duly.domain.errors import Invalid
from duly.domain.fire_audit import Flaw, Missed
from duly.domain.ids import execution_text, fire_id, job_text
from duly.domain.instants import SECOND, Micros, to_rfc3339
from duly.domain.zones import load_zone
from duly.wire.calendars import CalendarShape, WeeklyShape, calendar_view
from duly.wire.shapes import NO_NUL, CalendarName, Moment, Name, PoolName, Shape, Text, View, ZoneName, shown
from duly.wire.specs import calendar_of

AlertName = CalendarName
Percent = Annotated[float, Meta(gt=0, le=100)]
Patience = Annotated[float, Meta(gt=0, le=31 * 86_400)]
Grace = Annotated[float, Meta(ge=0, le=86_400)]
SecretText = Annotated[str, Meta(max_length=210, description="env:NAME or file:NAME: what a server reads for it, never the secret.")]
Url = Annotated[str, Meta(max_length=2048)]


class RecoveryShape(Shape, kw_only=True):
    """When it is over: after so many good runs, below this percentage, once that has held for so long."""

    runs: Annotated[int, Meta(ge=1, le=50)] = 1
    percent: Annotated[float, Meta(ge=0, le=100)] | None = None
    after_sec: Grace = 0


class RuleShape(Shape, kw_only=True):
    """A rule. Which numbers matter, the kind says; without jobs or pools it watches all of them."""

    kind: Kind
    after_sec: Patience | None = None
    factor: Annotated[float, Meta(ge=1, le=100)] = 2.0
    count: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    percent: Percent | None = None
    least: Annotated[int, Meta(ge=1, le=50)] = 10
    window_sec: Patience | None = None
    jobs: Annotated[list[Name], Meta(max_length=50)] = field(default_factory=list)
    pools: Annotated[list[PoolName], Meta(max_length=50)] = field(default_factory=list)
    grace_sec: Grace = 0
    recovery: RecoveryShape = field(default_factory=RecoveryShape)
    group_by: GroupBy = GroupBy.JOB
    channels: Annotated[list[AlertName], Meta(max_length=20)] = field(default_factory=list)
    calendars: Annotated[list[CalendarName], Meta(max_length=8)] = field(default_factory=list)
    quiet_hours: Annotated[list[WeeklyShape], Meta(max_length=20)] = field(default_factory=list)
    timezone: ZoneName | None = None
    owner: Text | None = None
    note: Annotated[str, Meta(max_length=1000, extra_json_schema=NO_NUL)] | None = None
    enabled: bool = True


class RuleView(View, kw_only=True):
    """A rule as it is; what it was made with, and its name, version and snooze. `words` say it in a sentence."""

    name: str
    words: str
    version: int
    updated_at: str
    snoozed_until: str | None
    kind: str
    after_sec: float | None
    factor: float
    count: int | None
    percent: float | None
    least: int
    window_sec: float | None
    jobs: list[str]
    pools: list[str]
    grace_sec: float
    recovery: dict[str, Any]
    group_by: str
    channels: list[str]
    calendars: list[str]
    quiet_hours: list[dict[str, Any]]
    timezone: str | None
    owner: str | None
    note: str | None
    enabled: bool
    source: str | None


class PreviewShape(Shape, kw_only=True):
    """A rule that is tried on the past."""

    rule: RuleShape
    days: Annotated[int, Meta(ge=1, le=90)] = 30


class WouldView(View, kw_only=True):
    """An incident that there would have been; `until` null: it would be open now."""

    since: str
    until: str | None
    title: str


class PreviewView(View, kw_only=True):
    """How often the rule would have fired, in a sentence too; not `complete`: there was more history than was looked at."""

    words: str
    times: int
    incidents: list[WouldView]
    complete: bool


class ChannelShape(Shape, kw_only=True):
    """Where alerts go. `secret` names what is secret: a signing key, Slack's address, a routing key, a password."""

    kind: ChannelKind
    url: Url | None = None
    secret: SecretText | None = None
    to: Annotated[list[Annotated[str, Meta(max_length=320)]], Meta(max_length=20)] = field(default_factory=list)
    sender: Annotated[str, Meta(max_length=320)] | None = field(default=None, name="from")
    host: Annotated[str, Meta(max_length=253)] | None = None
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    user: Annotated[str, Meta(max_length=320)] | None = None
    encryption: Encryption = Encryption.STARTTLS
    enabled: bool = True


class ChannelView(View, kw_only=True):
    """A channel as it is. Whoever is no ADMIN sees of an address the host alone: the rest may be a secret."""

    name: str
    words: str
    version: int
    updated_at: str
    kind: str
    url: str | None
    secret: str | None
    to: list[str]
    sender: str | None = field(name="from")
    host: str | None
    port: int | None
    user: str | None
    encryption: str
    enabled: bool


class TestedView(View, kw_only=True):
    """Whether a channel took a test, and if not, why."""

    is_sent: bool
    error: str | None


class SnoozeShape(Shape, kw_only=True):
    """Until when nobody is told; with neither, from now on somebody is again."""

    until: Moment | None = None
    for_sec: Patience | None = None


class DeliveryView(View, kw_only=True):
    """What became of telling one channel of one event."""

    channel: str
    event: str
    tries: int
    sent_at: str | None
    given_up_at: str | None
    error: str | None


class IncidentView(View, kw_only=True):
    """One time that a rule's condition held. `hushed` says why nobody is told; `deliveries` are in the answer about one."""

    incident_id: str
    rule: str
    kind: str
    subject: str
    state: str
    title: str
    lines: list[str]
    jobs: list[str]
    owner: str | None
    note: str | None
    since: str
    opened_at: str | None
    resolved_at: str | None
    lasted_sec: float | None
    snoozed_until: str | None
    is_told: bool
    hushed: str | None
    deliveries: list[DeliveryView] = field(default_factory=list)


class MissedView(View, kw_only=True):
    """A fire that should be on record. `flaw`: nothing is recorded (MISSING), or it is and stands nowhere (NOWHERE)."""

    job_id: str
    job_name: str
    scheduled_at: str
    execution_id: str
    flaw: str
    found_at: str
    resolved_at: str | None


class FireAuditView(View, kw_only=True):
    """Where the audit of fires stands, and what it misses. `openCount` are those that have not come to light."""

    audited_to: str | None
    looked_at: int
    open_count: int
    items: list[MissedView]
    next_cursor: str | None = None


def rule_of(shape: RuleShape, name: str, source: str | None = None) -> Rule:
    """A rule from the wire; `check_rule` judges it."""
    quiet: Calendar | None = None
    if shape.timezone is not None:
        load_zone(shape.timezone)
        if not shape.quiet_hours:
            raise Invalid("DULY-E160", "goes with quietHours.", field="timezone", hint="Leave it out, or say when nobody is told.")
    if shape.quiet_hours:
        quiet = calendar_of(CalendarShape(timezone=shape.timezone, weekly=shape.quiet_hours), "quiet-hours")
    return Rule(
        name=name,
        condition=Condition(
            kind=shape.kind,
            after=_micros(shape.after_sec),
            factor=shape.factor,
            count=shape.count,
            percent=shape.percent,
            least=shape.least,
            window=_micros(shape.window_sec),
        ),
        jobs=tuple(shape.jobs),
        pools=tuple(shape.pools),
        grace=_micros(shape.grace_sec) or 0,
        recovery=Recovery(runs=shape.recovery.runs, percent=shape.recovery.percent, after=_micros(shape.recovery.after_sec) or 0),
        group_by=shape.group_by,
        channels=tuple(shape.channels),
        calendars=tuple(shape.calendars),
        quiet=quiet,
        owner=shape.owner,
        note=shape.note,
        enabled=shape.enabled,
        source=source,
    )


def rule_fields(rule: Rule) -> dict[str, Any]:
    """A rule in the words of the API."""
    condition, recovery = rule.condition, rule.recovery
    quiet: list[dict[str, Any]] = [] if rule.quiet is None else msgspec.to_builtins(calendar_view(rule.quiet, 0).weekly)
    return {
        "kind": rule.kind.value,
        "after_sec": _seconds(condition.after),
        "factor": condition.factor,
        "count": condition.count,
        "percent": condition.percent,
        "least": condition.least,
        "window_sec": _seconds(condition.window),
        "jobs": list(rule.jobs),
        "pools": list(rule.pools),
        "grace_sec": rule.grace / SECOND,
        "recovery": {"runs": recovery.runs, "percent": recovery.percent, "afterSec": recovery.after / SECOND},
        "group_by": rule.group_by.value,
        "channels": list(rule.channels),
        "calendars": list(rule.calendars),
        "quiet_hours": quiet,
        "timezone": None if rule.quiet is None else rule.quiet.zone,
        "owner": rule.owner,
        "note": rule.note,
        "enabled": rule.enabled,
        "source": rule.source,
    }


def rule_view(row: RuleRow) -> RuleView:
    """A rule as the API shows it."""
    return RuleView(
        name=row.rule.name,
        words=rule_words(row.rule),
        version=row.version,
        updated_at=to_rfc3339(row.updated_at),
        snoozed_until=shown(row.snoozed_until),
        **rule_fields(row.rule),
    )


def channel_of(shape: ChannelShape, name: str) -> Channel:
    """A channel from the wire; `check_channel` judges it."""
    return Channel(
        name=name,
        kind=shape.kind,
        url=shape.url,
        secret=shape.secret,
        to=tuple(shape.to),
        sender=shape.sender,
        host=shape.host,
        port=shape.port,
        user=shape.user,
        encryption=shape.encryption,
        enabled=shape.enabled,
    )


def channel_view(row: ChannelRow, *, whole: bool) -> ChannelView:
    """A channel as the API shows it."""
    channel = row.channel
    return ChannelView(
        name=channel.name,
        words=channel_words(channel),
        version=row.version,
        updated_at=to_rfc3339(row.updated_at),
        kind=channel.kind.value,
        url=channel.url if whole or channel.url is None else masked_url(channel.url),
        secret=channel.secret,
        to=list(channel.to),
        sender=channel.sender,
        host=channel.host,
        port=channel.port,
        user=channel.user,
        encryption=channel.encryption.value,
        enabled=channel.enabled,
    )


def would_view(would: Would) -> WouldView:
    """An incident of a preview."""
    return WouldView(since=to_rfc3339(would.since), until=shown(would.until), title=would.title)


def incident_view(incident: Incident, sent: list[Sent] | None = None) -> IncidentView:
    """An incident as the API shows it."""
    about, ended = incident.about, incident.resolved_at
    return IncidentView(
        incident_id=incident_text(incident),
        rule=incident.rule,
        kind=about.kind,
        subject=incident.subject,
        state="RESOLVED" if incident.phase is Phase.RESOLVED else "OPEN",
        title=about.title,
        lines=list(about.lines),
        jobs=list(about.jobs),
        owner=about.owner,
        note=about.note,
        since=to_rfc3339(incident.since),
        opened_at=shown(incident.opened_at),
        resolved_at=shown(ended),
        lasted_sec=None if ended is None else (ended - incident.since) / SECOND,
        snoozed_until=shown(incident.snoozed_until),
        is_told=incident.is_told,
        hushed=None if incident.is_told else about.hushed,
        deliveries=[_delivery(item) for item in sent or ()],
    )


def missed_view(item: Missed) -> MissedView:
    """A missed fire as the API shows it."""
    return MissedView(
        job_id=job_text(item.job_id),
        job_name=item.job_name,
        scheduled_at=to_rfc3339(item.at),
        execution_id=execution_text(fire_id(item.job_id, item.at)),
        flaw=Flaw(item.flaw).name,
        found_at=to_rfc3339(item.found_at),
        resolved_at=shown(item.resolved_at),
    )


def _delivery(item: Sent) -> DeliveryView:
    return DeliveryView(
        channel=item.channel,
        event="opened" if item.event is Event.OPENED else "resolved",
        tries=item.tries,
        sent_at=shown(item.sent_at),
        given_up_at=shown(item.given_up_at),
        error=item.error,
    )


def _micros(seconds: float | None) -> Micros | None:
    return None if seconds is None else round(seconds * SECOND)


def _seconds(micros: Micros | None) -> float | None:
    return None if micros is None else micros / SECOND
