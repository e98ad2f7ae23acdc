"""Three hours of downtime under `* * * * *`: each policy gives exactly the documented fires and skips."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duly.domain.catchup import CatchUp, CatchUpPolicy
from duly.domain.instants import HOUR, MINUTE, SECOND
from duly.domain.job import Job, JobType, Timing
from duly.domain.lifecycle import SkipReason, State
from tests.conformance.world import START, World

DOWN = 3 * HOUR
EVERY_MINUTE = Timing(type=JobType.CRON, cron="* * * * *")
MINUTES = [START + nth * MINUTE for nth in range(1, 181)]

# (policy, which of the 180 missed minutes run), oldest first. The dispatcher comes back half a minute after the last of them.
TABLE = [
    (CatchUp(policy=CatchUpPolicy.LATEST), MINUTES[-1:]),
    (CatchUp(policy=CatchUpPolicy.ALL), MINUTES[-100:]),
    (CatchUp(policy=CatchUpPolicy.ALL, max_count=1000), MINUTES),
    (CatchUp(policy=CatchUpPolicy.ALL, max_count=7), MINUTES[-7:]),
    (CatchUp(policy=CatchUpPolicy.ALL, max_count=1000, window=HOUR), MINUTES[-60:]),
    (CatchUp(policy=CatchUpPolicy.ALL, max_count=30, window=HOUR), MINUTES[-30:]),
    (CatchUp(policy=CatchUpPolicy.NONE), MINUTES[-1:]),
    (CatchUp(policy=CatchUpPolicy.NONE, grace=10 * SECOND), []),
    (CatchUp(policy=CatchUpPolicy.NONE, grace=5 * MINUTE), MINUTES[-5:]),
]


async def minutely(world: World, policy: CatchUp) -> Job:
    spec = replace(world.spec(), timing=EVERY_MINUTE, catch_up=policy)
    made = world.new_job(spec, next_fire_at=START)
    await world.store.definitions.create_jobs([([made], None)], world.now)
    return await world.read(made.id)


async def fire_until_nothing_is_due(world: World) -> None:
    while (await world.fire()).advanced:
        pass


@pytest.mark.parametrize(
    ("policy", "expected"), TABLE, ids=lambda value: str(len(value)) if isinstance(value, list) else value.policy.value
)
async def test_three_hours_of_downtime(world: World, policy: CatchUp, expected: list[int]) -> None:
    job = await minutely(world, policy)
    await fire_until_nothing_is_due(world)
    world.turn(DOWN + 30 * SECOND)

    await fire_until_nothing_is_due(world)

    first, *missed = await world.of_job(job)
    assert (first.due_at, first.state) == (START, State.PENDING)
    assert [run.due_at for run in missed] == MINUTES, "each target is there once, as a fire or as a skip"
    assert [run.due_at for run in missed if run.state is State.PENDING] == expected
    assert all(run.skip is SkipReason.MISFIRE for run in missed if run.state is State.SKIPPED)
    assert (await world.read(job.id)).next_fire_at == START + DOWN + MINUTE

    worker = await world.worker()
    started = [due_at for _ in missed if (claimed := await world.claim(worker, 1)) for due_at in claimed.due_ats]
    assert started == [START, *expected][: len(started)], "the oldest starts first"
    assert len(started) == min(len(expected) + 1, len(missed))


async def test_the_minutes_that_follow_are_as_ever(world: World) -> None:
    job = await minutely(world, CatchUp())
    await fire_until_nothing_is_due(world)
    world.turn(DOWN + 30 * SECOND)
    await fire_until_nothing_is_due(world)

    for _ in range(5):
        world.turn(MINUTE)
        await fire_until_nothing_is_due(world)

    last = (await world.of_job(job))[-6:]
    assert [run.state for run in last] == [State.PENDING] * 6
    assert [run.due_at for run in last] == [START + DOWN + nth * MINUTE for nth in range(6)]
