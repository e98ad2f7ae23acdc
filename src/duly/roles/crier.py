"""The crier: says which executions are ready, in the order in which they should be taken.

It looks at the heads of the queues and names what stands there, a window of each route at most, shared out over tenants as a worker
would. What is named is remembered until it is gone; what still stands there seconds later is named again: to a worker that died, or
did not serve it, or never got the message. As workers take it, the window moves. A queue that is deeper than the window is only
called deep: its workers take whole batches from the store, and naming thousands would cost more than it spares.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from duly.domain.announcements import Announcement, Named, in_messages
from duly.domain.fairness import Work, share_out
from duly.domain.instants import SECOND, Instant, Micros
from duly.ports.clock import Clock
from duly.ports.store import Route, StoreQueue
from duly.ports.transport import Courier, Transport
from duly.roles.loop import Step


@dataclass(frozen=True, slots=True)
class CrierSettings:
    """How many of a route are named at once, how often it looks without being told, and when what was named is named again.

    `listeners` is over how many messages a burst is spread; `deep_every` how often the workers of a deep queue are told."""

    window: int = 500
    poll: float = 0.5
    again_after: Micros = 2 * SECOND
    deep_every: Micros = SECOND // 4
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
        self._called_deep: dict[int, Micros] = {}
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
        told = await self._call_deep(deep, clock)
        return Step(settings.deep_every / SECOND if deep else settings.poll, {"named": named, "deep": told})

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

    async def _call_deep(self, deep: set[int], now: Micros) -> int:
        due = [route for route in deep if now - self._called_deep.get(route, -self._settings.deep_every) >= self._settings.deep_every]
        self._called_deep = {route: at for route, at in self._called_deep.items() if route in deep} | dict.fromkeys(due, now)
        by_pool: dict[str, list[int]] = defaultdict(list)
        for route in due:
            by_pool[self._routes[route].pool].append(route)
        for pool, routes in by_pool.items():
            await self._courier.post_all(pool, Announcement(deep=sorted(routes)[:1000]))
        return len(due)

    async def wait(self, seconds: float) -> None:
        """Rest, or until somebody says that something is ready."""
        await self._transport.wait_ready(seconds)
