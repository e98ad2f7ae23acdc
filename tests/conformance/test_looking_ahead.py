"""Jobs by when they fire next, and by when they have changed."""

from __future__ import annotations

from duly.domain.instants import HOUR, MINUTE, SECOND
from duly.domain.lifecycle import JobState
from tests.conformance.world import World


async def test_those_that_wait_are_read_soonest_first(world: World) -> None:
    await world.add_tenant(2)
    late = await world.job("late", at=world.now + 2 * HOUR)
    soon = await world.job("soon", at=world.now + HOUR)
    await world.job("asked")
    await world.job("theirs", tenant=2, at=world.now + HOUR)
    paused = await world.job("paused", at=world.now + HOUR)
    await world.store.definitions.set_state(1, paused.id, JobState.PAUSED, paused.next_fire_at, None, world.now)
    jobs = world.store.definitions

    assert [job.id for job in await jobs.waiting_jobs(1, world.now + 3 * HOUR, 10)] == [soon.id, late.id]
    assert [job.id for job in await jobs.waiting_jobs(1, world.now + 3 * HOUR, 1)] == [soon.id]
    assert [job.id for job in await jobs.waiting_jobs(1, world.now + 2 * HOUR, 10)] == [soon.id]
    assert await jobs.waiting_jobs(1, world.now + HOUR, 10) == []


async def test_those_that_were_made_or_changed_are_found(world: World) -> None:
    await world.add_tenant(2)
    jobs = world.store.definitions
    old = [await world.job(f"old-{n}") for n in range(4)]
    once = await world.job("once", at=world.now + 2 * MINUTE)
    world.turn(MINUTE)
    since = world.now
    assert await jobs.changed_jobs(1, since, 10) == []

    made = await world.job("made")
    await world.job("theirs", tenant=2)
    await jobs.set_state(1, old[1].id, JobState.PAUSED, None, None, world.now)
    assert await jobs.new_version(1, old[2].id, world.spec("old-2", priority=old[2].version.spec.priority), None, 1, world.now)
    changed = await jobs.changed_jobs(1, since, 10)
    assert {job.id for job in changed} == {made.id, old[1].id, old[2].id}
    assert changed[0].id == made.id
    assert len(await jobs.changed_jobs(1, since, 2)) == 2

    world.turn(2 * MINUTE)
    since = world.now
    await world.fire()
    (completed,) = await jobs.changed_jobs(1, since - SECOND, 10)
    assert (completed.id, completed.state) == (once.id, JobState.COMPLETED)
