"""The auditor misses every fire that is gone, and none on a healthy week."""

from __future__ import annotations

from datetime import date

import msgspec

from duly.domain.calendars import Calendar, Holiday
from duly.domain.fire_audit import Flaw
from duly.domain.ids import fire_id
from duly.domain.instants import DAY, HOUR, MINUTE, Instant, from_rfc3339, to_rfc3339
from duly.domain.job import Job
from duly.domain.lifecycle import State
from duly.ports.fire_audit import MissedFilter
from duly.ports.store import ExecutionFilter
from duly.ports.wall import behind_wall
from duly.roles.auditor import Auditor, AuditorSettings
from duly.roles.dispatcher import Dispatcher
from duly.usecases.alerting.alerts import Alerts
from duly.wire.jobs import JobShape
from tests.alerts.conftest import Town
from tests.conformance.ledger import raw
from tests.roles.conftest import ACTOR

WHOLE_WEEK = {"again": 10 * DAY, "again_every": DAY}


async def pass_time(town: Town, dispatcher: Dispatcher | None, seconds: float, step: float = 300, auditor: Auditor | None = None) -> int:
    """Let time go by; answers how many fires the auditor missed meanwhile."""
    missed = 0
    for _ in range(round(seconds / step)):
        town.clock.turn(step)
        if dispatcher is not None:
            await dispatcher.step(town.clock.now())
        if auditor is not None:
            missed += (await auditor.step(town.clock.now())).did["missed"]
    return missed


async def audit_round(town: Town, auditor: Auditor) -> None:
    """A whole round, whatever number of steps it takes."""
    while (await auditor.step(town.clock.now())).wait < 1:
        pass


async def look_at_all_again(town: Town, dispatcher: Dispatcher, auditor: Auditor) -> None:
    """A day later, when the auditor looks back further than to where it was."""
    await pass_time(town, dispatcher, 86_400, 1200)
    await audit_round(town, auditor)


async def missing(town: Town) -> set[tuple[object, Instant]]:
    return {(item.job_id, item.at) for item in await town.store.fire_audit.missed(MissedFilter(1, open_only=True, limit=1000))}


async def remove(town: Town, job: Job, at: Instant) -> None:
    """By hand: every trace of one fire."""
    id = fire_id(job.id, at)
    spelled = f"'{id}'" if town.engine.name == "postgres" else f"x'{id.hex}'"
    for table in ("executions", "outcomes", "timers", "ready", "blocked", "attempts"):
        await raw(town.engine, f"DELETE FROM {table} WHERE id = {spelled}")


async def test_a_healthy_week_has_nothing_missing_and_what_is_removed_from_it_is_found(town: Town) -> None:
    town.clock.instant = from_rfc3339("2026-03-26T11:58:30Z")  # the clocks in Berlin go forward in it
    holidays = Calendar(name="closed", zone="Europe/Berlin", holidays=(Holiday(day=date(2026, 3, 30)),))
    await town.calendars.put(ACTOR, holidays)
    hourly = await town.create(name="hourly", schedule="30 * * * *", timezone="Europe/Berlin")
    daily = await town.create(name="daily", schedule="30 2 * * *", timezone="Europe/Berlin", calendars=["closed"])
    often = await town.create(name="often", intervalSec=1500, jitterSec=60)
    ending = await town.create(name="ending", schedule="0 */3 * * *", startAt="2026-03-27T00:00:00Z", endAt="2026-03-30T00:00:00Z")
    queue = await town.create(name="one-at-a-time", intervalSec=5400, overlap="skip")
    once = await town.create(name="once", type="ONE_TIME", runAt="2026-03-28T01:00:00Z")
    dispatcher, auditor = town.dispatcher(), town.auditor(**WHOLE_WEEK)

    quiet = await pass_time(town, dispatcher, 2 * 86_400, 1200, auditor)
    # What people do to jobs in a week.
    await town.jobs.pause(ACTOR, hourly.id, "a move")
    await town.jobs.skip(ACTOR, daily.id)
    quiet += await pass_time(town, dispatcher, 5 * 3600, 1200, auditor)
    await town.jobs.resume(ACTOR, hourly.id)
    await town.jobs.pause(ACTOR, often.id, None, until=town.clock.now() + 4 * HOUR)
    await change(town, queue, intervalSec=4000)
    quiet += await pass_time(town, dispatcher, 86_400, 1200, auditor)
    await town.calendars.put(ACTOR, Calendar(name="closed", zone="Europe/Berlin", holidays=(Holiday(day=date(2026, 4, 1)),)))
    await change(town, hourly, schedule="15 * * * *", timezone="Europe/Berlin")
    quiet += await pass_time(town, dispatcher, 2 * 86_400, 1200, auditor)
    await town.jobs.cancel(ACTOR, queue.id)
    quiet += await pass_time(town, dispatcher, 2 * 86_400 - 5 * 3600, 1200, auditor)
    await look_at_all_again(town, dispatcher, auditor)

    assert quiet == 0
    assert await missing(town) == set()
    round, _ = await town.store.fire_audit.standing(1)
    assert round is not None
    assert round.looked_at > 1000

    # Of each job some fires are gone: the first, the last, one in between.
    fired: dict[object, list[Instant]] = {}
    for run in await town.store.insights.executions(ExecutionFilter(1, limit=5000)):
        fired.setdefault(run.job_id, []).append(run.scheduled_at or run.due_at)
    gone: set[tuple[object, Instant]] = set()
    for job in (hourly, daily, often, ending, queue, once):
        times = sorted(fired[job.id])
        for at in {times[0], times[len(times) // 2], times[-1]}:
            await remove(town, job, at)
            gone.add((job.id, at))
    await look_at_all_again(town, dispatcher, auditor)

    assert await missing(town) == gone


async def change(town: Town, job: Job, **shape: object) -> None:
    body = {"name": job.version.spec.name, "target": {"handler": "work"}, **shape}
    await town.jobs.change(ACTOR, job.id, msgspec.json.decode(msgspec.json.encode(body), type=JobShape), None)


async def test_a_tenant_is_told_how_far_the_audit_has_come_while_the_first_round_is_under_way(town: Town) -> None:
    for name in ("one", "two", "three"):
        await town.create(name=name, schedule="* * * * *")
    alerts = Alerts(town.store.alerts, town.store.figures, town.store.fire_audit, town.pager, town.clock, town.entropy)
    auditor, wanted = town.auditor(jobs=1), MissedFilter(1)
    with behind_wall(1):
        assert await alerts.missed(wanted) == ([], None, 0)

    begun = town.clock.now() - AuditorSettings().grace
    await auditor.step(town.clock.now())
    # The wall of a store that has one hides the audit of all from those who ask as their tenant.
    with behind_wall(1):
        _, standing, _ = await alerts.missed(wanted)
    assert standing is not None
    assert (standing.is_under_way, standing.audited_to, standing.looked_at) == (True, begun, 0)
    await audit_round(town, auditor)
    town.clock.turn(120)
    await audit_round(town, auditor)
    with behind_wall(1):
        missed, standing, count = await alerts.missed(wanted)
    assert standing is not None
    assert (standing.audited_to, standing.looked_at, len(missed), count) == (begun + 2 * MINUTE, 3, 3, 3)


async def test_a_dispatcher_that_stands_still_is_noticed_and_what_it_makes_up_for_is_resolved(town: Town) -> None:
    job = await town.create(schedule="*/10 * * * *")
    dispatcher, auditor = town.dispatcher(), town.auditor()
    await pass_time(town, dispatcher, 1200, auditor=auditor)

    await pass_time(town, None, 1800, auditor=auditor)
    due = {(job.id, from_rfc3339(f"2026-03-01T12:{minute}:00Z")) for minute in ("30", "40")}
    assert await missing(town) >= due

    await pass_time(town, dispatcher, 1200, 60, auditor)
    assert await missing(town) == set()


async def test_a_schedule_that_has_vanished_is_noticed(town: Town) -> None:
    job = await town.create(schedule="*/10 * * * *")
    dispatcher, auditor = town.dispatcher(), town.auditor()
    await auditor.step(town.clock.now())
    spelled = f"'{job.id}'" if town.engine.name == "postgres" else f"x'{job.id.hex}'"
    await raw(town.engine, f"DELETE FROM schedules WHERE job_id = {spelled}")

    await pass_time(town, dispatcher, 1500, auditor=auditor)

    assert {to_rfc3339(at) for _, at in await missing(town)} == {"2026-03-01T12:10:00Z", "2026-03-01T12:20:00Z"}


async def test_a_fire_that_is_recorded_and_stands_nowhere_is_noticed(town: Town) -> None:
    job = await town.create(schedule="*/10 * * * *")
    dispatcher, auditor = town.dispatcher(), town.auditor()
    await auditor.step(town.clock.now())
    town.clock.turn(600)
    await dispatcher.step(town.clock.now())
    assert [run.state for run in await town.all()] == [State.PENDING]
    await raw(town.engine, "DELETE FROM ready")

    town.clock.turn(120)
    await auditor.step(town.clock.now())

    (found,) = await town.store.fire_audit.missed(MissedFilter(1))
    assert (found.job_id, found.flaw, found.job_name) == (job.id, Flaw.NOWHERE, "job")


async def test_one_auditor_at_a_time_audits(town: Town) -> None:
    await town.create(schedule="* * * * *")
    first, second = town.auditor("one"), town.auditor("two")
    await first.step(town.clock.now())

    town.clock.turn(90)
    assert (await second.step(town.clock.now())).did["looked_at"] == 0

    town.clock.turn(121)
    # The first is gone; where it stood the second goes on.
    await second.step(town.clock.now())
    assert len(await missing(town)) == 2
