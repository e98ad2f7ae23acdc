"""The crier: says which executions are ready, in the order in which they should be taken.

It looks at the heads of the queues and names what stands there, a window of each route at most, shared out over tenants as a worker
would. What is named is remembered until it is gone; what still stands there seconds later is named again: to a worker that died, or
did not serve it, or never got the message. As workers take it, the window moves.

A queue that is deeper than the window is only called deep: its workers take whole batches from the store, and naming thousands would
cost more than it spares. That is said when a queue becomes deep, and again only while its head stands still: where it moves, workers
look for themselves, and one that has nothing to do looks within a second. So nothing is said of a queue that was deep before the crier
came, unless nobody takes from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from heapq import nsmallest

from duly.domain.announcements import Announcement, Named, in_messages
from duly.domain.fairness import Ask, Work, share_out
from duly.domain.instants import SECOND, Instant, Micros
from duly.ports.clock import Clock
from duly.ports.store import Route, StoreQueue
from duly.ports.transport import Courier, Transport
from duly.roles.loop import Step

# Whether a deep queue moves is seen by the first of so many of its tenants: those who come next.
HEADS = 16


@dataclass(frozen=True, slots=True)
class CrierSettings:
    """How many of a route are named at once, how often it looks without being told, and when what was said is said again, if it still
    stands there.

    `listeners` is over how many messages a burst is spread."""

    window: int = 500
    poll: float = 0.5
    again_after: Micros = 2 * SECOND
    listeners: int = 16
    look_for_routes_every: Micros = SECOND


class Crier:
    """Any number may run: what is named twice is claimed once. `owns` says whose route it is, so that mostly one of them speaks of it."""

    name = "crier"

    def __init__(
        self, queue: StoreQueue, courier: Courier, transport: Transport, clock: Clock, owns: Callable[[int], bool], settings: CrierSettings
    ) -> None:
        self._queue = queue
        self._courier = courier
        self._transport = transport
        self._clock = clock
        self._owns = owns
        self._settings = settings
        self._routes: dict[int, Route] = {}
        self._routes_looked_at: Micros = -settings.look_for_routes_every
        # What was named, and when.
        self._named: dict[Named, Micros] = {}
        # The routes that were ours at the last look; and what stood at the heads of the deep ones, since when or since it was said.
        self._mine: set[int] = set()
        self._deep: dict[int, tuple[set[Named], Micros]] = {}
        self._credit: dict[int, dict[int, float]] = defaultdict(dict)

    async def step(self, now: Instant) -> Step:
        """Look once, and say what is new."""
        settings, clock = self._settings, self._clock.boottime()
        if clock - self._routes_looked_at >= settings.look_for_routes_every:
            self._routes = {route.number: route for route in await self._queue.routes()}
            self._routes_looked_at = clock
        mine = [number for number in self._routes if self._owns(number)]
        work = await self._queue.work(mine, settings.window) if mine else []
        by_route: dict[int, list[Work]] = defaultdict(list)
        for item in work:
            by_route[item.route].append(item)
        deep = {route for route, items in by_route.items() if sum(item.depth for item in items) >= settings.window}
        named = await self._name({route: items for route, items in by_route.items() if route not in deep}, clock)
        told = await self._call_deep({route: by_route[route] for route in deep}, clock)
        self._mine = set(mine)
        return Step(settings.poll, {"named": named, "deep": told})

    async def _name(self, by_route: dict[int, list[Work]], now: Micros) -> int:
        settings = self._settings
        asks = [
            ask
            for route, items in by_route.items()
            for ask in share_out(settings.window, items, self._credit[route], counted_to=settings.window)
        ]
        seen = await self._queue.peek(asks) if asks else []
        fresh = [name for name in seen if now - self._named.get(name, -settings.again_after) >= settings.again_after]
        self._named = {name: self._named.get(name, now) for name in seen} | dict.fromkeys(fresh, now)
        by_pool: dict[str, list[Named]] = defaultdict(list)
        for name in sorted(fresh, key=lambda name: (name.rank, name.id)):
            by_pool[self._routes[name.route].pool].append(name)
        for pool, names in by_pool.items():
            await self._courier.post(pool, list(in_messages(names, settings.listeners)))
        return len(fresh)

    async def _call_deep(self, by_route: dict[int, list[Work]], now: Micros) -> int:
        # By the ids that stand there, because a flood that came at once is all of one rank.
        asks = [Ask(item.route, item.tenant, 1) for items in by_route.values() for item in nsmallest(HEADS, items, lambda item: item.head)]
        heads: dict[int, set[Named]] = {route: set() for route in by_route}
        for name in await self._queue.peek(asks) if asks else []:
            heads[name.route].add(name)
        due = {route for route, head in heads.items() if self._is_to_be_called(route, head, now)}
        moved = {route for route, head in heads.items() if route not in self._deep or self._deep[route][0] != head}
        self._deep = {route: (head, now) if route in due | moved else self._deep[route] for route, head in heads.items()}
        by_pool: dict[str, list[int]] = defaultdict(list)
        for route in due:
            by_pool[self._routes[route].pool].append(route)
        for pool, routes in by_pool.items():
            await self._courier.post_all(pool, Announcement(deep=sorted(routes)[:1000]))
        return len(due)

    def _is_to_be_called(self, route: int, head: set[Named], now: Micros) -> bool:
        if (before := self._deep.get(route)) is None:
            return route in self._mine
        return before[0] == head and now - before[1] >= self._settings.again_after

    async def wait(self, seconds: float) -> None:
        """Rest, or until somebody says that something is ready."""
        await self._transport.wait_ready(seconds)
