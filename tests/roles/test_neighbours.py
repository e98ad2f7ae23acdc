"""A worker under one tenant's flood: what another tenant brings is neither overlooked nor left behind a large batch."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from duly.domain.access import Actor, Role
from duly.domain.fairness import slots_kept
from duly.domain.instants import SECOND
from duly.domain.job import Job
from duly.domain.lifecycle import State
from duly.domain.tenants import Tenant
from duly.ports.handlers import Attempt
from duly.roles.inbox import Inbox, Mail
from duly.roles.neighbours import NEIGHBOUR_FOR
from duly.roles.worker import GUESS_FOR, Worker, WorkerSettings
from duly.wire.jobs import JobShape
from tests.roles.conftest import World, run_until_idle
from tests.roles.test_crier import Box


async def echo(attempt: Attempt) -> Any:
    return attempt.payload


async def job_of(world: World, name: str) -> Job:
    """A job of a tenant of that name."""
    made = await world.store.tenants.create(Tenant(number=0, name=name))
    assert made is not None
    shape = msgspec.convert({"name": "job", "target": {"handler": "work"}}, JobShape)
    return (await world.jobs.create(Actor(made.number, name, Role.ADMIN, "test"), [shape]))[0]


async def hired(world: World) -> Worker:
    """A worker that looks for work as real ones do."""
    worker = await world.worker()
    worker.settings = replace(WorkerSettings(name="w"), look_for_routes_every=-1)
    return worker


async def step(world: World, worker: Worker) -> int:
    """One step and what it starts; answers how many were claimed."""
    claimed = (await worker.step(world.clock.now())).did["claimed"]
    for _ in range(5):
        await asyncio.sleep(0)
    return claimed


async def test_a_newcomer_is_seen_though_the_flood_goes_on(world: World) -> None:
    world.handle("work", echo)
    flood, newcomer = await job_of(world, "b"), await job_of(world, "a")
    await world.enqueue(flood, 3_000)
    worker = await hired(world)
    await step(world, worker)
    [run] = await world.enqueue(newcomer)
    world.clock.turn(0.001)

    await step(world, worker)
    await step(world, worker)

    found = await world.store.insights.execution(newcomer.version.tenant, run)
    assert found is not None
    assert found.started_at is not None


async def test_batches_are_small_while_others_may_have_work(world: World) -> None:
    world.handle("work", echo)
    flood, other = await job_of(world, "b"), await job_of(world, "a")
    await world.enqueue(flood, 5_000)
    await world.enqueue(other)
    worker = await hired(world)

    shared = [await step(world, worker) for _ in range(8)]
    world.clock.turn(NEIGHBOUR_FOR / SECOND)
    alone = [await step(world, worker) for _ in range(4)]

    assert worker.settings.largest_shared_batch // 2 < max(shared) <= worker.settings.largest_shared_batch
    assert max(alone) > 2 * worker.settings.largest_shared_batch


async def test_a_flood_of_long_handlers_leaves_a_slot_for_who_was_here_lately(world: World) -> None:
    gate = asyncio.Event()

    async def sometimes(attempt: Attempt) -> None:
        if attempt.payload:
            await gate.wait()

    world.handle("work", sometimes)
    flood, other = await job_of(world, "b"), await job_of(world, "a")
    await world.enqueue(other)
    await world.enqueue(flood, 100, payload="true")
    worker = await world.worker(slots=20)
    for _ in range(10):
        await step(world, worker)
    [run] = await world.enqueue(other)

    assert await step(world, worker) == 1
    found = await world.store.insights.execution(other.version.tenant, run)
    assert found is not None
    assert found.started_at is not None

    world.clock.turn(NEIGHBOUR_FOR / SECOND)
    assert [await step(world, worker), await step(world, worker)] == [2, 0], "alone, it takes them all"
    gate.set()
    await run_until_idle(worker, world.clock)


@pytest.mark.parametrize("half", ["step", "take"])
async def test_what_waits_begins_in_parts_while_others_are_about(world: World, half: str) -> None:
    gate = asyncio.Event()

    async def waits(attempt: Attempt) -> None:
        await gate.wait()

    world.handle("work", waits)
    flood, other = await job_of(world, "b"), await job_of(world, "a")
    for job in (flood, other):
        await world.enqueue(job)
    worker = await world.worker(slots=20)
    await step(world, worker)
    await world.enqueue(flood, 100)

    parts = [await getattr(worker, half)(world.clock.now())]
    while parts[-1].wait == 0.0:
        await asyncio.sleep(0)
        parts.append(await getattr(worker, half)(world.clock.now()))

    # Before a look the other one is thought of, too; at the end there are not four free slots for each of whom that is so.
    assert [part.did["claimed"] for part in parts] == [1, 5, 4, 4, 2], "and two are kept open"
    gate.set()
    await run_until_idle(worker, world.clock)


@pytest.mark.parametrize("slots", [1, 2, 4, 9])
async def test_who_has_few_slots_uses_them_all_and_takes_no_more(world: World, slots: int) -> None:
    gates: list[asyncio.Event] = []

    async def waits(attempt: Attempt) -> None:
        gates.append(asyncio.Event())
        await gates[-1].wait()

    world.handle("work", waits)
    for name in ("a", "b"):
        await world.enqueue(await job_of(world, name), 40)
    worker = await world.worker(slots=slots)

    for nth in range(20):
        for _ in range(slots + 2):
            await step(world, worker)
        assert len(gates) == slots + nth, "one more for each that ended"
        world.clock.turn(0.05)
        gates[nth].set()
        await asyncio.sleep(0)

    held = await world.store.ready.held_by(worker.heartbeat.worker)
    assert sum(len(lease.ids) for lease in held) <= slots + 1, "what has ended is not reported yet"
    world.handle("work", echo)
    for gate in gates:
        gate.set()
    worker.draining = True
    await run_until_idle(worker, world.clock)


async def test_while_slots_are_short_ends_are_reported_several_at_a_time_but_soon(world: World) -> None:
    gates = [asyncio.Event() for _ in range(16)]

    async def waits(attempt: Attempt) -> None:
        await gates[attempt.payload].wait()

    world.handle("work", waits)
    job = await job_of(world, "b")
    for nth in range(16):
        await world.enqueue(job, payload=str(nth))
    worker = await world.worker(slots=16)
    await step(world, worker)
    await step(world, worker)
    assert not worker.wake.is_set()

    gates[0].set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    one_has_ended = worker.wake.is_set()
    async with asyncio.timeout(30):
        await worker.wake.wait()
    after_a_breath = (await worker.step(world.clock.now())).did["finished"]
    gates[1].set()
    gates[2].set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    an_eighth_has_ended = worker.wake.is_set()

    assert (one_has_ended, after_a_breath, an_eighth_has_ended) == (False, 1, True)
    for gate in gates:
        gate.set()
    await run_until_idle(worker, world.clock)


async def test_while_others_are_about_ends_are_seen_to_more_at_a_time(world: World) -> None:
    world.handle("work", echo)
    worker = await world.worker(slots=16)

    def enough() -> list[int]:
        return [next(n for n in range(17) if breath.is_enough(n)) for breath in (worker._runners.reporting, worker._runners.taking)]

    await world.enqueue(await job_of(world, "b"))
    await run_until_idle(worker, world.clock)
    alone = enough()
    await world.enqueue(await job_of(world, "a"))
    await run_until_idle(worker, world.clock)
    beside = enough()
    world.clock.turn(NEIGHBOUR_FOR / SECOND)
    await worker.step(world.clock.now())

    assert (alone, beside, enough()) == ([2, 2], [4, 4], [2, 2])


class Calls:
    """A queue that notes what it is asked."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.names: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.names.append(name)
        return getattr(self._real, name)


async def test_who_is_about_is_claimed_before_a_look(world: World) -> None:
    world.handle("work", echo)
    jobs = [await job_of(world, name) for name in ("a", "b")]
    for job in jobs:
        await world.enqueue(job)
    worker = await world.worker()
    await run_until_idle(worker, world.clock)
    calls = worker._ready = Calls(worker._ready)
    await world.enqueue(jobs[0])

    claimed = await step(world, worker)

    assert (claimed, calls.names[0]) == (1, "claim")
    await run_until_idle(worker, world.clock)


async def test_queues_that_had_no_work_lately_are_not_thought_of(world: World) -> None:
    for name in ("work", "x", "y", "z"):
        world.handle(name, echo)
    jobs = [await job_of(world, name) for name in ("a", "b")]
    shapes = [msgspec.convert({"name": name, "target": {"handler": name}}, JobShape) for name in ("x", "y", "z")]
    others = await world.jobs.create(Actor(jobs[0].version.tenant, "a", Role.ADMIN, "test"), shapes)
    worker = await world.worker()
    for job in (*jobs, *others):
        await world.enqueue(job)
    for _ in range(3):
        await run_until_idle(worker, world.clock)
        world.clock.turn(NEIGHBOUR_FOR / SECOND / 2)
        await worker.heartbeat.beat(world.store.liveness)
        for job in jobs:
            await world.enqueue(job)
    await run_until_idle(worker, world.clock)
    calls = worker._ready = Calls(worker._ready)
    await world.enqueue(jobs[0])

    claimed = await step(world, worker)

    assert (claimed, calls.names[0]) == (1, "claim")
    assert len(worker._habit._queues) == len(jobs)
    await run_until_idle(worker, world.clock)


async def test_guesses_follow_one_another_until_the_last_look_is_old_and_whoever_is_new_is_seen_then(world: World) -> None:
    gate = asyncio.Event()

    async def waits(attempt: Attempt) -> None:
        await gate.wait()

    world.handle("work", waits)
    flood, other, new = [await job_of(world, name) for name in ("b", "a", "c")]
    for job in (flood, other):
        await world.enqueue(job)
    worker = await world.worker(slots=100)
    worker.settings = replace(WorkerSettings(name="w"), slots=100)
    await step(world, worker)
    await world.enqueue(flood, 1000)
    for _ in range(2):
        await step(world, worker)
    calls = worker._ready = Calls(worker._ready)
    run = (await world.enqueue(new))[0]

    assert await step(world, worker) > 0
    assert calls.names == ["claim"]
    world.clock.turn(GUESS_FOR / SECOND)
    assert [(await worker.step(world.clock.now())).wait, calls.names] == [0.0, ["claim", "claim", "work"]]
    # As the loop does between two steps.
    await asyncio.sleep(0)
    await step(world, worker)

    found = await world.store.insights.execution(new.version.tenant, run)
    assert found is not None
    assert found.state is State.RUNNING
    gate.set()
    worker.draining = True
    await run_until_idle(worker, world.clock)


async def test_slots_that_are_kept_open_do_not_make_a_worker_with_a_courier_look_away(world: World) -> None:
    goes_on = asyncio.Semaphore(0)

    async def waits(attempt: Attempt) -> None:
        await goes_on.acquire()

    world.handle("work", waits)
    flood, other = await job_of(world, "b"), await job_of(world, "a")
    await world.enqueue(other)
    await world.enqueue(flood, 400)
    worker = await hired(world)
    worker._inbox = Inbox(Mail(Box(), world.store.ready, "default", "alike"), world.clock)
    while await step(world, worker):
        pass
    kept = worker.settings.slots - len(worker._runners.running)
    assert 0 < kept <= slots_kept(worker.settings.slots)

    # Ten end, perhaps the one of the other tenant among them, and nobody names what is ready: it is known that there is more.
    for _ in range(10):
        goes_on.release()
    world.clock.turn(0.05)

    assert sum([await step(world, worker) for _ in range(4)]) in (9, 10)
