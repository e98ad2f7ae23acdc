"""What the doctor finds about alerts: whether somebody is told, and whether what was told last has arrived."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from duly import config
from duly.cli.doctor.findings import NOTE, PASS, WARN, Finding, plural, some
from duly.domain.addresses import fault_of
from duly.domain.errors import Forbidden
from duly.domain.plain import visible
from duly.sdk.alert_calls import list_alerts, list_channels, list_rules, show_alert
from duly.sdk.client import Client
from duly.wire.alerts import ChannelView, DeliveryView, RuleView

# Each is a question of its own. What was told before the last ten incidents says little about today.
MOST_INCIDENTS = 10


def told(client: Client, settings: config.Settings) -> Iterator[Finding]:
    """Whether anybody would hear of trouble."""
    try:
        rules, channels = client.send(list_rules()).items, client.send(list_channels()).items
    except Forbidden:
        return
    if rules and not channels:
        yield Finding("alerts", WARN, f"{plural(len(rules), 'rule')} and no channel: nobody is told", "duly alert set-channel -h")
    elif channels:
        names = some([channel.name for channel in channels])
        yield Finding("alerts", PASS, f"{plural(len(rules), 'rule')} told by {names}; `duly alert test NAME` tries one")
        used = {name for rule in rules if rule.enabled for name in rule.channels}
        yield from usable(channels, rules, latest(_deliveries(client), used))
    if settings.deadman_url is None:
        yield Finding(
            "dead man", NOTE, "nobody outside would hear this scheduler fall silent", "Set DULY_DEADMAN_URL; docs/how-to/alerts.md"
        )
    else:
        yield Finding("dead man", PASS, "its silence is heard outside (DULY_DEADMAN_URL)")


def _deliveries(client: Client) -> Iterator[Sequence[DeliveryView]]:
    """What was told of the last incidents, the newest first."""
    for incident in client.send(list_alerts(limit=MOST_INCIDENTS)).items:
        yield client.send(show_alert(incident.incident_id)).deliveries


def latest(incidents: Iterable[Sequence[DeliveryView]], channels: Collection[str]) -> dict[str, DeliveryView]:
    """What these channels were told last, or were to be. No further incident is asked for than it takes."""
    found: dict[str, DeliveryView] = {}
    for deliveries in incidents:
        # They come in the order of events: what was told of the end is younger than what was told of the beginning.
        found |= {one.channel: one for one in deliveries if one.channel in channels and one.tries} | found
        if found.keys() >= set(channels):
            break
    return found


def usable(channels: Sequence[ChannelView], rules: Sequence[RuleView], last: dict[str, DeliveryView]) -> Iterator[Finding]:
    """Each channel that a rule names: whether it is on, its address is one, and what it was told last has arrived."""
    naming = {channel.name: [rule.name for rule in rules if rule.enabled and channel.name in rule.channels] for channel in channels}
    untried = []
    for channel in channels:
        name, by = channel.name, naming[channel.name]
        if not by:
            continue
        # Who is no admin sees the host alone.
        fault = fault_of(channel.url) if channel.url is not None and not channel.url.endswith("…") else None
        was = last.get(name)
        if not channel.enabled:
            fix = f"Switch it on, or name another in the rule: duly alert channel {name}"
            yield Finding("channel", WARN, f"{name} is off: {some(by)} would tell nobody by it", fix)
        elif fault is not None:
            yield Finding(
                "channel", WARN, f"the address of {name} is none: {fault}", f"duly alert set-channel {name}; then duly alert test {name}"
            )
        elif was is not None and was.sent_at is None:
            ended = "was given up" if was.given_up_at is not None else "has not arrived yet"
            text = f"the last alert by {name} {ended} ({plural(was.tries, 'try') if was.tries == 1 else f'{was.tries:,} tries'}): "
            yield Finding(
                "channel", WARN, text + visible(was.error or "no answer"), f"duly alert test {name} tells whether it is well again"
            )
        elif was is None:
            untried.append(name)
    if untried:
        text = f"no recent alert went out by {some(untried)}: whether they arrive is not known"
        yield Finding("channel", NOTE, text, "; ".join(f"duly alert test {name}" for name in untried[:3]))
