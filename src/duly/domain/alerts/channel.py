"""Channels: where alerts go. What is secret in one is named (`env:NAME`, `file:NAME`), never written down."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from duly.domain.addresses import fault_of
from duly.domain.alerts.rule import parse_rule_name
from duly.domain.errors import Invalid
from duly.domain.secrets import check_reference

BAD_CHANNEL = "DULY-E161"
MOST_RECIPIENTS = 20
LONGEST_URL = 2048

_ADDRESS = re.compile(r"[A-Za-z0-9._%+'-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.?){1,8}[A-Za-z0-9]\Z")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?\Z")
_URL = re.compile(r"https?://[!-~]+\Z")


class ChannelKind(StrEnum):
    """How a channel is told."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    EMAIL = "email"
    PAGERDUTY = "pagerduty"


class Encryption(StrEnum):
    """How the way to a mail server is kept from others."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A named channel of a tenant. `secret` is a reference: what a webhook is signed with, Slack's address, PagerDuty's routing key,
    the password of the mail server."""

    name: str
    kind: ChannelKind
    url: str | None = None
    secret: str | None = None
    # E-mail.
    to: tuple[str, ...] = ()
    sender: str | None = None
    host: str | None = None
    port: int | None = None
    user: str | None = None
    encryption: Encryption = Encryption.STARTTLS
    enabled: bool = True


_NEEDS = {
    ChannelKind.WEBHOOK: ("url",),
    ChannelKind.SLACK: ("secret",),
    ChannelKind.PAGERDUTY: ("secret",),
    ChannelKind.EMAIL: ("to", "sender", "host"),
}
_TAKES = {
    ChannelKind.WEBHOOK: {"url", "secret"},
    ChannelKind.SLACK: {"secret"},
    ChannelKind.PAGERDUTY: {"secret", "url"},
    ChannelKind.EMAIL: {"secret", "to", "sender", "host", "port", "user"},
}
_ON_THE_WIRE = {"sender": "from"}


def check_channel(channel: Channel) -> None:
    """Refuse what cannot be told. Raises Invalid that names the field."""
    parse_rule_name(channel.name)
    for name in ("url", "secret", "to", "sender", "host", "port", "user"):
        given, field = bool(getattr(channel, name)), _ON_THE_WIRE.get(name, name)
        if given and name not in _TAKES[channel.kind]:
            raise _refuse(field, f"does not go with {channel.kind.value}.")
        if not given and name in _NEEDS[channel.kind]:
            raise _refuse(field, f"is needed for {channel.kind.value}.")
    if channel.secret is not None:
        check_reference(channel.secret, "secret")
    if channel.url is not None and (len(channel.url) > LONGEST_URL or not _URL.match(channel.url)):
        raise _refuse("url", "must be an address that begins with https:// (or http://, where the operator allows it).")
    if channel.url is not None and (fault := fault_of(channel.url)) is not None:
        raise _refuse("url", f"is not an address: {fault}.")
    if len(channel.to) > MOST_RECIPIENTS:
        raise _refuse("to", f"has at most {MOST_RECIPIENTS} addresses.")
    for address in (*channel.to, *((channel.sender,) if channel.sender else ())):
        if not _ADDRESS.match(address):
            raise _refuse("to" if address in channel.to else "from", f"{address[:60]!r} is not an e-mail address.")
    if channel.host is not None and not _HOST.match(channel.host):
        raise _refuse("host", "must be the name or number of a mail server.")
    if channel.port is not None and not 1 <= channel.port <= 65535:
        raise _refuse("port", "must be between 1 and 65535.")
    if channel.user is not None and channel.secret is None:
        raise _refuse("secret", "names the password of this user, as env:NAME or file:NAME.")


def _refuse(field: str, message: str) -> Invalid:
    return Invalid(BAD_CHANNEL, message, field=field)
