"""The notary: links what the audit trail has recorded, and lets go of what was kept long enough."""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.instants import DAY, MINUTE, Instant, Micros
from duly.ports.audit import Audit
from duly.roles.loop import Step


@dataclass(frozen=True, slots=True)
class NotarySettings:
    """How long records are kept, how often it looks, how much goes in one transaction, and how often it lets go of the old."""

    keep: Micros = 400 * DAY
    every: float = 2.0
    batch: int = 500
    forget_every: Micros = 10 * MINUTE


class Notary:
    """Any number may run: the store lets one at a time link, and the others find nothing to do."""

    name = "notary"

    def __init__(self, audit: Audit, settings: NotarySettings) -> None:
        self._audit = audit
        self._settings = settings
        self._forget_at: Instant = 0

    async def step(self, now: Instant) -> Step:
        """One batch of links; from time to time the old end."""
        linked = await self._audit.link(self._settings.batch)
        forgotten = 0
        if now >= self._forget_at:
            forgotten = await self._audit.forget(now - self._settings.keep, self._settings.batch)
            if not forgotten:
                self._forget_at = now + self._settings.forget_every
        busy = linked >= self._settings.batch or forgotten > 0
        return Step(0.05 if busy else self._settings.every, {"linked": linked, "forgotten": forgotten})
