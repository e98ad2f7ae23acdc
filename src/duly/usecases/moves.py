"""Moving a tenant from one store to another: nothing is lost, nothing fires twice, and an interruption can be repeated or undone.

    settle at the new home, leave the old one, wait for what runs, copy, compare, switch, wake, clear away

Each step finds what an interrupted one left, so that the same command goes on where it stopped. The switch is one write at the
old home: before it `undo` wakes the tenant where it was, after it only the new home may wake it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from duly.domain.access import BY_SERVER, DEFAULT_TENANT, Actor, Role
from duly.domain.audit import Deed
from duly.domain.errors import Conflict, Invalid, NotFound, Unavailable
from duly.domain.homes import Residence, Standing
from duly.domain.instants import SECOND, Instant, Micros
from duly.ports.audit import Audit
from duly.ports.clock import Clock
from duly.ports.homes import Homes
from duly.ports.tenants import Tenants

# How long a server may believe what it read of a key or a session, and a request may be under way: after it, nobody asks the old
# home for this tenant any more.
TRUST_ENDS: Micros = 30 * SECOND
LOOK_EVERY = 0.1
LINKS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Side:
    """What a move needs of one store."""

    homes: Homes
    tenants: Tenants
    audit: Audit


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """Where to, how much of the past goes along, and how long running work is waited for."""

    to: str
    history: Micros
    patience: Micros
    trust_ends: Micros = TRUST_ENDS


@dataclass(frozen=True, slots=True)
class Moved:
    """What a move did: rows that were copied, and what was compared."""

    source: str | None
    rows: int = 0
    counts: Mapping[str, int] | None = None


Tell = Callable[[str], None]


class Moves:
    """Moves tenants between these stores, by their names. `default` is the one that knows of every tenant where it lives."""

    def __init__(self, sides: Mapping[str, Side], default: str, clock: Clock, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._sides = sides
        self._default = default
        self._clock = clock
        self._sleep = sleep

    async def move(self, name: str, plan: MovePlan, tell: Tell) -> Moved:
        """Bring a tenant to another store, or go on with a move that was interrupted."""
        self._check(name, plan.to)
        found = await self._residences(name)
        source = _home(found)
        if source == plan.to:
            return await self._tidy(name, found, plan, tell)
        if source is None:
            if (arriving := found.get(plan.to)) is None or arriving.standing is not Standing.ARRIVING:
                raise NotFound("DULY-E262", f"There is no tenant {name!r} in any store.", field="tenant")
            return await self._complete(name, arriving, plan, tell)
        home = found[source]
        await self._demand_movable(home, source, plan.to)
        copied, counts = await self._bring(home, source, plan, tell)
        if not await self._sides[source].homes.stand(replace(home, standing=Standing.LEAVING), Standing.GONE, plan.to):
            raise Conflict(
                "DULY-E265", f"{name} was moved by somebody else meanwhile.", hint="Look with `duly tenant show`, and repeat the command."
            )
        arriving = (await self._residences(name))[plan.to]
        await self._complete(name, arriving, plan, tell)
        return Moved(source, copied, counts)

    async def undo(self, name: str, tell: Tell) -> str:
        """Wake a tenant where it was, as long as it has not left; answers where that is."""
        found = await self._residences(name)
        source = _home(found)
        if source is None or found[source].standing is not Standing.LEAVING:
            raise Conflict("DULY-E265", f"{name} is not on its way.", hint="A move that has switched is completed by repeating it.")
        home = found[source]
        target = None if home.store is None else found.get(home.store)
        if target is not None and home.store is not None and target.standing is Standing.ARRIVING:
            tell(f"removing what was copied to {home.store}")
            await self._sides[home.store].homes.clear(target.tenant)
            await self._sides[home.store].homes.stand(target, Standing.GONE, source)
        homes = self._sides[source].homes
        if not await homes.stand(home, Standing.HERE, None):
            raise Conflict("DULY-E265", f"{name} has left meanwhile.", hint="Repeat the move to complete it.")
        await homes.wake(home.tenant)
        tell(f"{name} is awake in {source}")
        return source

    async def foresee(self, name: str, to: str | None) -> str:
        """What a move would do, or None for `to` its undoing, in words. Raises what it would raise at its beginning; writes nothing."""
        if to is not None:
            self._check(name, to)
        found = await self._residences(name)
        source = _home(found)
        if to is None:
            if source is None or found[source].standing is not Standing.LEAVING:
                raise Conflict("DULY-E265", f"{name} is not on its way.", hint="A move that has switched is completed by repeating it.")
            return f"{name} would be awake in {source} again, and what was copied to {found[source].store} would be removed"
        if source == to:
            return f"{name} lives in {to}: what an earlier move has left elsewhere would be removed"
        if source is None:
            if (arriving := found.get(to)) is None or arriving.standing is not Standing.ARRIVING:
                raise NotFound("DULY-E262", f"There is no tenant {name!r} in any store.", field="tenant")
            return f"{name} has been copied to {to}, and would be woken there"
        await self._demand_movable(found[source], source, to)
        return f"{name} would leave {source} and live in {to}; its work would stop for the time of the copy"

    async def _demand_movable(self, home: Residence, source: str, to: str) -> None:
        if home.standing is Standing.LEAVING and home.store != to:
            hint = f"`duly tenant move {home.name} --undo` takes that back."
            raise Conflict("DULY-E265", f"{home.name} is on its way to {home.store}.", hint=hint)
        if await self._sides[source].homes.has_workflows(home.tenant):
            hint = "Make them anew in a tenant of that store."
            raise Conflict("DULY-E268", f"{home.name} has workflows, and those cannot be moved yet.", hint=hint)
        if self._sides[source].homes.kind != self._sides[to].homes.kind:
            raise Invalid("DULY-E265", f"{source} and {to} are stores of different kinds.", field="--to")

    async def _bring(self, home: Residence, source: str, plan: MovePlan, tell: Tell) -> tuple[int, Mapping[str, int]]:
        """All but the switch."""
        old, new, name = self._sides[source], self._sides[plan.to], home.name
        await self._settle(home, source, plan.to)
        await new.homes.hold(home.tenant)
        tell(f"{name} leaves {source}: nothing of it starts any more")
        now = self._clock.now()
        actor = Actor(home.tenant, name, Role.ADMIN, BY_SERVER, channel="cli")
        await old.homes.leave(home, plan.to, deed=Deed(actor, now, "tenant.move", "tenant", name, after={"from": source, "to": plan.to}))
        leaving = replace(home, standing=Standing.LEAVING)
        await self._drained(leaving, old.homes, plan.patience, tell)
        # What ran may have left something to wait for; and its quotas may have changed until it left.
        await old.homes.leave(leaving, plan.to)
        await self._settle(home, source, plan.to)
        await self._linked(old.audit, home.tenant)
        since = max(now - plan.history, 0)
        copied = await self._copied(old.homes, new.homes, home.tenant, since, tell)
        await new.homes.lift_fence(await old.homes.fence())
        return copied, await self._compared(old.homes, new.homes, home.tenant, since)

    async def _settle(self, home: Residence, source: str, to: str) -> None:
        tenant = await self._sides[source].tenants.named(home.name)
        if tenant is None or not await self._sides[to].homes.settle(tenant, Standing.ARRIVING, source):
            hint = "Tenants that a store had before it was one of several keep their numbers; such a one cannot be moved there."
            raise Conflict("DULY-E265", f"{to} has another tenant with the name or the number of {home.name}.", hint=hint)

    async def _drained(self, home: Residence, homes: Homes, patience: Micros, tell: Tell) -> None:
        until, said = self._clock.boottime() + patience, -1
        while running := await homes.running(home.tenant):
            if self._clock.boottime() >= until:
                hint = "Repeat the command to wait on, or take the move back with --undo and cancel what runs."
                raise Unavailable("DULY-E266", f"{running} executions of {home.name} still run.", hint=hint)
            if running != said:
                tell(f"waits for {running} that run")
                said = running
            await self._sleep(LOOK_EVERY)

    async def _linked(self, audit: Audit, tenant: int) -> None:
        """Every record has its link, so that the chain can go along."""
        while True:
            stretch = await audit.stretch(tenant, (1 << 62) - 1, 1)
            if not stretch.waiting:
                return
            if not await audit.link(LINKS_AT_ONCE):
                await self._sleep(LOOK_EVERY)

    async def _copied(self, old: Homes, new: Homes, tenant: int, since: Instant, tell: Tell) -> int:
        copied, told = 0, 0
        async for parcel in old.parcels(tenant, since):
            await new.unpack(parcel)
            copied += parcel.size
            if copied - told >= 20_000:
                tell(f"copied {copied:,} rows")
                told = copied
        tell(f"copied {copied:,} rows in all")
        return copied

    async def _compared(self, old: Homes, new: Homes, tenant: int, since: Instant) -> Mapping[str, int]:
        """Retention may remove at the old home meanwhile, so there may be more of something at the new one, never less."""
        here, there = await old.counts(tenant, since), await new.counts(tenant, since)
        lacking = [f"{there[name]} of {count} {name}" for name, count in here.items() if name != "strays" and there[name] < count]
        if lacking or there["strays"] > here["strays"]:
            what = ", ".join(lacking) or f"{there['strays']} executions stand nowhere"
            raise Conflict("DULY-E267", f"The copy is not complete: {what}.", hint="Repeat the command, or take the move back with --undo.")
        return there

    async def _complete(self, name: str, arriving: Residence, plan: MovePlan, tell: Tell) -> Moved:
        """After the switch: wake it, tell the default store where it lives, and clear its old home."""
        homes, now = self._sides[plan.to].homes, self._clock.now()
        await homes.wake(arriving.tenant)
        actor = Actor(arriving.tenant, name, Role.ADMIN, BY_SERVER, channel="cli")
        deed = Deed(actor, now, "tenant.arrive", "tenant", name, after={"from": arriving.store, "to": plan.to})
        await homes.stand(arriving, Standing.HERE, None, deed=deed)
        tell(f"{name} is awake in {plan.to}")
        return await self._tidy(name, await self._residences(name), plan, tell)

    async def _tidy(self, name: str, found: Mapping[str, Residence], plan: MovePlan, tell: Tell) -> Moved:
        known = found.get(self._default)
        if known is not None and known.standing is Standing.GONE and known.store != plan.to:
            await self._sides[self._default].homes.stand(known, Standing.GONE, plan.to)
        left = {store: residence for store, residence in found.items() if residence.standing is Standing.GONE}
        if any([await self._has_something(store, residence) for store, residence in left.items()]):
            tell("waits until nobody asks for it at its old home")
            await self._sleep(plan.trust_ends / SECOND)
            for store, residence in left.items():
                await self._sides[store].homes.clear(residence.tenant)
                tell(f"{store} is cleared of {name}")
        return Moved(None)

    async def _has_something(self, store: str, residence: Residence) -> bool:
        counts = await self._sides[store].homes.counts(residence.tenant, 0)
        return any(counts.values())

    async def _residences(self, name: str) -> dict[str, Residence]:
        asked = {store: await side.homes.residence(name) for store, side in self._sides.items()}
        return {store: residence for store, residence in asked.items() if residence is not None}

    def _check(self, name: str, to: str) -> None:
        if to not in self._sides:
            raise Invalid("DULY-E264", f"There is no store {to!r}.", field="--to", hint=f"There are {', '.join(sorted(self._sides))}.")
        if name == DEFAULT_TENANT:
            raise Invalid("DULY-E265", "The tenant default lives in the default store.", field="tenant")


def _home(found: Mapping[str, Residence]) -> str | None:
    """Where it lives, if it is not between two homes."""
    homes = [store for store, residence in found.items() if residence.standing in (Standing.HERE, Standing.LEAVING)]
    if len(homes) > 1:
        raise Conflict(
            "DULY-E265", f"{found[homes[0]].name} lives in {' and in '.join(homes)}.", hint="Two installations had a tenant of that name."
        )
    return homes[0] if homes else None
