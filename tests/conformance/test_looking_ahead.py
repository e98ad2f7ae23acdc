"""Jobs by when they fire next, and by when they have changed."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from duly.adapters.sql import listing
from duly.domain.instants import HOUR, MINUTE, SECOND
from duly.domain.lifecycle import JobState
from tests.conformance.world import World


@pytest.mark.parametrize("few", [listing.FEW_JOBS, 0], ids=["of a tenant with few jobs", "of a tenant with many"])
async def test_those_that_wait_are_read_soonest_first(world: World, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "FEW_JOBS", few)
    await world.add_tenant(2)
    late = await world.job("late", at=world.now + 2 * HOUR)
    soon = await world.job("soon", at=world.now + HOUR)
    await world.job("asked")
    await world.job("theirs", tenant=2, at=world.now + HOUR)
    paused = await world.job("paused", at=world.now + HOUR)
    await world.store.definitions.set_state(1, paused.id, JobState.PAUSED, paused.next_fire_at, None, world.now)
    jobs = world.store.definitions

    async def waiting(before: int, limit: int) -> list[UUID]:
        found, known_until = await jobs.waiting(1, before, limit)
        assert known_until == before
        return [job.id for job in found]

    assert await waiting(world.now + 3 * HOUR, 100) == [soon.id, late.id]
    assert await waiting(world.now + 2 * HOUR, 100) == [soon.id]
    assert await waiting(world.now + HOUR, 100) == []
    if few:
        assert await waiting(world.now + 3 * HOUR, 1) == [soon.id]


async def test_of_many_that_wait_the_answer_says_until_when_they_are_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "FEW_JOBS", 0)
    await world.add_tenant(2)
    theirs = world.spec("theirs", at=world.now + MINUTE)
    crowd = [replace(theirs, name=f"theirs-{n}", timing=replace(theirs.timing, run_at=world.now + n * MINUTE)) for n in range(1, 300)]
    await world.store.definitions.create_jobs([([world.new_job(spec, tenant=2) for spec in crowd], None)], world.now)
    first = await world.job("first", at=world.now + 30)
    last = await world.job("last", at=world.now + 10_000 * MINUTE)

    found, known_until = await world.store.definitions.waiting(1, world.now + 20_000 * MINUTE, 32)

    # Two of each shard are read: what lies behind the second of any is not known.
    assert world.now + 30 < known_until < world.now + 300 * MINUTE
    assert [job.id for job in found] == [first.id]
    everything, known_until = await world.store.definitions.waiting(1, world.now + 20_000 * MINUTE, 5_000)
    assert known_until == world.now + 20_000 * MINUTE
    assert [job.id for job in everything] == [first.id, last.id]


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
