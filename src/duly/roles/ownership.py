"""Which shards this dispatcher owns, under which epochs, and for how long it may believe so.

Live dispatchers share the shards by rendezvous hashing. A shard is taken when its lease has run
out or its owner shows no progress; what belongs to another live dispatcher is handed over. The
epochs are checked in every write, so a wrong belief is harmless; trust ends by boottime all the
same, measured from before the request, so that a paused dispatcher steps down by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.shards import preferred_owner
from duly.ports.clock import Clock
from duly.ports.store import Leases, ShardLease


@dataclass(frozen=True, slots=True)
class OwnershipSettings:
    """How long a shard's lease lasts, how often it is renewed, and when a silent owner is passed over."""

    ttl: Micros = 6 * SECOND
    renew_every: Micros = 2 * SECOND
    patience: Micros = 5 * SECOND
    margin: Micros = SECOND


class Ownership:
    """One dispatcher's share of the shards."""

    def __init__(self, name: str, leases: Leases, clock: Clock, settings: OwnershipSettings) -> None:
        self.name = name
        self._leases = leases
        self._clock = clock
        self._settings = settings
        self._epochs: dict[int, int] = {}
        self._trusted_until: Micros = 0
        self._renew_at: Micros = 0
        self._has_heard = False

    def epochs(self) -> dict[int, int]:
        """The shards that are ours with their epochs; none once trust has run out."""
        return self._epochs if self._clock.boottime() < self._trusted_until else {}

    async def refresh(self, now: Instant) -> bool:
        """Renew, take and hand over when it is time; True when the set of shards has changed."""
        # Read the clock before the round trip: a slow answer must not lengthen our trust in it.
        asked = self._clock.boottime()
        if asked < self._renew_at and self.epochs():
            return False
        settings = self._settings
        before = dict(self._epochs)
        if not self._has_heard:
            # Who cannot hear the store must not tell it that he lives: the others would leave his shards to him for ever.
            await self._leases.shards()
        self._has_heard = False
        live = await self._leases.announce_dispatcher(self.name, now, settings.ttl)
        kept = set(await self._leases.renew(self.name, self._epochs, now, settings.ttl))
        held = {shard: epoch for shard, epoch in self._epochs.items() if shard in kept}
        for lease in await self._leases.shards():
            if lease.owner == self.name:
                # Also one that we took without learning of it: a dispatcher's name is new at every start, so it is ours.
                held[lease.shard] = lease.epoch
            if preferred_owner(lease.shard, live) != self.name or lease.shard in held:
                continue
            if lease.owner is None or _has_run_out(lease, now, settings):
                epoch = await self._leases.take(lease.shard, lease.epoch, self.name, now, settings.ttl, settings.patience)
                if epoch is not None:
                    held[lease.shard] = epoch
        foreign = {shard: epoch for shard, epoch in held.items() if preferred_owner(shard, live) != self.name}
        if foreign:
            await self._leases.hand_over(self.name, foreign)
        self._has_heard = True
        self._epochs = {shard: epoch for shard, epoch in held.items() if shard not in foreign}
        self._trusted_until = asked + settings.ttl - settings.margin
        self._renew_at = asked + settings.renew_every
        return self._epochs != before

    async def leave(self, now: Instant) -> None:
        """Hand everything over at once: the clean stop."""
        epochs, self._epochs, self._trusted_until = self._epochs, {}, 0
        await self._leases.release(self.name, epochs, now)


def _has_run_out(lease: ShardLease, now: Instant, settings: OwnershipSettings) -> bool:
    """Past its time, without progress, or beyond all sense: a lease from before the store's clock was set back would last for hours."""
    return lease.lease_until <= now or lease.progress_at <= now - settings.patience or lease.lease_until > now + 2 * settings.ttl
