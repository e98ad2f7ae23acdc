"""Tenants: create, list, show, change, and a key for one that has lost its own.

An administrator of the tenant `default` looks after the installation, and so after every tenant. Any other caller sees its own
tenant and no other: a foreign name is as unknown as one that there is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from duly.domain.access import Actor, Role
from duly.domain.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from duly.domain.homes import Plot, Standing, on_its_way, store_for
from duly.domain.instants import Micros
from duly.domain.tenants import Quotas, Tenant, Usage, administers_all, check_weight, parse_tenant_name
from duly.ports import tenants as port
from duly.ports.clock import Clock
from duly.ports.dispatch import Idempotency
from duly.ports.homes import Homes
from duly.ports.keys import KeyRow
from duly.ports.transport import Transport
from duly.ports.wall import behind_wall
from duly.usecases.access import Keyring
from duly.usecases.deeds import tenant_changed, tenant_created
from duly.usecases.quotas import Directory

FIRST_KEY = "first admin key"
# A tenant that has moved on since the default store was told is followed so often.
FORWARDED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantChange:
    """What becomes of a tenant; what is None stays as it is. Quotas are replaced as a whole."""

    weight: int | None = None
    quotas: Quotas | None = None


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The stores of an installation that has more than one, as one of them (`own`) sees them.

    The default one knows of every tenant: it gives each its number, and says where it lives.
    """

    own: str
    default: str
    plots: Sequence[Plot]
    # The other stores that are open here; the composer fills them in when all of them are there.
    tenants: dict[str, Tenants]
    homes: dict[str, Homes]

    def place(self, name: str) -> str:
        """Where a new tenant is made. Raises Invalid (DULY-E264) for a store that this server does not serve."""
        store = store_for(name, self.plots, self.default)
        if store != self.own and store not in self.tenants:
            raise Invalid("DULY-E264", f"This server does not serve the store {store!r}.", field="name")
        return store


class Tenants:
    """The use cases on tenants. Where there are several stores, those of the default one lead to the others."""

    def __init__(
        self,
        store: port.Tenants,
        keyring: Keyring,
        quotas: Directory,
        clock: Clock,
        transport: Transport,
        neighbourhood: Neighbourhood | None = None,
    ) -> None:
        self._neighbourhood = neighbourhood
        self._store = store
        self._keyring = keyring
        self._quotas = quotas
        self._clock = clock
        self._transport = transport

    async def create(
        self, actor: Actor, name: str, weight: int, quotas: Quotas, idempotency: Idempotency | None = None
    ) -> tuple[Tenant, KeyRow, str]:
        """A new tenant, its first ADMIN key, and the secret of that, which is kept nowhere."""
        with _reach(actor):
            _demand_installation(actor)
            wanted = Tenant(
                number=0, name=parse_tenant_name(name), weight=check_weight(weight), quotas=quotas, created_at=self._clock.now()
            )
            place = None if self._neighbourhood is None else self._neighbourhood.place(name)
            is_here = self._neighbourhood is None or place == self._neighbourhood.own
            registered = wanted if is_here else replace(wanted, standing=Standing.GONE, store=place)
            once = None if idempotency is None else (actor.tenant, idempotency)
            made = await self._store.create(registered, deed=tenant_created(actor, wanted), idempotency=once)
            if made is None:
                hint = "Change it with PUT, or make a key for it with POST /v1/tenants/{tenant}/keys."
                raise Conflict("DULY-E261", f"A tenant named {name!r} exists already.", field="name", hint=hint)
            self._quotas.forget()
            # Should we die before this, the tenant has no key: `add_key` makes one.
            there = self if is_here else await self._home_of(made)
            return self._shown(made), *(await there._first_key(actor, made))

    async def _first_key(self, actor: Actor, made: Tenant) -> tuple[KeyRow, str]:
        return await self._keyring.create(_administrator(made, actor), Role.ADMIN, FIRST_KEY)

    async def _home_of(self, tenant: Tenant) -> Tenants:
        """The use cases where a tenant lives that is GONE from here. One that has no row there, since somebody died on the way, gets it."""
        around, at = self._neighbourhood, tenant.store
        for _ in range(FORWARDED):
            if around is None or at not in around.tenants:
                raise Unavailable("DULY-E501", f"The store {at!r} of this tenant is not served here.")
            residence = await around.homes[at].residence(tenant.name)
            if residence is None:
                await around.homes[at].settle(replace(tenant, standing=Standing.HERE, store=None), Standing.HERE, None)
            elif residence.standing is Standing.GONE and residence.store in around.tenants:
                at = residence.store
                continue
            return around.tenants[at]
        raise on_its_way()

    def _shown(self, tenant: Tenant) -> Tenant:
        """With the name of the store where it lives, if there are several."""
        if self._neighbourhood is None or tenant.standing is Standing.GONE:
            return tenant
        return replace(tenant, store=self._neighbourhood.own)

    async def find(self, actor: Actor, after: str, limit: int) -> list[Tenant]:
        """Tenants by name, past `after`; for all but the installation's administrators only their own."""
        with _reach(actor):
            if administers_all(actor):
                return [await self._followed(tenant) for tenant in await self._store.page(after, limit)]
            return [] if after else [self._shown(await self._visible(actor, actor.tenant_name))]

    async def _followed(self, tenant: Tenant) -> Tenant:
        """As its home knows it; one whose store does not answer, as it was when it left."""
        if tenant.standing is not Standing.GONE:
            return self._shown(tenant)
        try:
            there = await self._home_of(tenant)
            return there._shown(await there._store.named(tenant.name) or tenant)
        except Unavailable:
            return tenant

    async def show(self, actor: Actor, name: str) -> tuple[Tenant, Usage]:
        """A tenant and what it uses."""
        with _reach(actor):
            tenant = await self._visible(actor, name)
            if tenant.standing is Standing.GONE:
                return await (await self._home_of(tenant)).show(actor, name)
            return self._shown(tenant), await self._store.usage(tenant.number, tenant.quotas, self._clock.now())

    async def change(self, actor: Actor, name: str, change: TenantChange, expected: int | None) -> Tenant:
        """Give a tenant another weight or other quotas. They hold at once here, and within two seconds on every node."""
        with _reach(actor):
            while True:
                tenant = await self._visible(actor, name)
                _demand_installation(actor)
                if tenant.standing is Standing.GONE:
                    return await (await self._home_of(tenant)).change(actor, name, change, expected)
                if expected is not None and tenant.version != expected:
                    raise Conflict("DULY-E209", "The tenant has changed meanwhile.", hint="Read it again and repeat the change.")
                weight = tenant.weight if change.weight is None else check_weight(change.weight)
                quotas = tenant.quotas if change.quotas is None else change.quotas
                now = self._clock.now()
                deed = tenant_changed(actor, now, tenant, weight, quotas)
                routes = await self._store.change(tenant.number, weight, quotas, tenant.version, now, deed=deed)
                if routes is not None:
                    break
            self._quotas.forget()
            if routes:
                await self._transport.announce(routes)
            return self._shown(await self._visible(actor, name))

    async def add_key(
        self,
        actor: Actor,
        name: str,
        role: Role,
        key_name: str,
        lasts: Micros | None,
        pools: tuple[str, ...] | None,
        idempotency: Idempotency | None = None,
    ) -> tuple[KeyRow, str]:
        """A key of that tenant and its secret: for one that has lost its own."""
        with _reach(actor):
            tenant = await self._visible(actor, name)
            if tenant.standing is Standing.GONE:
                return await (await self._home_of(tenant)).add_key(actor, name, role, key_name, lasts, pools, idempotency)
            return await self._keyring.create(_administrator(tenant, actor), role, key_name, lasts, pools, idempotency)

    async def _visible(self, actor: Actor, name: str) -> Tenant:
        found = await self._store.named(name) if administers_all(actor) or name == actor.tenant_name else None
        if found is None:
            raise NotFound("DULY-E262", f"There is no tenant {name!r}.", field="tenant")
        return found


def _reach(actor: Actor) -> AbstractContextManager[None]:
    """Who looks after the installation looks over every wall; any other stays behind its own."""
    return behind_wall(None if administers_all(actor) else actor.tenant)


def _administrator(tenant: Tenant, actor: Actor) -> Actor:
    """The caller, acting for a tenant that it looks after: the record of it is that tenant's."""
    return replace(actor, tenant=tenant.number, tenant_name=tenant.name, role=Role.ADMIN)


def _demand_installation(actor: Actor) -> None:
    if not administers_all(actor):
        raise Forbidden(
            "DULY-E263",
            "Tenants, their weights and their quotas are changed by administrators of the installation.",
            field="Authorization",
            hint="Use an ADMIN key of the tenant default.",
        )
