"""When a dispatcher fires, and when it leaves it alone."""

from __future__ import annotations

from duly.domain.instants import MINUTE, SECOND, from_rfc3339, to_rfc3339
from duly.domain.lifecycle import JobState, SkipReason, State, Trigger
from duly.ports.handlers import Attempt
from tests.roles.conftest import ACTOR, World, run_until_idle


async def echo(attempt: Attempt) -> object:
    return attempt.payload


async def test_a_cron_job_fires_at_its_instant_and_not_before(world: World) -> None:
    await world.create(schedule="* * * * *")
    dispatcher = world.dispatcher()

    world.clock.turn(59.999999)
    await dispatcher.step(world.clock.now())
    assert await world.all() == []

    world.clock.turn(0.000001)
    await dispatcher.step(world.clock.now())
    [fired] = await world.all()
    assert (fired.trigger, to_rfc3339(fired.due_at), fired.state) == (Trigger.SCHEDULE, "2026-03-01T12:01:00Z", State.PENDING)


async def test_two_dispatchers_fire_each_target_once(world: World) -> None:
    await world.create(schedule="* * * * *", overlap="allow")
    first, second = world.dispatcher("d1"), world.dispatcher("d2")

    for _ in range(10):
        world.clock.turn(60)
        await first.step(world.clock.now())
        await second.step(world.clock.now())
        await first.step(world.clock.now())

    due = [to_rfc3339(execution.due_at) for execution in await world.all()]
    assert due == [f"2026-03-01T12:{minute:02d}:00Z" for minute in range(1, 11)]


async def test_a_one_time_job_fires_once_and_is_complete(world: World) -> None:
    job = await world.create(runAt="2026-03-01T12:00:30Z")
    dispatcher = world.dispatcher()

    for _ in range(3):
        world.clock.turn(30)
        await dispatcher.step(world.clock.now())

    assert len(await world.all()) == 1
    assert (await world.jobs.show(ACTOR, job.id)).state is JobState.COMPLETED


async def test_a_one_time_job_in_the_past_is_late_not_forgotten(world: World) -> None:
    await world.create(runAt="2026-03-01T11:00:00Z")

    await world.dispatcher().step(world.clock.now())

    [fired] = await world.all()
    assert fired.state is State.PENDING


async def test_after_an_outage_only_the_latest_target_runs_and_the_others_are_recorded(world: World) -> None:
    await world.create(schedule="* * * * *")
    dispatcher = world.dispatcher()

    world.clock.turn(3 * 3600)
    while (await dispatcher.step(world.clock.now())).did["fired"]:
        pass

    executions = await world.all()
    assert len(executions) == 180
    assert [execution.state for execution in executions] == [State.SKIPPED] * 179 + [State.PENDING]
    assert {execution.skip for execution in executions[:-1]} == {SkipReason.MISFIRE}


async def test_catch_up_all_runs_the_newest_within_its_bounds_oldest_first(world: World) -> None:
    await world.create(schedule="* * * * *", overlap="allow", catchUp={"policy": "all", "maxCount": 5})
    dispatcher = world.dispatcher()

    world.clock.turn(3600)
    await dispatcher.step(world.clock.now())

    states = [execution.state for execution in await world.all()]
    assert states == [State.SKIPPED] * 55 + [State.PENDING] * 5


async def test_catch_up_none_runs_only_what_is_within_the_grace(world: World) -> None:
    await world.create(schedule="* * * * *", overlap="allow", catchUp={"policy": "none", "graceSec": 90})
    dispatcher = world.dispatcher()

    world.clock.turn(3600 + 10)
    await dispatcher.step(world.clock.now())

    states = [execution.state for execution in await world.all()]
    assert states == [State.SKIPPED] * 58 + [State.PENDING] * 2


async def test_a_busy_second_is_not_an_outage(world: World) -> None:
    await world.create(schedule="* * * * * *", seconds=True, overlap="allow")
    dispatcher = world.dispatcher()

    world.clock.turn(30)
    await dispatcher.step(world.clock.now())

    assert [execution.state for execution in await world.all()] == [State.PENDING] * 30


async def test_a_fire_is_skipped_while_the_previous_run_is_live(world: World) -> None:
    world.handle("work", echo)
    await world.create(schedule="* * * * *")
    dispatcher, worker = world.dispatcher(), await world.worker()

    for _ in range(2):
        world.clock.turn(60)
        await dispatcher.step(world.clock.now())
    first, second = await world.all()
    assert (first.state, second.state, second.skip) == (State.PENDING, State.SKIPPED, SkipReason.OVERLAP)

    await worker.heartbeat.beat(world.store.liveness)
    worker = await world.worker()
    await run_until_idle(worker, world.clock)
    world.clock.turn(60)
    await dispatcher.step(world.clock.now())
    assert [execution.state for execution in await world.all()] == [State.SUCCEEDED, State.SKIPPED, State.PENDING]


async def test_queue_one_waits_and_starts_when_the_place_is_free(world: World) -> None:
    world.handle("work", echo)
    await world.create(schedule="* * * * *", overlap="queue_one")
    dispatcher = world.dispatcher()

    for _ in range(3):
        world.clock.turn(60)
        await dispatcher.step(world.clock.now())
    assert [execution.state for execution in await world.all()] == [State.PENDING, State.BLOCKED, State.SKIPPED]

    await run_until_idle(await world.worker(), world.clock)
    assert [execution.state for execution in await world.all()] == [State.SUCCEEDED, State.SUCCEEDED, State.SKIPPED]


async def test_a_paused_job_does_not_fire_and_resumes_without_a_burst(world: World) -> None:
    job = await world.create(schedule="* * * * *")
    dispatcher = world.dispatcher()
    await world.jobs.pause(ACTOR, job.id, "db move")

    world.clock.turn(600)
    await dispatcher.step(world.clock.now())
    assert await world.all() == []

    resumed = await world.jobs.resume(ACTOR, job.id)
    assert resumed.next_fire_at == world.clock.now() + MINUTE
    world.clock.turn(60)
    await dispatcher.step(world.clock.now())
    assert len(await world.all()) == 1


async def test_a_new_version_keeps_the_next_fire_of_an_unchanged_schedule(world: World) -> None:
    job = await world.create(schedule="0 * * * *")
    world.clock.turn(60)

    spec = (await world.jobs.show(ACTOR, job.id)).version.spec
    after = await world.jobs.change_spec(
        ACTOR, job, type(spec)(name="job", timing=spec.timing, target=spec.target, payload="1"), world.clock.now()
    )

    assert after.next_fire_at == job.next_fire_at == from_rfc3339("2026-03-01T13:00:00Z")
    assert after.version.version == 2


async def test_a_delayed_execution_becomes_ready_when_it_is_due(world: World) -> None:
    job = await world.create()
    id = (await world.enqueue(job, delay=5 * SECOND))[0]
    dispatcher = world.dispatcher()
    assert (await world.show(id)).state is State.SCHEDULED

    world.clock.turn(4.9)
    await dispatcher.step(world.clock.now())
    assert (await world.show(id)).state is State.SCHEDULED

    world.clock.turn(0.1)
    await dispatcher.step(world.clock.now())
    assert (await world.show(id)).state is State.PENDING


async def test_the_rest_ends_at_the_next_known_instant(world: World) -> None:
    await world.create(schedule="* * * * * *", seconds=True)
    dispatcher = world.dispatcher()
    world.clock.turn(1)

    step = await dispatcher.step(world.clock.now())
    assert step.wait == 0.0
    world.clock.turn(0.25)
    step = await dispatcher.step(world.clock.now())

    assert 0.74 < step.wait < 0.76
