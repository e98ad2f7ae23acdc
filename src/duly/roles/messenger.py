"""The messenger: sends what is to be sent of incidents, once each where it can, at least once whatever happens.

Any number may run: a conditional write in the store decides who sends which. Whoever is gone before it says so has its deliveries
sent again, with the same incident's id.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from duly.domain.alerts.message import Notice
from duly.domain.instants import DAY, MINUTE, SECOND, Instant, Micros
from duly.ports.alerts import Delivery, Incidents, Sender
from duly.ports.endings import Failure
from duly.roles.loop import Step

log = logging.getLogger("duly.alerts")


@dataclass(frozen=True, slots=True)
class MessengerSettings:
    """A claim lasts longer than any sending does. What was not taken is tried again, ever more slowly, for a day."""

    every: float = 1.0
    batch: int = 10
    ttl: Micros = 2 * MINUTE
    first_wait: Micros = 5 * SECOND
    longest_wait: Micros = 15 * MINUTE
    gives_up_after: Micros = DAY
    url: str | None = None


class Messenger:
    """Carries notices to channels."""

    name = "messenger"

    def __init__(self, messenger: str, incidents: Incidents, sender: Sender, settings: MessengerSettings) -> None:
        self._messenger = messenger
        self._incidents = incidents
        self._sender = sender
        self._settings = settings

    async def step(self, now: Instant) -> Step:
        """Send what is due."""
        due = await self._incidents.claim(self._messenger, now, self._settings.ttl, self._settings.batch)
        sent = 0
        for delivery in due:
            sent += await self._send(delivery, now)
        is_busy = len(due) == self._settings.batch
        return Step(0.0 if is_busy else self._settings.every, {"sent": sent, "not_sent": len(due) - sent})

    async def _send(self, delivery: Delivery, now: Instant) -> bool:
        channel = delivery.channel
        if channel is None or not channel.enabled:
            why = "there is no such channel" if channel is None else "the channel is switched off"
            await self._incidents.not_sent(delivery, self._messenger, why, None, now)
            return False
        try:
            await self._sender.send(channel, Notice(delivery.incident, delivery.event, delivery.tenant_name, self._settings.url))
        except Failure as failure:
            again_at = self._again_at(delivery, now) if failure.retry else None
            log.warning("channel %s did not take an alert: %s", channel.name, failure)
            await self._incidents.not_sent(delivery, self._messenger, str(failure), again_at, now)
            return False
        await self._incidents.sent(delivery, self._messenger, now)
        return True

    def _again_at(self, delivery: Delivery, now: Instant) -> Instant | None:
        if now - delivery.created_at >= self._settings.gives_up_after:
            return None
        return now + min(self._settings.first_wait << min(delivery.tries - 1, 16), self._settings.longest_wait)
