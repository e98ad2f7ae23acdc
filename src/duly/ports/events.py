"""Telling others what happened: the outbox, from which nothing is lost, and the sink that it is emptied into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from duly.domain.events import Happened
from duly.domain.instants import Instant, Micros


@dataclass(frozen=True, slots=True)
class Noted:
    """What was noted, oldest first, and the places in the outbox that it fills."""

    places: Sequence[int] = ()
    happened: Sequence[Happened] = field(default_factory=list)


class Outbox(Protocol):
    """What changes while a herald is about is noted in the transaction of the change, and stays until it was published."""

    async def take(self, herald: str, now: Instant, ttl: Micros) -> bool:
        """Be the one who publishes, until now + ttl; False when somebody else is. From the first call on, every change is noted."""

    async def read(self, limit: int) -> Noted:
        """The oldest changes that were noted, of at most `limit` statements. Those of one execution come in the order in which they were.

        Whatever commits late is read late: nothing is passed over. What has left the history since is left out."""

    async def drop(self, places: Sequence[int]) -> None:
        """These were published."""

    async def leave(self, herald: str) -> None:
        """Somebody else may publish at once."""

    async def lapse(self, before: Instant) -> bool:
        """If no herald was seen since then: nothing is noted any more, and what was is dropped. True when that was so."""


class EventSink(Protocol):
    """Where events go."""

    async def publish(self, happened: Sequence[Happened]) -> None:
        """Returns when all of it is kept there, each execution's in order. Raises Unavailable when that is not known of all: then
        all of it is published again."""

    async def close(self) -> None:
        """Let connections go."""
