"""Changes of a job that meet one another."""

from __future__ import annotations

from typing import Any

from duly.domain.instants import HOUR
from tests.roles.conftest import ACTOR, World


async def test_a_change_against_an_old_reading_still_fires_on_its_own_schedule(world: World) -> None:
    hourly = await world.create(schedule="0 * * * *")
    spec = hourly.version.spec
    yearly = (await world.create(name="other", schedule="0 0 1 1 *")).version.spec.timing
    await world.jobs.change_spec(ACTOR, hourly, type(spec)(name="job", timing=yearly, target=spec.target), world.clock.now())

    after = await world.jobs.change_spec(
        ACTOR, hourly, type(spec)(name="job", timing=spec.timing, target=spec.target, payload="1"), world.clock.now()
    )

    assert after.next_fire_at == world.clock.now() + HOUR


async def test_a_resume_that_meets_a_change_waits_for_the_new_schedule(world: World) -> None:
    job = await world.create(schedule="0 * * * *")
    await world.jobs.pause(ACTOR, job.id, None)
    spec = job.version.spec
    real = world.store.definitions
    every_minute = (await world.create(name="other", schedule="* * * * *")).version.spec.timing

    class ChangedMeanwhile:
        changed = False

        async def set_state(self, *args: Any, **changes: Any) -> bool:
            if not self.changed:
                self.changed = True
                world.jobs._store = real
                await world.jobs.change_spec(
                    ACTOR,
                    await world.jobs.show(ACTOR, job.id),
                    type(spec)(name="job", timing=every_minute, target=spec.target),
                    world.clock.now(),
                )
                world.jobs._store = self  # type: ignore[assignment]
            return await real.set_state(*args, **changes)

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    world.jobs._store = ChangedMeanwhile()  # type: ignore[assignment]
    resumed = await world.jobs.resume(ACTOR, job.id)

    assert resumed.next_fire_at == world.clock.now() + HOUR // 60
