"""Fair sharing: how many executions a claim asks for from each (route, tenant) that has work.

Tenants share by weighted deficit round robin: what rounding withholds from a tenant is
remembered as credit and paid later. Within a tenant the oldest head goes first, so that
routes of one tenant behave like one queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Work:
    """Ready work of one tenant on one route: the rank of its head, and how much there is (at most what was counted)."""

    route: int
    tenant: int
    weight: int
    head: int
    depth: int


@dataclass(frozen=True, slots=True)
class Ask:
    """Take at most `quota` of this tenant's ready executions on this route."""

    route: int
    tenant: int
    quota: int


def share_out(
    budget: int, work: Iterable[Work], credit: MutableMapping[int, float], *, counted_to: int, most: Mapping[int, int] | None = None
) -> list[Ask]:
    """Split `budget` over the work. `counted_to` is where counting stopped: a depth that reaches it means "that many or more".

    What a tenant cannot use, or may not (`most`), goes to those that can; `credit` carries the remainders from call to call.
    """
    work = [item for item in work if item.depth > 0 and (most is None or most.get(item.tenant, 1) > 0)]
    if budget <= 0 or not work:
        return []
    if len(work) == 1 and most is None and not credit.get(work[0].tenant):
        # Most claims are: nobody to share with, and nothing owed from before.
        [only] = work
        credit.clear()
        return [Ask(only.route, only.tenant, budget if only.depth >= counted_to else min(budget, only.depth))]
    by_tenant: dict[int, list[Work]] = defaultdict(list)
    for item in work:
        by_tenant[item.tenant].append(item)
    for gone in [tenant for tenant in credit if tenant not in by_tenant]:
        del credit[gone]

    room = {tenant: _depth(items, counted_to) for tenant, items in by_tenant.items()}
    if most is not None:
        room = {tenant: min(depth, most.get(tenant, depth)) for tenant, depth in room.items()}
    given = dict.fromkeys(by_tenant, 0)
    left = budget
    hungry = dict(by_tenant)
    while left > 0 and hungry:
        total = sum(items[0].weight for items in hungry.values())
        round_budget, served = left, 0
        for tenant in sorted(hungry, key=lambda t: (-credit.get(t, 0.0), t)):
            owed = credit.get(tenant, 0.0) + round_budget * hungry[tenant][0].weight / total
            grant = min(int(owed), room[tenant] - given[tenant], left)
            # A tenant that is out of work keeps no claim on the future.
            credit[tenant] = 0.0 if given[tenant] + grant >= room[tenant] else owed - grant
            given[tenant] += grant
            left -= grant
            served += grant
        hungry = {tenant: items for tenant, items in hungry.items() if given[tenant] < room[tenant]}
        if served == 0 and hungry:
            # Shares below one: the largest credit is served now, the others' grows.
            first = max(hungry, key=lambda t: (credit.get(t, 0.0), -t))
            credit[first] = credit.get(first, 0.0) - 1.0
            given[first] += 1
            left -= 1
    return [ask for tenant in sorted(given) for ask in _by_head(by_tenant[tenant], given[tenant], counted_to)]


def slots_kept(slots: int) -> int:
    """How many of a worker's slots are for who has less than its share of them: one in ten, and of fewer none."""
    return slots // 10


def kept_open(room: int, slots: int, kept: int, running: Mapping[int, int], weights: Mapping[int, int]) -> dict[int, int]:
    """How much of `room` each tenant may take so that nobody who comes finds every slot taken for as long as somebody's handlers run.

    Up to its share of the slots, by weight among those who are about, it takes what it gets; who has more leaves the last `kept` to others.
    """
    total = sum(weights.values())
    shares = {tenant: -(-slots * weight // total) for tenant, weight in weights.items()}
    return {tenant: max(share - running.get(tenant, 0), room - kept, 0) for tenant, share in shares.items()}


def within_rooms(work: Iterable[Work], room_of: Mapping[int, Hashable], free: Mapping[Hashable, int]) -> list[Work]:
    """The work that could begin: of routes that share a room no more than fits into it, oldest first; others are not bounded."""
    left = dict(free)
    found: list[Work] = []
    for item in sorted(work, key=lambda item: item.head):
        room = room_of.get(item.route)
        if room is not None:
            item = replace(item, depth=min(item.depth, left[room]))
            left[room] -= item.depth
        found.append(item)
    return found


def _depth(items: list[Work], counted_to: int) -> int:
    return 1 << 30 if any(item.depth >= counted_to for item in items) else sum(item.depth for item in items)


def _by_head(items: list[Work], quota: int, counted_to: int) -> list[Ask]:
    asks: list[Ask] = []
    for item in sorted(items, key=lambda w: (w.head, w.route)):
        take = quota if item.depth >= counted_to else min(quota, item.depth)
        if take > 0:
            asks.append(Ask(item.route, item.tenant, take))
            quota -= take
    return asks
