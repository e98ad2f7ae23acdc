"""Two stores, a tenant in one of them, and a move that may be interrupted anywhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from duly.adapters.sql.engine import Engine
from duly.domain.homes import Residence, Standing
from duly.domain.instants import DAY, SECOND, Instant
from duly.domain.tenants import Tenant
from duly.ports.homes import Parcel
from duly.ports.store import Store
from duly.usecases.moves import MovePlan, Moves, Side
from tests.conformance.asking import TurnedClock
from tests.conformance.world import Clock, World

PLAN = MovePlan(to="b", history=30 * DAY, patience=0, trust_ends=0)


class Interrupted(Exception):
    """The process of the move has died here."""


class DyingHomes:
    """Homes whose nth call is the last that the process makes: before it does anything, or after it is done."""

    def __init__(self, inner: Any, left: list[int], *, after: bool) -> None:
        self._inner = inner
        self._left = left
        self._after = after
        self.kind = inner.kind

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            self._left[0] -= 1
            if self._left[0] == 0 and not self._after:
                raise Interrupted(name)
            answer = await getattr(self._inner, name)(*args, **kwargs)
            if self._left[0] == 0:
                raise Interrupted(name)
            return answer

        return call

    async def parcels(self, tenant: int, since: Instant) -> AsyncIterator[Parcel]:
        async for parcel in self._inner.parcels(tenant, since):
            self._left[0] -= 1
            if self._left[0] == 0:
                raise Interrupted("parcels")
            yield parcel


class Two:
    """Two stores with one clock. Tenants get their numbers in the first."""

    def __init__(self, first: Engine, second: Engine) -> None:
        self.clock = Clock()
        self.a = World(first, clock=self.clock)
        self.b = World(second, clock=self.clock, seed=2)

    async def tenant(self, name: str = "acme", **more: Any) -> Tenant:
        made = await self.a.store.tenants.create(Tenant(number=0, name=name, created_at=self.clock.now, **more))
        assert made is not None
        return made

    def moves(self, dies_at: int | None = None, *, after: bool = False) -> Moves:
        left = [dies_at or -1]

        def side(store: Store) -> Side:
            homes: Any = store.homes if dies_at is None else DyingHomes(store.homes, left, after=after)
            return Side(homes, store.tenants, store.audit)

        return Moves({"a": side(self.a.store), "b": side(self.b.store)}, "a", TurnedClock(self.a), _no_sleep)

    async def standings(self, name: str = "acme") -> tuple[Standing | None, Standing | None]:
        found: list[Residence | None] = [await world.store.homes.residence(name) for world in (self.a, self.b)]
        return tuple(None if one is None else one.standing for one in found)  # type: ignore[return-value]


async def _no_sleep(seconds: float) -> None:
    assert seconds >= 0


SOON = 10 * SECOND
