"""Roles together: a laptop that slept, jitter, a skipped fire, limits with many workers, and a predecessor that is told to stop."""

from __future__ import annotations

import asyncio
from collections import Counter

from duly.domain.instants import SECOND, from_rfc3339, to_rfc3339
from duly.domain.lifecycle import SkipReason, State
from duly.ports.handlers import Attempt
from duly.roles.worker import Worker
from tests.roles.conftest import ACTOR, World, run_until_idle


async def rest() -> None:
    """Everybody gets his turns."""
    for _ in range(10):
        await asyncio.sleep(0)


class Gate:
    """A handler that runs until it is let go, and counts who is in it."""

    def __init__(self) -> None:
        self.inside: Counter[object] = Counter()
        self.most: Counter[object] = Counter()
        self.waiting: list[asyncio.Event] = []

    async def work(self, attempt: Attempt) -> None:
        key = attempt.payload["user"]
        self.inside[key] += 1
        self.most[key] = max(self.most[key], self.inside[key])
        leave = asyncio.Event()
        self.waiting.append(leave)
        try:
            await leave.wait()
        finally:
            self.inside[key] -= 1


async def test_a_laptop_that_slept_for_eight_hours_does_not_burst(world: World) -> None:
    """Suspended: no role ran, and the time since boot went on. The policy applies, the worker starts as a new one."""
    world.handle("work", _nothing)
    latest = await world.create(name="latest", schedule="*/5 * * * *")
    none = await world.create(name="none", schedule="*/5 * * * *", catchUp="none")
    every = await world.create(name="all", schedule="*/5 * * * *", catchUp={"policy": "all", "maxCount": 3}, overlap="allow")
    dispatcher, sweeper = world.dispatcher(), world.sweeper()
    world.clock.turn(300)
    worker = await world.worker()
    await dispatcher.step(world.clock.now())
    await run_until_idle(worker, world.clock)
    before = len(await world.all())

    world.clock.turn(8 * 3600 + 130)
    assert not worker.heartbeat.is_trusted
    while (await dispatcher.step(world.clock.now())).did["fired"]:
        pass
    await sweeper.step(world.clock.now())
    await run_until_idle(await world.worker(), world.clock)

    after = (await world.all())[before:]
    ran = Counter(run.job_name for run in after if run.state is State.SUCCEEDED)
    skipped = Counter(run.job_name for run in after if run.skip is SkipReason.MISFIRE)
    assert ran == {"latest": 1, "all": 3}
    assert skipped == {"latest": 95, "none": 96, "all": 93}
    for job in (latest, none, every):
        assert to_rfc3339((await world.jobs.show(ACTOR, job.id)).next_fire_at or 0) == "2026-03-01T20:10:00Z"


async def test_jitter_delays_the_start_and_nothing_else(world: World) -> None:
    world.handle("work", _key)
    job = await world.create(schedule="* * * * *", jitterSec=30, overlap="allow")
    dispatcher = world.dispatcher()
    starts: dict[str, int] = {}
    for _ in range(5 * 60):
        world.clock.turn(1)
        await dispatcher.step(world.clock.now())
        await run_until_idle(await world.worker(), world.clock)
        for run in await world.all():
            if run.started_at is not None:
                starts.setdefault(to_rfc3339(run.scheduled_at or 0), run.started_at)

    assert sorted(starts) == [f"2026-03-01T12:0{minute}:00Z" for minute in range(1, 1 + len(starts))]
    delays = [(start - from_rfc3339(at)) / SECOND for at, start in starts.items()]
    assert len(delays) >= 4
    assert all(0 <= delay <= 31 for delay in delays)
    assert len({round(delay) for delay in delays}) > 1, "not always the same"
    finished = [run for run in await world.all() if run.state is State.SUCCEEDED]
    keys = [run.result for run in finished]
    assert keys == [f'"default/{job.version.spec.name}/{to_rfc3339(run.scheduled_at or 0)}"' for run in finished]
    assert all((run.started_at or 0) - run.due_at < SECOND + 1 for run in finished), "late is counted from the delayed time"


async def test_a_skipped_fire_is_recorded_and_the_next_one_runs(world: World) -> None:
    job = await world.create(schedule="* * * * *", overlap="allow")
    await world.jobs.skip(ACTOR, job.id, job.next_fire_at)
    dispatcher = world.dispatcher()
    for _ in range(2):
        world.clock.turn(60)
        await dispatcher.step(world.clock.now())

    skipped, ran = await world.all()
    assert (skipped.state, skipped.skip, ran.state) == (State.SKIPPED, SkipReason.ASKED, State.PENDING)
    assert '"by":"test"' in (skipped.error or "")
    assert (await world.jobs.show(ACTOR, job.id)).skip_at is None


async def test_twenty_workers_share_three_slots_of_a_key_and_leave_none_idle(world: World) -> None:
    gate = Gate()
    world.handle("work", gate.work)
    job = await world.create(concurrency={"max": 3, "key": "user"})
    for user in range(2):
        await world.enqueue(job, 15, payload=f'{{"user":{user}}}')
    workers = [await world.worker(slots=2) for _ in range(20)]

    ended = 0
    while ended < 30:
        await _step_all(workers, world)
        for user in range(2):
            left = 15 - sum(run.state is State.SUCCEEDED and run.payload == f'{{"user":{user}}}' for run in await world.all())
            assert gate.inside[user] == min(3, left), "three run while three wait"
        for leave in gate.waiting:
            leave.set()
        gate.waiting.clear()
        await rest()
        await _step_all(workers, world)
        ended = sum(run.state is State.SUCCEEDED for run in await world.all())

    assert gate.most == {0: 3, 1: 3}


async def test_a_predecessor_that_ignores_the_wish_is_waited_for(world: World) -> None:
    """cancel_previous with a handler that goes on: it is asked, it is never killed, and the next one starts after its end."""
    release, lives = asyncio.Event(), []

    async def stubborn(attempt: Attempt) -> str:
        lives.append(("start", to_rfc3339(attempt.scheduled_at)))
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        lives.append(("end", to_rfc3339(attempt.scheduled_at)))
        return "done all the same"

    world.handle("work", stubborn)
    await world.create(schedule="* * * * *", overlap="cancel_previous", stopGraceSec=1)
    dispatcher, worker = world.dispatcher(), await world.worker()

    async def live(seconds: int) -> None:
        for _ in range(0, seconds, 5):
            world.clock.turn(5)
            await dispatcher.step(world.clock.now())
            assert await worker.heartbeat.beat(world.store.liveness)
            await worker.step(world.clock.now())
            await rest()

    await live(4 * 60)
    assert [run.state for run in await world.all()] == [State.RUNNING, State.SKIPPED, State.SKIPPED, State.BLOCKED]
    assert lives == [("start", "2026-03-01T12:01:00Z")]

    release.set()
    await live(30)

    assert [run.state for run in await world.all()] == [State.CANCELLED, State.SKIPPED, State.SKIPPED, State.SUCCEEDED]
    assert lives == [(kind, f"2026-03-01T12:0{minute}:00Z") for minute in (1, 4) for kind in ("start", "end")]


async def _step_all(workers: list[Worker], world: World) -> None:
    for _ in range(3):
        for worker in workers:
            await worker.step(world.clock.now())
        await rest()


async def _nothing(attempt: Attempt) -> None:
    return None


async def _key(attempt: Attempt) -> str:
    return attempt.idempotency_key
