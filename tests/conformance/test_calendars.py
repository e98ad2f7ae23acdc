"""Calendars and the jobs that have them written out; pauses with an end; skips."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from duly.adapters.sql.engine import Engine
from duly.domain.calendars import Calendar, Holiday, OnExcluded, Weekday
from duly.domain.errors import Conflict, Invalid
from duly.domain.ids import JobId
from duly.domain.instants import DAY, HOUR, MINUTE, to_datetime
from duly.domain.job import Job, JobType, schedule_of
from duly.domain.lifecycle import JobState
from duly.domain.pauses import first_fire
from duly.domain.schedule import next_fire
from duly.ports.calendars import Rewritten, SkipAnswer
from duly.ports.store import JobFilter, Reschedule
from duly.usecases.calendars import _rewritten
from tests.conformance.ledger import raw
from tests.conformance.world import START, World

TODAY = to_datetime(START).date()
WORKDAYS = (Weekday.MON, Weekday.TUE, Weekday.WED, Weekday.THU, Weekday.FRI)


def closed(name: str, *days: int) -> Calendar:
    """A calendar whose holidays are so many days from the start."""
    return Calendar(name=name, holidays=tuple(Holiday(day=TODAY + timedelta(days=day)) for day in days))


async def put(world: World, calendar: Calendar, expected: int | None = None) -> list[Job] | None:
    now = world.now
    return await world.store.calendars.put_calendar(1, calendar, expected, lambda job, new: _rewritten(job, new, now), now)


async def keeping(world: World, *names: str, name: str | None = None, **timing: Any) -> Job:
    """A job that fires every day at noon and keeps to these calendars."""
    known = await world.store.definitions.calendars_named(1, names)
    spec = world.spec(name, every=DAY)
    timing = {"calendars": tuple(known[name] for name in names), **timing}
    spec = replace(spec, timing=replace(spec.timing, **timing))
    new = world.new_job(spec)
    made = replace(new, next_fire_at=first_fire(schedule_of(spec.timing, new.id), world.now))
    await world.store.definitions.create_jobs([([made], None)], world.now)
    return await world.read(made.id)


async def uses(world: World) -> set[tuple[str, JobId]]:
    return {(row["name"], row["job_id"]) for row in await raw(world.engine, "SELECT name, job_id FROM calendar_uses")}


class TestCalendars:
    async def test_a_calendar_is_read_as_it_was_put(self, world: World) -> None:
        assert await put(world, closed("de", 1)) == []

        row = await world.store.calendars.calendar(1, "de")
        assert row is not None
        assert row.calendar == replace(closed("de", 1), version=1)
        assert row.updated_at == world.now
        assert await world.store.calendars.calendars(1) == [row]
        assert await world.store.calendars.calendars(2) == []
        assert await world.store.calendars.calendar(2, "de") is None

    async def test_what_is_as_it_was_changes_nothing(self, world: World) -> None:
        await put(world, closed("de", 1))
        job = await keeping(world, "de")
        world.turn(HOUR)

        assert await put(world, closed("de", 1)) == []

        row = await world.store.calendars.calendar(1, "de")
        assert row is not None
        assert (row.calendar.version, row.updated_at) == (1, START)
        assert (await world.read(job.id)).version == job.version

    async def test_an_expected_version_must_be_the_one_there_is(self, world: World) -> None:
        assert await put(world, closed("de", 1), expected=1) is None
        assert await put(world, closed("de", 1), expected=0) == []
        assert await put(world, closed("de", 2), expected=0) is None
        assert await put(world, closed("de", 2), expected=1) == []

        row = await world.store.calendars.calendar(1, "de")
        assert row is not None
        assert row.calendar.version == 2

    async def test_a_change_gives_every_job_a_new_version_and_another_fire(self, world: World) -> None:
        await put(world, closed("de"))
        await put(world, closed("other"))
        one, two = await keeping(world, "de"), await keeping(world, "de", "other")
        bystander = await keeping(world, "other")
        assert one.next_fire_at == START + DAY

        changed = await put(world, closed("de", 1, 2))

        assert {job.id for job in changed or ()} == {one.id, two.id}
        for before in (one, two):
            after = await world.read(before.id)
            assert after.version.version == 2
            assert after.next_fire_at == START + 3 * DAY
            assert after.version.spec.timing.calendars[0] == replace(closed("de", 1, 2), version=2)
            assert after.version.route == before.version.route
        assert await world.read(bystander.id) == bystander
        # The old version never changes: what was fired under it can still be explained.
        assert (await world.store.definitions.versions([one.version.number]))[one.version.number] == one.version

    async def test_what_is_due_already_is_still_owed(self, world: World) -> None:
        await put(world, closed("de"))
        job = await keeping(world, "de")
        world.turn(2 * DAY + HOUR)

        await put(world, closed("de", 1))

        assert (await world.read(job.id)).next_fire_at == START + 2 * DAY

    async def test_a_paused_job_stays_paused(self, world: World) -> None:
        await put(world, closed("de"))
        job = await keeping(world, "de")
        await world.pause(job, "why not")

        await put(world, closed("de", 1))

        after = await world.read(job.id)
        assert (after.state, after.pause_reason, after.version.version) == (JobState.PAUSED, "why not", 2)
        world.turn(3 * DAY)
        assert (await world.decide()).advances == []

    async def test_a_pause_with_an_end_is_kept(self, world: World) -> None:
        await put(world, closed("de"))
        job = await keeping(world, "de")
        until = START + 5 * DAY + HOUR
        await world.store.definitions.set_state(1, job.id, JobState.PAUSED, START + 6 * DAY, None, world.now, by="me", until=until)

        await put(world, closed("de", 6))

        after = await world.read(job.id)
        assert (after.next_fire_at, after.paused_until, after.standing(world.now)) == (START + 7 * DAY, until, JobState.PAUSED)

    async def test_it_is_all_or_nothing(self, world: World) -> None:
        await put(world, closed("de"))
        one, two = await keeping(world, "de"), await keeping(world, "de")

        def refuse_the_second(job: Job, calendar: Calendar) -> Rewritten:
            if job.id == two.id:
                raise Invalid("DULY-E102", "would never fire again.")
            return _rewritten(job, calendar, world.now)

        with pytest.raises(Invalid):
            await world.store.calendars.put_calendar(1, closed("de", 1), None, refuse_the_second, world.now)

        assert (await world.read(one.id), await world.read(two.id)) == (one, two)
        row = await world.store.calendars.calendar(1, "de")
        assert row is not None
        assert row.calendar.version == 1

    async def test_a_job_that_would_never_fire_again_is_named(self, world: World) -> None:
        await put(world, closed("de"))
        await keeping(world, "de", name="once", type=JobType.ONE_TIME, run_at=START + DAY, every=None, anchor=None)

        with pytest.raises(Invalid, match="'once' would never fire again") as refused:
            await put(world, closed("de", 1))

        assert refused.value.code == "DULY-E102"

    async def test_a_cancelled_job_and_one_with_another_calendar_use_it_no_more(self, world: World) -> None:
        await put(world, closed("de"))
        await put(world, closed("fr"))
        gone, moved = await keeping(world, "de"), await keeping(world, "de")
        await world.cancel_job(gone)
        fr = (await world.store.definitions.calendars_named(1, ["fr"]))["fr"]
        assert await world.change(moved, Reschedule(START + DAY), timing=replace(moved.version.spec.timing, calendars=(fr,)))

        assert await uses(world) == {("fr", moved.id)}
        assert await put(world, closed("de", 1)) == []
        assert (await world.read(moved.id)).version.version == 2

    async def test_one_that_is_used_cannot_be_deleted(self, world: World) -> None:
        await put(world, closed("de"))
        job = await keeping(world, "de", name="report")

        assert await world.store.calendars.delete_calendar(1, "de", 1) == ["report"]
        assert await world.store.calendars.delete_calendar(2, "de", 1) is None
        await world.cancel_job(job)
        assert await world.store.calendars.delete_calendar(1, "de", 1) == []
        assert await world.store.calendars.delete_calendar(1, "de", 1) is None

    async def test_a_job_with_a_stale_calendar_is_refused(self, world: World) -> None:
        await put(world, closed("de"))
        stale = (await world.store.definitions.calendars_named(1, ["de"]))["de"]
        job = await keeping(world, "de")
        await put(world, closed("de", 1))
        spec = world.spec("late", every=DAY)

        with pytest.raises(Conflict) as refused:
            await world.store.definitions.create_jobs(
                [([world.new_job(replace(spec, timing=replace(spec.timing, calendars=(stale,))))], None)], world.now
            )
        assert refused.value.code == "DULY-E209"
        with pytest.raises(Conflict):
            await world.change(job, timing=job.version.spec.timing)

    async def test_fires_follow_the_calendar(self, world: World) -> None:
        await put(world, replace(closed("de", 2), business_days=WORKDAYS))
        job = await keeping(world, "de", on_excluded=OnExcluded.SKIP)

        fired = []
        for _ in range(10):
            world.turn(DAY)
            await world.fire()
            fired = [execution.due_at for execution in await world.of_job(job)]

        schedule = job.version.schedule
        assert schedule is not None
        expected = []
        at = next_fire(schedule, START)
        while at is not None and at <= world.now:
            expected.append(at)
            at = next_fire(schedule, at)
        assert sorted(fired) == expected
        assert len(expected) < 8


async def test_a_job_and_a_change_of_its_calendar_never_miss_one_another(
    open_engine: Callable[[], AbstractAsyncContextManager[Engine]],
) -> None:
    async with open_engine() as first, open_engine() as second:
        one, two = World(first), World(second, seed=2)
        await put(one, closed("de"))

        async def make(nth: int) -> None:
            for _ in range(20):
                try:
                    await keeping(two, "de", name=f"job-{nth}")
                except Conflict as error:
                    assert error.code == "DULY-E209"  # noqa: PT017
                else:
                    return
            raise AssertionError("somebody was faster 20 times")

        async def change(nth: int) -> None:
            await put(one, closed("de", nth))

        await asyncio.gather(*(make(nth) for nth in range(10)), *(change(nth) for nth in range(1, 6)))

        row = await one.store.calendars.calendar(1, "de")
        assert row is not None
        jobs = await one.store.definitions.jobs(JobFilter(1))
        assert len(jobs) == 10
        assert {job.version.spec.timing.calendars[0] for job in jobs} == {row.calendar}


class TestPauses:
    async def pause(self, world: World, job: Job, until: int, next_fire_at: int) -> None:
        assert await world.store.definitions.set_state(
            1, job.id, JobState.PAUSED, next_fire_at, "holidays", world.now, job.version.number, by="key-1", until=until
        )

    async def test_a_pause_with_an_end_is_over_by_itself(self, world: World) -> None:
        job = await world.job(every=HOUR)
        await world.fire()
        until = START + 3 * HOUR + MINUTE
        await self.pause(world, job, until, START + 4 * HOUR)

        paused = await world.read(job.id)
        assert (paused.standing(world.now), paused.next_fire_at) == (JobState.PAUSED, START + 4 * HOUR)
        assert (paused.paused_at, paused.paused_until, paused.paused_by, paused.pause_reason) == (START, until, "key-1", "holidays")
        world.turn(3 * HOUR)
        assert (await world.decide()).fires == []
        world.turn(HOUR)
        assert (await world.fire()).fired == 1
        assert (await world.read(job.id)).standing(world.now) is JobState.ACTIVE

    async def test_filters_and_counts_know_when_it_ends(self, world: World) -> None:
        job = await world.job(every=HOUR)
        await world.job()
        await self.pause(world, job, START + HOUR, START + HOUR)

        async def states(now: int) -> tuple[list[JobId], dict[JobState, int]]:
            found = await world.store.definitions.jobs(JobFilter(1, state=JobState.PAUSED, now=now))
            return [job.id for job in found], await world.store.insights.job_counts(1, now)

        assert await states(START) == ([job.id], {JobState.PAUSED: 1, JobState.ACTIVE: 1})
        assert await states(START + HOUR) == ([], {JobState.ACTIVE: 2})

    async def test_a_new_version_keeps_the_pause(self, world: World) -> None:
        job = await world.job(every=HOUR)
        await self.pause(world, job, START + 5 * HOUR, START + 5 * HOUR)

        timing = replace(job.version.spec.timing, every=2 * HOUR)
        assert await world.change(job, Reschedule(START + 2 * HOUR), timing=timing)

        after = await world.read(job.id)
        assert (after.next_fire_at, after.paused_until) == (START + 6 * HOUR, START + 5 * HOUR)

    async def test_a_one_time_job_runs_when_its_pause_ends(self, world: World) -> None:
        job = await world.job(at=START + HOUR)
        await self.pause(world, job, START + 2 * HOUR, START + 2 * HOUR)

        assert await world.change(job, Reschedule(START + HOUR), description="other")

        assert (await world.read(job.id)).next_fire_at == START + 2 * HOUR

    async def test_a_pause_that_is_over_holds_nothing_back(self, world: World) -> None:
        job = await world.job(at=START + HOUR)
        await self.pause(world, job, START + 2 * HOUR, START + 2 * HOUR)
        world.turn(3 * HOUR)

        timing = replace(job.version.spec.timing, run_at=START + 90 * MINUTE)
        assert await world.change(job, Reschedule(START + 90 * MINUTE), timing=timing)

        assert (await world.read(job.id)).next_fire_at == START + 90 * MINUTE

    async def test_resuming_forgets_the_pause(self, world: World) -> None:
        job = await world.job(every=HOUR)
        await self.pause(world, job, START + 5 * HOUR, START + 5 * HOUR)

        await world.resume(job, START + HOUR)

        after = await world.read(job.id)
        assert (after.standing(world.now), after.next_fire_at) == (JobState.ACTIVE, START + HOUR)
        assert (after.paused_at, after.paused_until, after.paused_by, after.pause_reason) == (None, None, None, None)


class TestSkips:
    async def skip(self, world: World, job: Job, at: int | None) -> SkipAnswer:
        return await world.store.definitions.skip(1, job.id, at, "key-1", job.version.number)

    async def test_one_fire_at_a_time(self, world: World) -> None:
        job = await world.job(every=HOUR)

        assert await self.skip(world, job, START + HOUR) is SkipAnswer.DONE
        assert await self.skip(world, job, START + HOUR) is SkipAnswer.DONE
        assert await self.skip(world, job, START + 2 * HOUR) is SkipAnswer.ANOTHER
        skipping = await world.read(job.id)
        assert (skipping.skip_at, skipping.skip_by) == (START + HOUR, "key-1")

        assert await self.skip(world, job, None) is SkipAnswer.DONE
        assert (await world.read(job.id)).skip_at is None
        assert await self.skip(world, job, START + 2 * HOUR) is SkipAnswer.DONE

    async def test_what_lies_behind_the_schedule_cannot_be_skipped_and_is_in_nobodys_way(self, world: World) -> None:
        job = await world.job(every=HOUR)
        await self.skip(world, job, START)
        await world.fire()

        assert (await world.read(job.id)).skip_at is None
        assert await self.skip(world, job, START) is SkipAnswer.PAST
        assert await self.skip(world, job, START + HOUR) is SkipAnswer.DONE

    async def test_another_version_or_tenant_is_read_again(self, world: World) -> None:
        job = await world.job(every=HOUR)
        await world.change(job, description="new")

        assert await self.skip(world, job, START) is SkipAnswer.CHANGED
        now = await world.read(job.id)
        assert await world.store.definitions.skip(2, job.id, START, "k", now.version.number) is SkipAnswer.CHANGED

    @pytest.mark.parametrize(("every", "kept"), [(2 * HOUR, True), (3 * HOUR, False)])
    async def test_a_new_version_keeps_it_if_it_still_fires_then(self, world: World, every: int, kept: bool) -> None:
        job = await world.job(every=HOUR)
        await self.skip(world, job, START + 4 * HOUR)

        timing = replace(job.version.spec.timing, every=every)
        assert await world.change(job, Reschedule(START + every), timing=timing)

        assert (await world.read(job.id)).skip_at == (START + 4 * HOUR if kept else None)

    async def test_a_change_of_a_calendar_keeps_it_or_forgets_it(self, world: World) -> None:
        await put(world, closed("de"))
        kept, lost = await keeping(world, "de"), await keeping(world, "de")
        await self.skip(world, kept, START + 3 * DAY)
        await self.skip(world, lost, START + 2 * DAY)

        await put(world, closed("de", 2))

        assert (await world.read(kept.id)).skip_at == START + 3 * DAY
        assert (await world.read(lost.id)).skip_at is None
