"""Looking ahead: until when an answer is complete, and what is remembered of the jobs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from duly.adapters.sql.engine_sqlite import InlineSqliteEngine
from duly.adapters.sql.migrate import upgrade
from duly.domain.access import Actor, Role
from duly.domain.instants import DAY, HOUR, MINUTE
from duly.domain.job import JobVersion
from duly.usecases import upcoming
from duly.usecases.upcoming import Upcoming, Window
from tests.conformance.ledger import raw
from tests.conformance.world import World
from tests.http.conftest import HandClock

ACTOR = Actor(1, "default", Role.ADMIN, "test")


@pytest.fixture
async def world() -> World:
    engine = InlineSqliteEngine()
    await upgrade(engine)
    return World(engine)


def ahead_of(world: World) -> Upcoming:
    return Upcoming(world.store.definitions, world.store.figures, HandClock(world.now))


@pytest.mark.parametrize("is_readable", [True, False])
async def test_of_more_jobs_than_are_read_the_answer_ends_before_the_rest(
    world: World, is_readable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upcoming, "MOST_JOBS", 2)
    jobs = [await world.job(f"j{nth}", at=world.now + nth * MINUTE) for nth in range(1, 7)]
    if not is_readable:
        # A newer release has written the first.
        newer = "json_set(definition, '$.overlap.policy', 'of_tomorrow')"
        await raw(world.engine, f"UPDATE job_versions SET definition = {newer} WHERE job_id = x'{jobs[0].id.hex}'")

    found = await ahead_of(world).fires(ACTOR, Window(world.now, world.now + HOUR), 10, None, 100)

    assert [job.id for _, job in found.fires] == [job.id for job in jobs[:2] if is_readable or job is not jobs[0]]
    assert found.until == world.now + 3 * MINUTE
    assert not (await ahead_of(world).spread(ACTOR, world.now, 10)).is_whole


async def test_exactly_as_many_jobs_as_are_read_are_all_of_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upcoming, "MOST_JOBS", 2)
    for nth in (1, 2):
        await world.job(f"j{nth}", at=world.now + nth * MINUTE)

    found = await ahead_of(world).fires(ACTOR, Window(world.now, world.now + HOUR), 10, None, 100)

    assert (len(found.fires), found.until) == (2, world.now + HOUR)
    assert (await ahead_of(world).spread(ACTOR, world.now, 10)).is_whole


async def test_what_jobs_run_with_is_not_remembered(world: World) -> None:
    await world.job("large", at=world.now + MINUTE, payload='"a secret"')
    ahead = ahead_of(world)

    found = await ahead.fires(ACTOR, Window(world.now, world.now + DAY), 10, None, 10)

    ((_, job),) = found.fires
    assert (job.version.spec.name, job.version.spec.payload) == ("large", None)


async def test_a_memory_that_is_full_is_forgotten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upcoming, "MOST_VERSIONS", 1)
    for nth in (1, 2, 3):
        await world.job(f"j{nth}", at=world.now + nth * MINUTE)
    ahead = ahead_of(world)

    for minutes in (2, 3, 4, 2):
        found = await ahead.fires(ACTOR, Window(world.now, world.now + minutes * MINUTE), 10, None, 10)
        assert len(found.fires) == minutes - 1


async def test_what_somebody_else_forgets_meanwhile_is_not_missing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upcoming, "MOST_VERSIONS", 2)
    for nth in range(1, 5):
        await world.job(f"j{nth}", at=world.now + nth * MINUTE)
    ahead, real = ahead_of(world), world.store.definitions.versions
    await ahead.fires(ACTOR, Window(world.now, world.now + 2 * MINUTE + 1), 10, None, 10)
    others = list[int]()

    async def versions(numbers: Sequence[int]) -> dict[int, JobVersion]:
        found = await real(numbers)
        if not others:
            others.append(1)
            for length in (HOUR, MINUTE + 1):
                # The second of these finds the memory full, forgets all of it, and learns what it needs itself.
                others.append(len((await ahead.fires(ACTOR, Window(world.now, world.now + length), 10, None, 10)).fires))
        return found

    monkeypatch.setattr(world.store.definitions, "versions", versions)
    found = await ahead.fires(ACTOR, Window(world.now, world.now + HOUR), 10, None, 10)

    assert (len(found.fires), others[1:]) == (4, [4, 1])
