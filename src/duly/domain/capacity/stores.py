"""A load over several stores: tenants are spread evenly, so each store has its share of every class, and a fleet of its own.

Stores share nothing, so what one of them needs, all of them need: the model runs one, and multiplies. It is only as even as the
tenants are: one that is larger than a store's share stays whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from duly.domain.capacity.costs import Fleet, PoolSize
from duly.domain.capacity.forecast import TIGHT, Forecast, PoolForecast, Question, forecast
from duly.domain.capacity.load import LoadClass
from duly.domain.errors import Invalid

MOST_STORES = 1024
# A database that is planned for is no busier than this: vacuum, backups and other people's queries want something too.
ROOM = 0.6
# What one database holds that is still backed up, restored and vacuumed in a night.
MOST_DISK = 4e12


@dataclass(frozen=True, slots=True, kw_only=True)
class StoresForecast:
    """What each of so many stores has to take, and what that makes for all."""

    stores: int
    fleet: Fleet
    each: Forecast

    @property
    def servers(self) -> int:
        """Dispatchers, over all stores."""
        return self.stores * self.fleet.servers

    @property
    def workers(self) -> int:
        """Worker processes, over all stores."""
        return self.stores * sum(size.workers for size in self.fleet.pools.values())

    @property
    def connections(self) -> int:
        """On each database; whoever serves several stores has them on each."""
        return self.each.connections

    @property
    def disk(self) -> float:
        """Bytes at rest, over all stores."""
        return self.stores * self.each.disk


def share(classes: Sequence[LoadClass], stores: int) -> list[LoadClass]:
    """What one of so many stores has of each class: rounded up, so that nothing is left out."""
    if not 1 <= stores <= MOST_STORES:
        raise Invalid("DULY-E283", f"there are between 1 and {MOST_STORES:,} stores.", field="stores")
    return [replace(load, jobs=-(-load.jobs // stores), per_second=load.per_second / stores) for load in classes]


def over_stores(question: Question, stores: int) -> StoresForecast:
    """The question for one of so many stores; its fleet is the fleet of each."""
    return StoresForecast(stores=stores, fleet=question.fleet, each=forecast(replace(question, classes=share(question.classes, stores))))


def least_stores(question: Question, most: int = 64) -> StoresForecast:
    """The fewest stores (1, 2, 4 …) whose databases keep room, or the most that were tried.

    Servers and workers are added first: they cost less than another database. Judged by what is used, not by lateness: large loads
    are followed in groups, and a group that waits says little about one job.
    """
    stores = 1
    while True:
        found = over_stores(replace(question, fleet=grown(question, stores)), stores)
        each = found.each
        if (each.database.worst <= ROOM and each.dispatchers.worst < TIGHT and each.disk <= MOST_DISK) or stores >= most:
            return found
        stores *= 2


def grown(question: Question, stores: int) -> Fleet:
    """A fleet whose dispatchers and workers suffice for one store's share, whatever its database makes of that."""
    fleet, classes = question.fleet, share(question.classes, stores)
    for _ in range(4):
        found = forecast(replace(question, fleet=fleet, classes=classes))
        servers = max(fleet.servers, _scaled(fleet.servers, found.dispatchers.worst))
        pools = fleet.pools | {pool.pool: PoolSize(_workers(pool), pool.size.slots) for pool in found.pools}
        cores = max(fleet.worker_cores, servers + sum(size.workers for size in pools.values()))
        after = replace(fleet, servers=servers, pools=pools, worker_cores=cores)
        if after == fleet:
            break
        fleet = after
    return fleet


def _workers(pool: PoolForecast) -> int:
    """As many as their loops and their slots ask for, the latter with a fifth to spare."""
    slots = max(pool.needed or 0, pool.mean_busy)
    return max(_scaled(pool.size.workers, pool.loop_use), ceil(slots / TIGHT / max(pool.size.slots, 1)))


def _scaled(count: int, use: float) -> int:
    """So many that each is at most 60 % busy."""
    return max(count, -(-round(count * use * 100) // 60)) if use > 0.7 else count
