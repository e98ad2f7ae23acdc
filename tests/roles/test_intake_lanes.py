"""Who waits for whom when executions come in: nobody for somebody else's thousands, or for somebody else's quotas."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import pytest

from duly.domain.access import Actor, Role
from duly.domain.audit import Deed
from duly.domain.execution import NewExecution
from duly.domain.instants import Instant
from duly.domain.tenants import Quotas, Tenant
from duly.ports.store import Admission, EnqueueReport, Intake
from duly.usecases.executions import MANY, Executions, Wanted
from duly.usecases.quotas import Directory
from duly.wire.jobs import JobShape
from tests.roles.conftest import World


@dataclass
class Held:
    """An intake that holds up what is large or bounded until it is let go."""

    intake: Intake
    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def enqueue(self, executions: Sequence[NewExecution], now: Instant, deeds: Sequence[Deed] = ()) -> EnqueueReport:
        if len(executions) >= MANY or any(gate.kept for gate in executions[0].gates):
            await self.let_go.wait()
        return await self.intake.enqueue(executions, now, deeds)

    async def enqueue_within(self, calls: Sequence[Sequence[NewExecution]], now: Instant, deeds: Sequence[Deed] = ()) -> Admission:
        await self.let_go.wait()
        return await self.intake.enqueue_within(calls, now, deeds)


@pytest.mark.parametrize(
    ("quotas", "many"), [(Quotas(), MANY), (Quotas(max_queued=9), 1), (Quotas(max_concurrent=1), 1)], ids=["thousands", "queued", "gated"]
)
async def test_nobody_waits_for_what_is_held_up_for_another(world: World, quotas: Quotas, many: int) -> None:
    store, clock = world.store, world.clock
    held = Held(store.intake)
    intake: Intake = held  # type: ignore[assignment]
    executions = Executions(
        world.jobs, intake, store.cancels, store.insights, Directory(store.tenants, clock), clock, world.entropy, world.transport
    )
    made = await store.tenants.create(Tenant(number=0, name="b", quotas=quotas))
    assert made is not None
    shape = msgspec.convert({"name": "job", "target": {"handler": "work"}}, JobShape)
    theirs = (await world.jobs.create(Actor(made.number, "b", Role.ADMIN, "test"), [shape]))[0]
    ours = await world.create()

    waits = asyncio.create_task(executions.enqueue_for(theirs, [Wanted()] * many))
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        [run] = await executions.enqueue_for(ours, [Wanted()])

    assert not waits.done()
    assert (await world.show(run.id)).id == run.id
    held.let_go.set()
    assert len(await waits) == many
