"""The herald: publishes what was noted, oldest first, and crosses it out once it is kept elsewhere. At least once, never less."""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.instants import DAY, SECOND, Instant, Micros
from duly.ports.events import EventSink, Outbox
from duly.roles.loop import Step


@dataclass(frozen=True, slots=True)
class HeraldSettings:
    """How much goes in one batch, how often it looks, and for how long it is the one who publishes without saying so again."""

    batch: int = 100
    every: float = 0.5
    ttl: Micros = 15 * SECOND


class Herald:
    """Any number may run: the store lets one at a time publish, and another takes over when that one is gone."""

    name = "herald"

    def __init__(self, herald: str, outbox: Outbox, sink: EventSink, settings: HeraldSettings) -> None:
        self._herald = herald
        self._outbox = outbox
        self._sink = sink
        self._settings = settings

    async def step(self, now: Instant) -> Step:
        """Publish one batch, if it is ours to do."""
        settings = self._settings
        if not await self._outbox.take(self._herald, now, settings.ttl):
            return Step(settings.every, {"published": 0})
        noted = await self._outbox.read(settings.batch)
        if noted.happened:
            await self._sink.publish(noted.happened)
        # Only now: whatever ends us before it, they are published again by whoever comes next.
        if noted.places:
            await self._outbox.drop(noted.places)
        return Step(0.0 if len(noted.places) >= settings.batch else settings.every, {"published": len(noted.happened)})

    async def stop(self) -> None:
        """The clean stop: another may go on at once."""
        await self._outbox.leave(self._herald)


@dataclass(frozen=True, slots=True)
class CurfewSettings:
    """How long an outbox is filled for a herald that does not come back."""

    patience: Micros = DAY
    every: float = 60.0


class Curfew:
    """Runs where no events are asked for: an outbox that nobody empties any more must not grow for ever."""

    name = "curfew"

    def __init__(self, outbox: Outbox, settings: CurfewSettings) -> None:
        self._outbox = outbox
        self._settings = settings

    async def step(self, now: Instant) -> Step:
        """Look once."""
        lapsed = await self._outbox.lapse(now - self._settings.patience)
        return Step(self._settings.every, {"lapsed": int(lapsed)})
