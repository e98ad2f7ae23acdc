"""`duly alert`: incidents, rules, channels, links, and fires that are missing."""

from __future__ import annotations

from typing import Any

from duly.cli import output, remote
from duly.cli.errors import FAILURE, OK
from duly.cli.output import Column
from duly.cli.parsing import Arguments, Command, Group, Parser, remote_options
from duly.cli.values import json_value
from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid
from duly.domain.instants import SECOND
from duly.sdk import alert_calls
from duly.wire.alerts import ChannelView, IncidentView, MissedView, RuleView
from duly.wire.links import LinkView

# What `show --json` prints and a definition does not have.
_NOT_DEFINED = ("name", "words", "version", "updatedAt", "snoozedUntil", "source")


def _configure_list(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="those that are over as well")
    parser.add_argument("--rule", help="of this rule only")
    parser.add_argument("-n", "--limit", type=int, default=50, help="at most so many")
    remote_options(parser)


def _list(arguments: Arguments) -> int:
    out = output.of(arguments)
    state = None if arguments.all else "OPEN"
    with remote.connect(arguments) as client:
        found = client.send(alert_calls.list_alerts(state=state, rule=arguments.rule, limit=arguments.limit)).items
    out.rows(_INCIDENTS, found, name=lambda incident: incident.incident_id)
    if not found:
        out.say("Nothing is wrong." if state else "Nothing was ever wrong.")
    return OK


def _configure_incident(parser: Parser) -> None:
    parser.add_argument("incident", metavar="INCIDENT", help="the id, such as inc_0198…")
    remote_options(parser)


def _show(arguments: Arguments) -> int:
    with remote.connect(arguments) as client:
        incident = client.send(alert_calls.show_alert(arguments.incident))
    sent = "\n".join(
        f"{item.channel}: {item.event} {'sent ' + output.relative(item.sent_at) if item.sent_at else item.error or 'to be sent'}"
        for item in incident.deliveries
    )
    fields = [
        ("incident", incident.incident_id),
        ("state", incident.state),
        ("what", incident.title),
        ("why", "\n".join(incident.lines) or None),
        ("rule", incident.rule),
        ("since", output.relative(incident.since)),
        ("over", None if incident.resolved_at is None else output.relative(incident.resolved_at)),
        ("owner", incident.owner),
        ("note", incident.note),
        ("not told", incident.hushed),
        ("told", sent or None),
    ]
    output.of(arguments).one(fields, incident, name=incident.incident_id)
    return OK


def _configure_snooze(parser: Parser) -> None:
    parser.add_argument("what", metavar="INCIDENT|RULE", help="an incident's id, or the name of a rule")
    parser.add_argument("--for", dest="length", metavar="DURATION", help="how long, such as 2h")
    parser.add_argument("--end", action="store_true", help="tell of it again from now on")
    remote_options(parser)


def _snooze(arguments: Arguments) -> int:
    if arguments.end == (arguments.length is not None):
        raise Invalid("DULY-E604", "Say for how long, or that it ends.", hint="--for 2h, or --end.")
    seconds = None if arguments.end else parse_duration(arguments.length, field="--for") / SECOND
    what: str = arguments.what
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        if what.startswith("inc_"):
            until = client.send(alert_calls.snooze_alert(what, for_sec=seconds)).snoozed_until
        else:
            until = client.send(alert_calls.snooze_rule(what, for_sec=seconds)).snoozed_until
    out.say(f"Nobody is told before {until}." if until else "Somebody is told again.")
    return OK


def _rules(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        found = client.send(alert_calls.list_rules()).items
    out.rows(_RULES, found, name=lambda rule: rule.name)
    if not found:
        out.say("There are no rules yet. `duly alert set-rule -h` shows how to make one.")
    return OK


def _configure_named(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME")
    remote_options(parser)


def _rule(arguments: Arguments) -> int:
    with remote.connect(arguments) as client:
        rule = client.send(alert_calls.show_rule(arguments.name))
    output.of(arguments).one(_rule_fields(rule), rule, name=rule.name)
    return OK


def _configure_file(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("file", metavar="FILE", help="as the API takes it, in JSON; - reads standard input")
    remote_options(parser)


def _definition(arguments: Arguments) -> dict[str, Any]:
    given: Any = json_value(arguments.file if arguments.file == "-" else f"@{arguments.file}", "FILE")
    if not isinstance(given, dict):
        raise Invalid(
            "DULY-E107", "is not a JSON object.", field="FILE", hint='For example {"kind": "final_failure", "channels": ["ops"]}.'
        )
    return {key: value for key, value in given.items() if key not in _NOT_DEFINED}


def _set_rule(arguments: Arguments) -> int:
    body = _definition(arguments)
    with remote.connect(arguments) as client:
        rule = client.send(alert_calls.set_rule(arguments.name, body))
    output.of(arguments).one(_rule_fields(rule), rule, name=rule.name)
    return OK


def _delete_rule(arguments: Arguments) -> int:
    with remote.connect(arguments) as client:
        rule = client.send(alert_calls.delete_rule(arguments.name))
    output.of(arguments).say(f"{rule.name} is deleted.")
    return OK


def _configure_preview(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a rule as the API takes it, in JSON; - reads standard input")
    parser.add_argument("--days", type=int, default=30, help="how far back; 30 unless it says otherwise")
    remote_options(parser)


def _preview(arguments: Arguments) -> int:
    body = _definition(arguments)
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        found = client.send(alert_calls.preview_rule(body, days=arguments.days))
    told = "\n".join(f"{would.since}  {would.title}" for would in found.incidents[-20:])
    out.one([("would", found.words), ("when", told or None)], found, name=str(found.times))
    if not found.complete:
        out.say("! There is more history than was looked at.")
    return OK


def _channels(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        found = client.send(alert_calls.list_channels()).items
    out.rows(_CHANNELS, found, name=lambda channel: channel.name)
    if not found:
        out.say("There are no channels yet. `duly alert set-channel -h` shows how to make one.")
    return OK


def _channel(arguments: Arguments) -> int:
    with remote.connect(arguments) as client:
        channel = client.send(alert_calls.show_channel(arguments.name))
    output.of(arguments).one(_channel_fields(channel), channel, name=channel.name)
    return OK


def _set_channel(arguments: Arguments) -> int:
    body = _definition(arguments)
    with remote.connect(arguments) as client:
        channel = client.send(alert_calls.set_channel(arguments.name, body))
    output.of(arguments).one(_channel_fields(channel), channel, name=channel.name)
    return OK


def _delete_channel(arguments: Arguments) -> int:
    with remote.connect(arguments) as client:
        channel = client.send(alert_calls.delete_channel(arguments.name))
    output.of(arguments).say(f"{channel.name} is deleted.")
    return OK


def _test(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        tested = client.send(alert_calls.try_channel(arguments.name))
    out.one([("sent", "yes" if tested.is_sent else "no"), ("why", tested.error)], tested, name=arguments.name)
    return OK if tested.is_sent else FAILURE


def _configure_missed(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="those that have come to light as well")
    parser.add_argument("-n", "--limit", type=int, default=50, help="at most so many")
    remote_options(parser)


def _missed(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        found = client.send(alert_calls.missed_fires(open_only=not arguments.all, limit=arguments.limit))
    out.rows(_MISSED, found.items, name=lambda item: item.execution_id)
    if not found.items:
        out.say(f"No fire is missing up to {found.audited_to}." if found.audited_to else "Nothing was audited yet.")
    return OK


def _links(arguments: Arguments) -> int:
    with remote.connect(arguments) as client:
        found = client.send(alert_calls.list_links()).items
    output.of(arguments).rows(_LINKS, found, name=lambda link: link.link_id)
    return OK


def _configure_link(parser: Parser) -> None:
    parser.add_argument("kind", choices=("badge", "calendar"), help="what it shows")
    parser.add_argument("--job", metavar="JOB_ID", help="of this job; a badge needs one")
    parser.add_argument("--expires", metavar="DURATION", help="for how long, such as 365d; until it is revoked otherwise")
    remote_options(parser)


def _link(arguments: Arguments) -> int:
    seconds = None if arguments.expires is None else parse_duration(arguments.expires, field="--expires") / SECOND
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        link = client.send(alert_calls.create_link(arguments.kind, job_id=arguments.job, expires_in_sec=seconds))
    out.one([("link", link.link_id), ("path", link.path)], link, name=link.path)
    out.say("Whoever has the path sees it. It is shown this once.")
    return OK


def _unlink(arguments: Arguments) -> int:
    with remote.connect(arguments) as client:
        link = client.send(alert_calls.revoke_link(arguments.name))
    output.of(arguments).say(f"{link.link_id} opens nothing any more.")
    return OK


def _rule_fields(rule: RuleView) -> list[tuple[str, str | None]]:
    return [
        ("rule", rule.name),
        ("words", rule.words),
        ("kind", rule.kind),
        ("jobs", ", ".join(rule.jobs) or None),
        ("pools", ", ".join(rule.pools) or None),
        ("after", None if rule.after_sec is None else f"{rule.after_sec:g} s"),
        ("count", None if rule.count is None else str(rule.count)),
        ("channels", ", ".join(rule.channels) or "none: it is only listed"),
        ("snoozed", rule.snoozed_until),
        ("from code", rule.source),
        ("version", f"{rule.version}, since {output.relative(rule.updated_at)}"),
    ]


def _channel_fields(channel: ChannelView) -> list[tuple[str, str | None]]:
    return [
        ("channel", channel.name),
        ("words", channel.words),
        ("kind", channel.kind),
        ("url", channel.url),
        ("secret", channel.secret),
        ("to", ", ".join(channel.to) or None),
        ("from", channel.sender),
        ("server", channel.host),
        ("version", f"{channel.version}, since {output.relative(channel.updated_at)}"),
    ]


_INCIDENTS: list[Column[IncidentView]] = [
    Column("incident", lambda incident: incident.incident_id, key="incidentId"),
    Column("state", lambda incident: incident.state),
    Column("since", lambda incident: output.relative(incident.since), lambda incident: incident.since),
    Column("what", lambda incident: incident.title, key="title"),
    Column("rule", lambda incident: incident.rule),
]
_RULES: list[Column[RuleView]] = [
    Column("name", lambda rule: rule.name),
    Column("kind", lambda rule: rule.kind),
    Column("about", lambda rule: ", ".join([*rule.jobs, *rule.pools]) or "all", key="jobs"),
    Column("channels", lambda rule: ", ".join(rule.channels)),
    Column("on", lambda rule: "yes" if rule.enabled else "no", key="enabled"),
]
_CHANNELS: list[Column[ChannelView]] = [
    Column("name", lambda channel: channel.name),
    Column("kind", lambda channel: channel.kind),
    Column("to", lambda channel: channel.url or ", ".join(channel.to) or channel.secret or ""),
    Column("on", lambda channel: "yes" if channel.enabled else "no", key="enabled"),
]
_MISSED: list[Column[MissedView]] = [
    Column("job", lambda item: item.job_name, key="jobName"),
    Column("due", lambda item: item.scheduled_at, key="scheduledAt"),
    Column("flaw", lambda item: item.flaw),
    Column("found", lambda item: output.relative(item.found_at), lambda item: item.found_at, "foundAt"),
    Column("there since", lambda item: item.resolved_at or "", key="resolvedAt"),
]
_LINKS: list[Column[LinkView]] = [
    Column("link", lambda link: link.link_id, key="linkId"),
    Column("kind", lambda link: link.kind),
    Column("job", lambda link: link.job_id or "all", key="jobId"),
    Column("ends", lambda link: link.revoked_at or link.expires_at or "never", key="expiresAt"),
]

_RULE_EXAMPLES = """
examples:
  echo '{"kind": "missed", "jobs": ["nightly"], "afterSec": 900, "channels": ["ops"]}' | duly alert set-rule nightly-missed -
  duly alert rule nightly-missed --json > rule.json && duly alert preview rule.json
"""
_CHANNEL_EXAMPLES = """
examples:
  echo '{"kind": "slack", "secret": "env:DULY_SECRET_SLACK"}' | duly alert set-channel ops -
  duly alert test ops
"""

COMMANDS = {
    "alert": Group(
        "Alerts: what is wrong, and who is told.",
        "duly alert",
        {
            "list": Command("what is wrong now", _configure_list, _list, "duly alert list"),
            "show": Command("one incident, and who was told", _configure_incident, _show, "duly alert show"),
            "snooze": Command("tell nobody for a while", _configure_snooze, _snooze, "duly alert snooze", changes=True),
            "rules": Command("all rules, by name", remote_options, _rules, "duly alert rules"),
            "rule": Command("one rule", _configure_named, _rule, "duly alert rule"),
            "set-rule": Command("make or change a rule", _configure_file, _set_rule, "duly alert set-rule", _RULE_EXAMPLES, changes=True),
            "delete-rule": Command("delete a rule", _configure_named, _delete_rule, "duly alert delete-rule", changes=True),
            "preview": Command("how often a rule would have fired", _configure_preview, _preview, "duly alert preview"),
            "channels": Command("all channels, by name", remote_options, _channels, "duly alert channels"),
            "channel": Command("one channel", _configure_named, _channel, "duly alert channel"),
            "set-channel": Command(
                "make or change a channel", _configure_file, _set_channel, "duly alert set-channel", _CHANNEL_EXAMPLES, changes=True
            ),
            "delete-channel": Command(
                "delete a channel that no rule names", _configure_named, _delete_channel, "duly alert delete-channel", changes=True
            ),
            "test": Command("send a test to a channel, now", _configure_named, _test, "duly alert test", changes=True),
            "missed": Command("fires that should be on record and are not", _configure_missed, _missed, "duly alert missed"),
            "links": Command("links to badges and calendars", remote_options, _links, "duly alert links"),
            "link": Command("make a link to a badge or a calendar", _configure_link, _link, "duly alert link", changes=True),
            "unlink": Command("revoke a link", _configure_named, _unlink, "duly alert unlink", changes=True),
        },
    )
}
