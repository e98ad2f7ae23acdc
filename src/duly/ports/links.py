"""Links: what may be read with an address alone."""

from __future__ import annotations

from typing import Protocol

from duly.domain.audit import Deed
from duly.domain.instants import Instant
from duly.domain.links import LinkAddress as LinkAddress
from duly.ports.dispatch import Idempotency


class Links(Protocol):
    """A tenant's links. A deed is recorded in the transaction of the change."""

    async def add(self, link: LinkAddress, *, deed: Deed | None = None, idempotency: Idempotency | None = None) -> None:
        """A new one. Raises Conflict (DULY-E213) when the idempotency key has made one before."""

    async def link(self, id: str) -> LinkAddress | None:
        """Whoever's it is; only of tenants that live here."""

    async def links(self, tenant: int) -> list[LinkAddress]:
        """All of the tenant's, by id."""

    async def revoke(self, tenant: int, id: str, now: Instant, *, deed: Deed | None = None) -> LinkAddress | None:
        """It opens nothing from now on; None when the tenant has no such link."""
