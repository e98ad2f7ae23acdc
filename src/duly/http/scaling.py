"""How many workers a pool should have."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from duly.domain.access import DEFAULT_TENANT_NUMBER, Role
from duly.domain.errors import Invalid
from duly.domain.scaling import Goal, Load, together
from duly.http.routing import Call, Reply, route
from duly.usecases.metrics import usual_slots
from duly.wire.scaling import ScalingView, scaling_view

DEFAULT = Goal()

Seconds = Annotated[float, Meta(ge=0.1, le=86_400)]
Slots = Annotated[int, Meta(ge=1, le=100_000)]
Workers = Annotated[int, Meta(ge=0, le=100_000)]


class ScalingQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """What is aimed at. Without slotsPerWorker: as many as the workers have that there are."""

    target_wait_sec: Seconds = DEFAULT.target_wait
    slots_per_worker: Slots | None = None
    min: Workers = DEFAULT.least
    max: Workers = DEFAULT.most


@route("GET", "/v1/pools/{pool}/scaling", role=Role.VIEWER, answer=ScalingView, problems=("DULY-E106", "DULY-E114"))
async def show_scaling(call: Call, pool: str, query: ScalingQuery) -> Reply:
    """What a pool has to do, and how many workers would do that in time; keys of the tenant default see the work of all tenants"""
    if query.min > query.max:
        raise Invalid("DULY-E106", "must not be above max.", field="min")
    load = (await loads(call)).get(pool, Load())
    slots = query.slots_per_worker or usual_slots(load)
    return Reply(scaling_view(pool, load, Goal(query.target_wait_sec, slots, query.min, query.max)))


async def loads(call: Call) -> dict[str, Load]:
    """Over all stores for those who see all of them; who lives in one has its work there."""
    everywhere = call.services.neighbours if call.actor.tenant == DEFAULT_TENANT_NUMBER else ()
    found = [await services.scaling.loads(call.actor) for services in (call.services, *everywhere)]
    pools = {pool for loads in found for pool in loads}
    return {pool: together(loads[pool] for loads in found if pool in loads) for pool in sorted(pools)}


ROUTES = [show_scaling]
