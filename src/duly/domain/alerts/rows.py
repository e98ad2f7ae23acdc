"""Rules, channels and deliveries as the store has them."""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.alerts.channel import Channel
from duly.domain.alerts.evaluate import Event
from duly.domain.alerts.rule import Rule
from duly.domain.instants import Instant


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule as the store has it."""

    rule: Rule
    tenant: int
    tenant_name: str
    version: int
    updated_at: Instant
    snoozed_until: Instant | None = None


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """A channel as the store has it."""

    channel: Channel
    tenant: int
    version: int
    updated_at: Instant


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of a delivery so far, for people."""

    channel: str
    event: Event
    tries: int
    sent_at: Instant | None
    given_up_at: Instant | None
    error: str | None
