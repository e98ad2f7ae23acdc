"""Tenants, as the store has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from duly.domain.audit import Deed
from duly.domain.ids import JobId
from duly.domain.instants import Instant
from duly.domain.tenants import Quotas, Tenant, Usage
from duly.ports.dispatch import Idempotency


@dataclass(frozen=True, slots=True)
class Bounded:
    """The quotas of all tenants that have any, by their numbers, and the number of the newest tenant there was."""

    quotas: dict[int, Quotas]
    newest: int


class Tenants(Protocol):
    """Tenants, their quotas and what they use."""

    async def create(
        self, tenant: Tenant, *, deed: Deed | None = None, idempotency: tuple[int, Idempotency] | None = None
    ) -> Tenant | None:
        """A new tenant, to which the store gives its number. None when the name is taken.

        Raises Conflict (DULY-E213) when the idempotency key, of the tenant that stands beside it, has made it before.
        """

    async def named(self, name: str) -> Tenant | None:
        """The tenant of that name."""

    async def page(self, after: str, limit: int) -> list[Tenant]:
        """Tenants by name, past `after`."""

    async def bounded(self) -> Bounded:
        """All tenants that have quotas."""

    async def change(
        self, tenant: int, weight: int, quotas: Quotas, expected: int, now: Instant, *, deed: Deed | None = None
    ) -> Sequence[int] | None:
        """Another weight and other quotas, if the tenant still has the `expected` version; None when it has not.

        Its gates have the new capacity in the same moment. Answers the routes on which something became ready by it.
        """

    async def usage(self, tenant: int, quotas: Quotas, now: Instant) -> Usage:
        """What the tenant uses now."""

    async def prune(self, tenant: int, before: Instant, now: Instant, first: JobId | None, limit: int) -> tuple[int, JobId | None]:
        """Remove what jobs of the tenant have finished before a time, beginning with the job `first`: at most `limit`, of a few jobs.

        Answers how many went, and the job to go on with; None when that was all.
        """
