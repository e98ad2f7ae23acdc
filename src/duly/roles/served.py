"""The routes that a worker serves, and what it must know of their handlers before it asks for their work."""

from __future__ import annotations

from collections.abc import Sequence

from duly.domain.fairness import Ask, Work, within_rooms
from duly.domain.serving import Needs, misfits
from duly.ports.handlers import Places, Registry
from duly.ports.store import Route


class Served:
    """One worker's."""

    def __init__(self, pool: str, labels: dict[str, str], registry: Registry, largest_batch: int) -> None:
        self._pool = pool
        self._labels = labels
        self._registry = registry
        self._largest_batch = largest_batch
        self.routes: list[int] = []
        self.without_places: list[int] = []
        # Those whose handler needs more than a slot; and those whose handler takes several executions in one call, and how many.
        self.places: dict[int, Places] = {}
        self._batches: dict[int, int] = {}

    def learn(self, routes: Sequence[Route]) -> None:
        """These are all that there are."""
        offered = self._registry.by_name
        fit = [route for route in routes if not misfits(self._pool, self._labels, offered, Needs(route.pool, route.labels, route.handler))]
        self.routes = [route.number for route in fit]
        self.without_places = [route.number for route in fit if offered[route.handler].places is None]
        self._batches = {route.number: batch for route in fit if (batch := offered[route.handler].batch) > 1}
        self.places = {route.number: places for route in fit if (places := offered[route.handler].places) is not None}

    def with_a_place(self, work: Sequence[Work]) -> list[Work]:
        """The work that could begin: no more for handlers with places of their own than there are places."""
        room_of = {route: id(places) for route, places in self.places.items()}
        return within_rooms(work, room_of, {id(places): places.free for places in self.places.values()})

    def in_batches(self, asks: list[Ask]) -> list[Ask]:
        """A slot of a batch handler is filled by a whole batch."""
        return [self._in_batches(ask) for ask in asks] if self._batches else asks

    def _in_batches(self, ask: Ask) -> Ask:
        batch = self._batches.get(ask.route, 1)
        return ask if batch == 1 else Ask(ask.route, ask.tenant, min(ask.quota * batch, max(self._largest_batch, batch)))
