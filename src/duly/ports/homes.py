"""What moving a tenant asks of a store. Both sides of a move are asked through this port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from duly.domain.audit import Deed
from duly.domain.homes import Residence, Standing
from duly.domain.instants import Instant
from duly.domain.tenants import Tenant


@dataclass(frozen=True, slots=True)
class Parcel:
    """Some rows of a tenant on their way, by what they are; a store of the same kind knows how to unpack it."""

    rows: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many rows it has."""
        return sum(len(rows) for rows in self.rows.values())


class Homes(Protocol):
    """The homes of tenants in one store."""

    # Parcels fit between stores of one kind.
    kind: str

    async def residence(self, name: str) -> Residence | None:
        """How the tenant stands to this store; None when it has never been here."""

    async def settle(self, tenant: Tenant, standing: Standing, store: str | None) -> bool:
        """Give a tenant that has its number a row here, with its quotas. False: number or name are another's, or it lives here."""

    async def stand(self, residence: Residence, standing: Standing, store: str | None, *, deed: Deed | None = None) -> bool:
        """Let it stand otherwise, if it still stands as read; the deed is recorded with it."""

    async def leave(self, residence: Residence, to: str, *, deed: Deed | None = None) -> None:
        """Put the tenant to sleep: LEAVING, nothing is asked of it any more, nothing of it fires or starts. What runs, runs on.

        Repeating it is harmless, and ends what an interrupted one left open.
        """

    async def hold(self, tenant: int) -> None:
        """Keep what waits here, and comes, from being run: for a tenant that arrives."""

    async def running(self, tenant: int) -> int:
        """How many attempts of it run."""

    async def has_workflows(self, tenant: int) -> bool:
        """Whether it has jobs made of steps, ended ones included: they cannot be brought along yet."""

    async def wake(self, tenant: int) -> None:
        """What slept fires and starts again; the guards go."""

    async def parcels(self, tenant: int, since: Instant) -> AsyncIterator[Parcel]:
        """All that it has, but what it finished before `since`: first what others need, in bounded parcels."""
        yield Parcel()  # pragma: no cover

    async def unpack(self, parcel: Parcel) -> None:
        """Write a parcel in one transaction. What is here already stays as it is."""

    async def counts(self, tenant: int, since: Instant) -> Mapping[str, int]:
        """How much of what there is; `strays` are executions that stand nowhere."""

    async def fence(self) -> int:
        """The highest fence that was ever given here."""

    async def lift_fence(self, fence: int) -> None:
        """Every fence given from now on is higher."""

    async def clear(self, tenant: int) -> int:
        """Remove what the tenant has here, but its row and its audit trail, and then the guards; answers how many executions went."""
