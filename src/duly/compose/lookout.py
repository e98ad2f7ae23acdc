"""A look at the load of a pool, for whoever starts and stops its workers on this host."""

from __future__ import annotations

from duly import config
from duly.compose.node import Node
from duly.compose.stores import open_nodes
from duly.domain.access import DEFAULT_TENANT, DEFAULT_TENANT_NUMBER, Actor, Role
from duly.domain.scaling import Load, together
from duly.usecases.scaling import Scaling

_LOOKER = Actor(DEFAULT_TENANT_NUMBER, DEFAULT_TENANT, Role.VIEWER, "code", channel="sdk")


class Lookout:
    """Asks the stores that these settings serve. They are opened at the first look, and stay open."""

    def __init__(self, settings: config.Settings, pool: str) -> None:
        self._settings = settings
        self._pool = pool
        self._nodes: list[Node] = []

    async def __call__(self) -> Load:
        """The load of the pool now. Raises Unavailable while a store is away."""
        if not self._nodes:
            self._nodes = await open_nodes(self._settings)
        found = [await Scaling(node.store.loads, node.store.insights, node.store.ready, node.clock).loads(_LOOKER) for node in self._nodes]
        return together(loads[self._pool] for loads in found if self._pool in loads)
