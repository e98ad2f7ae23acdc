"""Presence: who of the dispatchers is there, told by a service beside the store. A hint, never the truth.

The store's leases decide who may write. A service that knows sooner who is gone makes that quicker, and one that is away,
slow, empty or wrong costs nothing: then the leases tell, as they do without it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LeaseService:
    """What tells who is there (`store`, `etcd`), whether it answers (and if not, why), and whom it knows."""

    kind: str
    is_reachable: bool
    members: tuple[str, ...] = ()
    trouble: str | None = None


class Presence(Protocol):
    """One dispatcher's end of it."""

    async def enter(self, name: str) -> None:
        """Be there from now on, until `leave`. Never waits for the service."""

    async def leave(self) -> None:
        """Be gone at once, and have the others told."""

    def left(self) -> frozenset[str]:
        """Who was there and is gone for sure, as far as the service knows. Nobody while it cannot be heard."""

    async def changed(self) -> None:
        """Wait until somebody comes or goes. What happened since the last wait counts."""

    async def look(self) -> LeaseService:
        """Ask who is there now; whether one has entered or not. Never raises."""


class StoreAlone:
    """No such service: the store's own leases tell everything."""

    async def enter(self, name: str) -> None:
        """Nobody to tell."""

    async def leave(self) -> None:
        """Nobody to tell."""

    def left(self) -> frozenset[str]:
        return frozenset()

    async def changed(self) -> None:
        await asyncio.Event().wait()

    async def look(self) -> LeaseService:
        return LeaseService("store", is_reachable=True)
