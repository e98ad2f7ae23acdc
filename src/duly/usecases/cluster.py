"""Who owns what: the dispatchers, the shards they hold, and what tells who is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from duly.domain.access import DEFAULT_TENANT_NUMBER, Actor
from duly.domain.instants import Instant, Micros
from duly.ports.clock import Clock
from duly.ports.condition import Conditions, StoreCondition
from duly.ports.presence import LeaseService, Presence
from duly.ports.store import DispatcherAbout, DispatcherRow, Health, Leases, ShardLease
from duly.ports.wall import behind_wall

MOST_TABLES = 12


@dataclass(frozen=True, slots=True)
class StoreState:
    """Which kind of store it is, and how long it took to say what time it is."""

    kind: str
    took: Micros


@dataclass(frozen=True, slots=True)
class ClusterState:
    """All of it at one moment, by the store's clock. `skew` is that of the process that answers."""

    now: Instant
    store: StoreState
    service: LeaseService
    dispatchers: list[DispatcherRow]
    shards: list[ShardLease]
    skew: Micros | None


class Cluster:
    """The use case."""

    def __init__(
        self,
        leases: Leases,
        health: Health,
        conditions: Conditions,
        presence: Presence,
        clock: Clock,
        kind: str,
        skew: Callable[[], Micros] | None = None,
    ) -> None:
        self._leases = leases
        self._health = health
        self._conditions = conditions
        self._presence = presence
        self._clock = clock
        self._kind = kind
        self._skew = skew

    async def show(self, actor: Actor) -> ClusterState:
        """Where it stands now. Where dispatchers run is for the tenant of those who run the installation; to others they are numbers."""
        now, asked = self._clock.now(), self._clock.boottime()
        await self._health.store_now()
        took = self._clock.boottime() - asked
        state = ClusterState(
            now,
            StoreState(self._kind, took),
            await self._presence.look(),
            await self._leases.dispatchers(now),
            await self._leases.shards(),
            None if self._skew is None else self._skew(),
        )
        return state if actor.tenant == DEFAULT_TENANT_NUMBER else _nameless(state)

    async def store(self, actor: Actor) -> tuple[str, StoreCondition]:
        """Which kind of store it is, and how it fares. That is for those who run the installation; others learn the kind alone."""
        if actor.tenant != DEFAULT_TENANT_NUMBER:
            return self._kind, StoreCondition()
        # Behind a tenant's wall the server hides what others do.
        with behind_wall(None):
            return self._kind, await self._conditions.condition(MOST_TABLES)


def _nameless(state: ClusterState) -> ClusterState:
    names = {row.name for row in state.dispatchers} | {lease.owner for lease in state.shards if lease.owner} | set(state.service.members)
    numbers = {name: f"dispatcher-{number}" for number, name in enumerate(sorted(names), 1)}
    return replace(
        state,
        service=replace(state.service, members=tuple(numbers[name] for name in state.service.members), trouble=None),
        dispatchers=[
            replace(row, name=numbers[row.name], about=replace(row.about or DispatcherAbout(), host="", pid=0)) for row in state.dispatchers
        ],
        shards=[replace(lease, owner=numbers[lease.owner] if lease.owner else None) for lease in state.shards],
    )
