"""The messenger: sends what is to be sent of incidents, once each where it can, at least once whatever happens.

Any number may run: a conditional write in the store decides who sends which. Whoever is gone before it says so has its deliveries
sent again, with the same incident's id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
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
    batch: int = 30
    # So many to one channel at a time, and so long a step waits for those that do not answer.
    each: int = 5
    patience: float = 0.5
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
        self._under_way: set[asyncio.Future[tuple[int, int]]] = set()

    async def step(self, now: Instant) -> Step:
        """Send what is due."""
        due = await self._incidents.claim(self._messenger, now, self._settings.ttl, self._settings.batch, self._settings.each)
        by_channel: dict[tuple[int, str], list[Delivery]] = {}
        for delivery in due:
            by_channel.setdefault((delivery.incident.tenant, delivery.channel_name), []).append(delivery)
        begun = [asyncio.ensure_future(self._send_all(own, now)) for own in by_channel.values()]
        self._under_way.update(begun)
        # Each channel at its own pace: one that does not answer keeps no other waiting, neither now nor in the next step.
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=self._settings.patience)
        ended = [task for task in self._under_way if task.done()]
        self._under_way.difference_update(ended)
        # All are asked how they ended before one of them is told of: the others must not be forgotten.
        faults = [fault for task in ended if (fault := task.exception()) is not None]
        if faults:
            raise faults[0]
        tried = [task.result() for task in ended]
        sent, not_sent = sum(sent for sent, _ in tried), sum(not_sent for _, not_sent in tried)
        is_busy = len(due) == self._settings.batch
        return Step(0.0 if is_busy else self._settings.every, {"sent": sent, "not_sent": not_sent})

    async def _send_all(self, deliveries: Sequence[Delivery], now: Instant) -> tuple[int, int]:
        """What goes to one channel, in order: how many it took, and how many it did not."""
        sent = sum([await self._send(delivery, now) for delivery in deliveries])
        return sent, len(deliveries) - sent

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
