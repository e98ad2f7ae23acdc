"""A rule and a channel in a sentence, as people read them: on the dashboard, from the API and on the command line."""

from __future__ import annotations

from typing import assert_never

from duly.domain.alerts.channel import Channel, ChannelKind
from duly.domain.alerts.rule import DEFAULT_AFTER, DEFAULT_COUNTS, DEFAULT_GRACE, OF_POOLS, GroupBy, Kind, Rule
from duly.domain.durations import format_duration

# So many jobs or pools are named in a sentence; more are counted.
NAMED = 3


def rule_words(rule: Rule) -> str:
    """When it is trouble, when it is over, and what becomes one incident; what is as usual is not said."""
    grace = rule.grace or DEFAULT_GRACE.get(rule.kind, 0)
    said = [_condition(rule) + (f", and that holds for {format_duration(grace)}" if grace else "")]
    recovery = rule.recovery
    over = []
    if recovery.runs > 1:
        over.append(f"after {recovery.runs} good runs in a row")
    if recovery.percent is not None:
        over.append(f"below {recovery.percent:g} %")
    if recovery.after:
        over.append(f"once it has been well for {format_duration(recovery.after)}")
    if over:
        said.append("It is over " + ", and ".join(over))
    match rule.group_by:
        case GroupBy.JOB:
            pass
        case GroupBy.CAUSE:
            said.append("All that has one cause is one incident")
        case GroupBy.POOL:
            said.append("All of one pool is one incident")
        case GroupBy.ALL:
            said.append("All of it is one incident")
        case _:
            assert_never(rule.group_by)
    if rule.quiet is not None:
        said.append("Nobody is told in its quiet hours")
    if rule.calendars:
        said.append(f"Nobody is told in the times of {_listed(rule.calendars, 'calendars', 'and')}")
    return ". ".join(said) + "."


def channel_words(channel: Channel) -> str:
    """Whom it tells and how. An address is shown by its host alone: the rest may be a secret."""
    match channel.kind:
        case ChannelKind.WEBHOOK:
            signed = f"signed with {channel.secret}" if channel.secret else "signed with the server's own secret, if it has one"
            return f"Posts to {masked_url(channel.url or '')}, {signed}."
        case ChannelKind.SLACK:
            return f"Writes to Slack, at the address in {channel.secret}."
        case ChannelKind.PAGERDUTY:
            where = f"at {masked_url(channel.url)}" if channel.url else "of PagerDuty"
            return f"Opens and resolves events {where}, with the routing key in {channel.secret}."
        case ChannelKind.EMAIL:
            return f"Sends e-mail to {_listed(channel.to, 'addresses', 'and')}, from {channel.sender} through {channel.host}."
        case _:
            assert_never(channel.kind)


def masked_url(url: str) -> str:
    """Scheme and host; what comes after may be a token."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0].partition('?')[0]}/…"


def _condition(rule: Rule) -> str:
    condition, kind = rule.condition, rule.kind
    whose = _listed(rule.pools, "pools", "or", "any pool") if kind in OF_POOLS else _listed(rule.jobs, "jobs", "or", "any job")
    after = condition.after or DEFAULT_AFTER.get(kind)
    count = condition.count or DEFAULT_COUNTS.get(kind, 1)
    span = "" if after is None else format_duration(after)
    window = format_duration(rule.window)
    match kind:
        case Kind.FINAL_FAILURE:
            return f"A run of {whose} fails for good"
        case Kind.FAILURES:
            return f"{count} runs in a row of {whose} fail for good" if count > 1 else f"The last run of {whose} has failed for good"
        case Kind.FAILURE_RATE:
            return f"{condition.percent:g} % of the runs of {whose} within {window}, of at least {condition.least}, fail for good"
        case Kind.LATE:
            return f"A run of {whose} has not started {span} after its time"
        case Kind.MISSED:
            return f"A fire of {whose} has not started {span} after its time, or is not on record at all"
        case Kind.OVERRUN if after is not None:
            return f"A run of {whose} takes longer than {span}"
        case Kind.OVERRUN:
            return f"A run of {whose} takes longer than {condition.factor:g} times what its runs mostly take"
        case Kind.NO_SUCCESS:
            return f"No run of {whose} has succeeded for {span}"
        case Kind.DEAD_LETTERS:
            letters = "dead letter" if count == 1 else "dead letters"
            return f"{count} {letters} of the last {window} {'is' if count == 1 else 'are'} dealt with by nobody"
        case Kind.POOL_SATURATED:
            return f"Something has waited in {whose} for more than {span}"
        case Kind.WORKER_GONE:
            who = "A worker" if count == 1 else f"{count} workers"
            return f"{who} of {whose} fell silent within {window}, and nobody has taken {'its' if count == 1 else 'their'} place"
        case Kind.STORE_UNHEALTHY:
            return "The store does not answer"
        case _:
            assert_never(kind)


def _listed(names: tuple[str, ...], many: str, joined: str, none: str = "") -> str:
    if not names:
        return none
    if len(names) > NAMED:
        return f"{'any of ' if joined == 'or' else ''}{len(names)} {many}"
    *first, last = names
    return f"{', '.join(first)} {joined} {last}" if first else last
