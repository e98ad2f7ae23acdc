"""Which shards this dispatcher owns, under which epochs, and for how long it may believe so.

Live dispatchers share the shards by rendezvous hashing. A shard is taken when its lease has run
out or its owner shows no progress; what belongs to another live dispatcher is handed over. Where
there are several, each glances at the others' shards between renewals: the work itself tells who
is dead. Work that stays late while its owner does not stir is taken at once, whatever the lease
says, and so is a shard that nobody has: by its heir, and if he does not come by the next one. Who
is behind stirs. A service that tells who is there may tell sooner that an owner has gone: then his heirs do not wait for late
work, and nothing else changes. The epochs are checked in every write, so a wrong belief is harmless; trust ends by
boottime all the same, measured from before the request, so that a paused dispatcher steps down by
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.shards import heirs_of, preferred_owner
from duly.ports.clock import Clock
from duly.ports.presence import Presence, StoreAlone
from duly.ports.store import DispatcherAbout, DispatcherRow, Leases, ShardLease


@dataclass(frozen=True, slots=True)
class OwnershipSettings:
    """How long a shard's lease lasts, how often it is renewed, and when a silent owner is passed over.

    With others about: how often to glance at their shards, from when on their work is late, how far back that is looked for, and for how
    long it must stay so while its owner does not stir. An owner that is behind stirs at every glance.
    """

    ttl: Micros = 6 * SECOND
    renew_every: Micros = 2 * SECOND
    patience: Micros = 5 * SECOND
    margin: Micros = SECOND
    glance_every: Micros = SECOND // 8
    late: Micros = 250_000
    late_at_most: Micros = 10 * SECOND
    still_for: Micros = 300_000
    # A newcomer is handed what others have when he has lived for so long: one that dies as it starts should not cost a fire.
    settled_after: Micros = 2 * SECOND


class Ownership:
    """One dispatcher's share of the shards."""

    def __init__(
        self,
        name: str,
        leases: Leases,
        clock: Clock,
        settings: OwnershipSettings,
        presence: Presence | None = None,
        about: Callable[[], DispatcherAbout] | None = None,
    ) -> None:
        self.name = name
        self._about = about
        self._leases = leases
        self._presence = presence or StoreAlone()
        self._clock = clock
        self._settings = settings
        self._epochs: dict[int, int] = {}
        self._live: Sequence[str] = ()
        self._seen_since: dict[str, Micros] = {}
        # The shards of others that wait for somebody, and since when: late and still, or without an owner.
        self._waiting: dict[ShardLease, Micros] = {}
        self._trusted_until: Micros = 0
        self._renewed_at: Micros = 0
        self._stirred_at: Micros = 0
        self._glance_at: Micros = 0

    def epochs(self) -> dict[int, int]:
        """The shards that are ours with their epochs; none once trust has run out."""
        return self._epochs if self._clock.boottime() < self._trusted_until else {}

    def longest_rest(self) -> Micros | None:
        """After how long to come back at the latest; None when nobody else is there to be looked after."""
        if len(self._live) <= 1:
            return None
        # A while at least: where every look takes long, one after the other would leave the store no time for anything else.
        longest = self._settings.glance_every
        return min(max(self._glance_at - self._clock.boottime(), longest // 2), longest)

    async def refresh(self, now: Instant) -> bool:
        """Renew, take and hand over when it is time; True when the set of shards has changed."""
        asked = self._clock.boottime()
        before = self._epochs
        if not self._epochs or asked >= self._trusted_until or asked - self._renewed_at >= self._settings.renew_every:
            # It sees everybody's shards as well; the next glance is not due at once.
            if self._glance_at <= asked:
                self._glance_at = asked + self._settings.glance_every
            await self._renew(asked, now)
        elif len(self._live) > 1 and asked >= self._glance_at:
            await self._glance(asked, now)
        return self._epochs != before

    async def stir(self, behind: Collection[int], now: Instant) -> None:
        """Say that we live, of the shards whose work is behind: lest we be taken for dead while it is only much."""
        if not behind or len(self._live) <= 1:
            return
        asked = self._clock.boottime()
        if asked - self._stirred_at >= self._settings.glance_every:
            self._stirred_at = asked
            await self._leases.stir(self.name, sorted(behind), now)

    async def news(self) -> None:
        """Wait until somebody is said to have come or gone: then the next refresh looks at once."""
        await self._presence.changed()
        self.look_at_once()

    def look_at_once(self) -> None:
        """The next refresh looks at the others' shards, whenever the last one did."""
        self._glance_at = 0

    async def _renew(self, asked: Micros, now: Instant) -> None:
        # The clock was read before the round trip: a slow answer must not lengthen our trust in it.
        settings = self._settings
        # Heard before told: who cannot hear the store must not tell it that he lives, or the others would leave his shards to him for ever.
        if self._is_left_to_others(await self._leases.shards(), self._clock.boottime() - asked, now):
            return
        announced, gone = await self._announce(now), self._presence.left()
        self._live = live = [name for name in announced if name not in gone]
        self._seen_since = {name: self._seen_since.get(name, asked) for name in live}
        kept = set(await self._leases.renew(self.name, self._epochs, now, settings.ttl))
        held = {shard: epoch for shard, epoch in self._epochs.items() if shard in kept}
        free = []
        for lease in await self._leases.shards():
            if lease.owner == self.name:
                # Also one that we took without learning of it: a dispatcher's name is new at every start, so it is ours.
                held[lease.shard] = lease.epoch
            elif preferred_owner(lease.shard, live) == self.name and (lease.owner not in live or _has_run_out(lease, now, settings)):
                free.append(lease)
        if free:
            held |= await self._leases.take(free, self.name, now, settings.ttl)
        settled = {name for name, since in self._seen_since.items() if asked - since >= settings.settled_after}
        foreign = {shard: epoch for shard, epoch in held.items() if preferred_owner(shard, live) in settled - {self.name}}
        if foreign:
            await self._leases.hand_over(self.name, foreign)
        self._epochs = {shard: epoch for shard, epoch in held.items() if shard not in foreign}
        self._trusted_until = asked + settings.ttl - settings.margin
        self._renewed_at = asked

    async def _announce(self, now: Instant) -> Sequence[str]:
        about = None if self._about is None else self._about()
        return await self._leases.announce_dispatcher(self.name, now, self._settings.ttl, about)

    async def _glance(self, asked: Micros, now: Instant) -> None:
        """Take what waits for us: at once what falls to us, a while later what falls to somebody who does not come. Only quick looks count:
        who is slow himself knows nothing about others."""
        settings = self._settings
        self._glance_at = asked + settings.glance_every
        seen = await self._leases.glance(self.name, now - settings.late_at_most, now - settings.late)
        if self._clock.boottime() - asked >= settings.glance_every:
            self._waiting = {}
            return
        waiting = {lease: self._waiting.get(lease, asked) for lease in seen if lease.is_late or lease.owner is None}
        owners = {lease.shard: lease.owner for lease in seen}
        is_given_up = any(lease.owner is None and lease not in self._waiting for lease in seen)
        was_taken = any(owners.get(lease.shard) != lease.owner for lease in self._waiting)
        self._waiting = waiting
        # When it is time to take something, the next look is due: it must not come a glance later.
        due = [since + settings.still_for for since in waiting.values() if since + settings.still_for > asked]
        self._glance_at = min(self._glance_at, *due) if due else self._glance_at
        gone = self._presence.left()
        if is_given_up or was_taken:
            # Somebody left, handed over, or was found dead: who is there now decides whose his shards are.
            announced = [row.name for row in await self._leases.dispatchers(now) if _counts(row, now, settings)]
            self._live = [name for name in announced if name not in gone]
            gone |= {owner for owner in owners.values() if owner is not None and owner not in announced}
        patience: dict[str, int] = {}
        for lease, since in waiting.items():
            if lease.owner is not None:
                patience[lease.owner] = max(patience.get(lease.owner, 0), (asked - since) // settings.still_for)
        ours, dead = [], set[str]()
        for lease in seen:
            # So many have had their time: the owner himself first, if there is one, and then his heirs in turn.
            if lease.owner is None:
                passed_over = (asked - waiting[lease]) // settings.still_for + 1
            else:
                passed_over = patience.get(lease.owner, 0) + (lease.owner in gone)
            heirs = heirs_of(lease.shard, [name for name in self._live if name != lease.owner and name not in gone])
            place = heirs.index(self.name) if self.name in heirs else len(heirs)
            if place < passed_over:
                ours.append(lease)
                dead.update(heirs[:place])
        if ours:
            self._epochs = self._epochs | await self._leases.take(ours, self.name, now, settings.ttl, sorted(dead))

    def _is_left_to_others(self, leases: Sequence[ShardLease], took: Micros, now: Instant) -> bool:
        """Whether we are too slow to be in time, and others are not. They would hand shards over to us and take them back, again and again;
        where everybody is slow, or we are alone, late is better than never."""
        others = (lease for lease in leases if lease.owner not in (None, self.name))
        return took >= self._settings.late + self._settings.still_for and any(
            not _has_run_out(lease, now + took, self._settings) for lease in others
        )

    async def leave(self, now: Instant) -> None:
        """Hand everything over at once: the clean stop."""
        epochs, self._epochs, self._trusted_until = self._epochs, {}, 0
        await self._leases.release(self.name, epochs, now)


def _counts(row: DispatcherRow, now: Instant, settings: OwnershipSettings) -> bool:
    """Not from before the store's clock was set back."""
    return row.expires_at <= now + 2 * settings.ttl


def _has_run_out(lease: ShardLease, now: Instant, settings: OwnershipSettings) -> bool:
    """Past its time, without progress, or beyond all sense: a lease from before the store's clock was set back would last for hours."""
    return lease.lease_until <= now or lease.progress_at <= now - settings.patience or lease.lease_until > now + 2 * settings.ttl
