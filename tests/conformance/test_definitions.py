"""Jobs and their versions, idempotency keys, API keys."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from duly.adapters.sql import definitions, listing
from duly.adapters.sql.definitions import _lock
from duly.domain.errors import Conflict
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND
from duly.domain.job import JobSpec
from duly.domain.lifecycle import JobState
from duly.ports.keys import KeyRow
from duly.ports.store import JobFilter, NewJob, Reschedule, Store
from tests.conformance.ledger import raw
from tests.conformance.world import START, World


async def create(world: World, *jobs: NewJob, key: str | None = None, body: bytes = b"body", lasts: int = DAY) -> list:
    idempotency = None if key is None else world.key(key, body, lasts)
    return [job.id for job in (await world.store.definitions.create_jobs([(jobs, idempotency)], world.now))[0]]


class TestCreating:
    async def test_a_job_is_read_as_it_was_created(self, world: World) -> None:
        spec = world.spec(
            "report", every=HOUR, payload='{"to":"a@b"}', description="monthly", pool="big", requires={"gpu": "", "region": "eu"}
        )
        new = world.new_job(spec)

        assert await create(world, new) == [new.id]

        job = await world.read(new.id)
        assert job.version.spec == spec
        assert (job.id, job.state, job.created_at, job.next_fire_at) == (new.id, JobState.ACTIVE, world.now, START)
        assert (job.version.version, job.version.tenant, job.version.tenant_name, job.version.job_id) == (1, 1, "default", new.id)

    async def test_jobs_with_one_target_share_a_route(self, world: World) -> None:
        one, other, elsewhere = await world.job(), await world.job(), await world.job(pool="big")

        assert one.version.route == other.version.route != elsewhere.version.route
        routes = {route.number: (route.pool, route.labels, route.handler) for route in await world.store.ready.routes()}
        assert routes[elsewhere.version.route] == ("big", "", "noop")

    async def test_an_on_demand_job_waits_for_no_fire(self, world: World) -> None:
        job = await world.job()

        assert job.next_fire_at is None
        assert (await world.decide()).advances == []

    async def test_a_live_name_is_taken(self, world: World) -> None:
        await world.job("report")

        with pytest.raises(Conflict) as refused:
            await world.job("report")

        assert refused.value.code == "DULY-E208"

    async def test_names_are_free_between_tenants(self, world: World) -> None:
        await world.add_tenant(2)
        mine, theirs = await world.job("report"), await world.job("report", tenant=2)

        assert mine.id != theirs.id
        assert (await world.store.definitions.job_named(2, "report")).id == theirs.id

    async def test_the_name_of_a_cancelled_job_is_free_again(self, world: World) -> None:
        old = await world.job("report")
        await world.cancel_job(old)

        new = await world.job("report")

        assert (await world.store.definitions.job_named(1, "report")).id == new.id
        assert (await world.read(old.id)).state is JobState.CANCELLED

    async def test_all_are_created_or_none(self, world: World) -> None:
        await world.job("taken")
        first, second = world.new_job(world.spec("free")), world.new_job(world.spec("taken"))

        with pytest.raises(Conflict):
            await create(world, first, second)

        assert await world.store.definitions.job(1, first.id) is None
        assert await world.store.definitions.job_named(1, "free") is None

    async def test_a_job_of_another_tenant_is_not_there(self, world: World) -> None:
        await world.add_tenant(2)
        job = await world.job("report")

        assert await world.store.definitions.job(2, job.id) is None
        assert await world.store.definitions.job_named(2, "report") is None
        assert await world.store.definitions.jobs(JobFilter(2)) == []
        assert not await world.store.definitions.set_state(2, job.id, JobState.PAUSED, None, None, world.now)
        assert not await world.store.definitions.new_version(2, job.id, job.version.spec, None, None, world.now)

    async def test_of_concurrent_creations_of_a_name_one_wins(self, world: World) -> None:
        jobs = [world.new_job(world.spec("report")) for _ in range(5)]

        answers = await asyncio.gather(*(create(world, job) for job in jobs), return_exceptions=True)

        assert sorted(type(answer).__name__ for answer in answers) == ["Conflict"] * 4 + ["list"]


class TestIdempotencyKeys:
    async def test_the_same_key_and_body_give_the_ids_of_then(self, world: World) -> None:
        first, again = world.new_job(world.spec("report")), world.new_job(world.spec("report"))

        assert await create(world, first, key="k") == [first.id]
        assert await create(world, again, key="k") == [first.id]

        assert await world.store.definitions.job(1, again.id) is None

    async def test_a_key_used_with_another_body_is_a_conflict(self, world: World) -> None:
        await create(world, world.new_job(world.spec()), key="k")

        with pytest.raises(Conflict) as refused:
            await create(world, world.new_job(world.spec()), key="k", body=b"other")

        assert refused.value.code == "DULY-E207"

    async def test_a_key_is_free_when_its_time_is_over(self, world: World) -> None:
        await create(world, world.new_job(world.spec()), key="k", lasts=HOUR)
        second = world.new_job(world.spec())

        world.turn(HOUR)

        assert await create(world, second, key="k", body=b"other") == [second.id]

    async def test_keys_of_tenants_do_not_meet(self, world: World) -> None:
        await world.add_tenant(2)
        mine, theirs = world.new_job(world.spec()), world.new_job(world.spec(), tenant=2)

        assert await create(world, mine, key="k") == [mine.id]
        assert await create(world, theirs, key="k", body=b"other") == [theirs.id]

    async def test_of_concurrent_calls_with_one_key_one_creates(self, world: World) -> None:
        jobs = [world.new_job(world.spec("report")) for _ in range(5)]

        answers = await asyncio.gather(*(create(world, job, key="k") for job in jobs))

        assert len({tuple(answer) for answer in answers}) == 1
        assert len(await world.store.definitions.jobs(JobFilter(1))) == 1

    async def test_a_refused_creation_leaves_its_key_unused(self, world: World) -> None:
        await world.job("taken")
        with pytest.raises(Conflict):
            await create(world, world.new_job(world.spec("taken")), key="k")
        other = world.new_job(world.spec("free"))

        assert await create(world, other, key="k", body=b"other") == [other.id]

    async def test_one_call_carries_creations_with_keys_of_their_own(self, world: World) -> None:
        known, fresh = world.new_job(world.spec()), world.new_job(world.spec())
        await create(world, known, key="a")

        answer = await world.store.definitions.create_jobs(
            [([world.new_job(world.spec())], world.key("a")), ([fresh], world.key("b"))], world.now
        )

        assert [[job.id for job in jobs] for jobs in answer] == [[known.id], [fresh.id]]


class TestVersions:
    async def test_a_new_version_is_current_and_the_old_one_stays(self, world: World) -> None:
        old = await world.job("report", payload="1")

        assert await world.change(old, payload="2")

        new = await world.read(old.id)
        assert (new.version.version, new.version.spec.payload) == (2, "2")
        both = await world.store.definitions.versions([old.version.number, new.version.number, 999_999])
        assert both == {old.version.number: old.version, new.version.number: new.version}

    async def test_many_versions_are_read_by_a_few_statements(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        numbers = [(await world.job()).version.number for _ in range(5)]
        asked: list[str] = []
        fetch = world.engine.fetch

        async def counted(name: str, *args: Any) -> Any:
            asked.append(name)
            return await fetch(name, *args)

        monkeypatch.setattr(definitions, "VERSIONS_AT_ONCE", 4)
        monkeypatch.setattr(world.engine, "fetch", counted)
        found = await world.store.definitions.versions([999_999, *numbers])

        assert sorted(found) == sorted(numbers)
        assert asked == ["versions", "versions"]

    async def test_who_expects_another_version_was_too_slow(self, world: World) -> None:
        job = await world.job()
        assert await world.change(job, expected=1, payload="1")

        assert not await world.change(job, expected=1, payload="2")

        assert (await world.read(job.id)).version.spec.payload == "1"

    async def test_of_concurrent_changes_that_expect_one_version_one_wins(self, world: World) -> None:
        job = await world.job()

        answers = await asyncio.gather(*(world.change(job, expected=1, payload=str(n)) for n in range(6)))

        assert sorted(answers) == [False] * 5 + [True]

    async def test_concurrent_changes_and_pauses_all_succeed(self, world: World) -> None:
        job = await world.job(every=HOUR)

        changes = [world.change(job, payload=str(n)) for n in range(6)]
        answers = await asyncio.gather(*changes, *(world.pause(job) for _ in range(6)))

        assert all(answers)
        assert (await world.read(job.id)).version.version == 7

    async def test_a_schedule_keeps_its_next_fire_unless_it_is_rescheduled(self, world: World) -> None:
        job = await world.job(every=HOUR)

        await world.change(job, payload="1")
        assert (await world.read(job.id)).next_fire_at == START
        await world.change(job, Reschedule(START + 5 * MINUTE), payload="2")
        assert (await world.read(job.id)).next_fire_at == START + 5 * MINUTE
        await world.change(job, Reschedule(None), payload="3")
        assert (await world.read(job.id)).next_fire_at is None

    async def test_a_job_gets_its_first_schedule_with_a_later_version(self, world: World) -> None:
        job = await world.job()

        await world.change(job, Reschedule(START + HOUR), timing=world.spec(every=HOUR).timing)

        assert (await world.read(job.id)).next_fire_at == START + HOUR
        world.turn(HOUR)
        assert (await world.fire()).fired == 1

    async def test_a_paused_job_stays_paused(self, world: World) -> None:
        job = await world.job(every=HOUR)
        await world.pause(job)

        await world.change(job, Reschedule(START), payload="1")

        assert (await world.read(job.id)).state is JobState.PAUSED
        assert (await world.decide()).advances == []

    async def test_a_completed_job_with_a_new_fire_is_active_again(self, world: World) -> None:
        job = await world.job(at=START)
        await world.fire()
        assert (await world.read(job.id)).state is JobState.COMPLETED

        await world.change(job, Reschedule(START + HOUR), timing=world.spec(at=START + HOUR).timing)

        assert (await world.read(job.id)).state is JobState.ACTIVE
        world.turn(HOUR)
        assert (await world.fire()).fired == 1

    async def test_a_cancelled_job_takes_no_version(self, world: World) -> None:
        job = await world.job()
        await world.cancel_job(job)

        assert not await world.change(job, payload="1")

    async def test_a_job_may_take_a_free_name_and_no_other(self, world: World) -> None:
        job = await world.job("old")
        await world.job("taken")

        assert await world.change(job, name="new")
        with pytest.raises(Conflict) as refused:
            await world.change(job, name="taken")

        assert refused.value.code == "DULY-E208"
        assert (await world.store.definitions.job_named(1, "new")).id == job.id
        assert await world.store.definitions.job_named(1, "old") is None

    async def test_of_concurrent_renamings_to_one_name_one_wins(self, world: World) -> None:
        jobs = [await world.job() for _ in range(4)]

        answers = await asyncio.gather(*(world.change(job, name="wanted") for job in jobs), return_exceptions=True)

        assert sorted(answer.code if isinstance(answer, Conflict) else str(answer) for answer in answers) == ["DULY-E208"] * 3 + ["True"]

    async def test_executions_keep_the_version_they_were_made_with(self, world: World) -> None:
        job = await world.job(payload="1")
        (run_id,) = await world.enqueue(job)

        await world.change(job, payload="2")

        claimed = await world.claimed(await world.worker())
        assert (claimed.ids, claimed.job_versions) == ([run_id], [job.version.number])


class TestStates:
    async def test_a_paused_job_does_not_fire_and_says_why(self, world: World) -> None:
        job = await world.job(every=MINUTE)

        assert await world.pause(job, "too loud")

        world.turn(HOUR)
        assert (await world.decide()).advances == []
        read = await world.read(job.id)
        assert (read.state, read.paused_at, read.pause_reason, read.next_fire_at) == (JobState.PAUSED, START, "too loud", None)

    async def test_a_resumed_job_waits_for_the_fire_it_was_given(self, world: World) -> None:
        job = await world.job(every=MINUTE)
        await world.pause(job, "too loud")

        assert await world.resume(job, START + 5 * MINUTE)

        read = await world.read(job.id)
        assert (read.state, read.paused_at, read.pause_reason, read.next_fire_at) == (JobState.ACTIVE, None, None, START + 5 * MINUTE)

    async def test_an_on_demand_job_can_be_paused_and_resumed(self, world: World) -> None:
        job = await world.job()

        assert await world.pause(job)
        assert await world.resume(job)

        read = await world.read(job.id)
        assert (read.state, read.next_fire_at) == (JobState.ACTIVE, None)

    async def test_a_cancelled_job_stays_cancelled(self, world: World) -> None:
        job = await world.job(every=MINUTE)
        assert await world.cancel_job(job)

        assert not await world.cancel_job(job)
        assert not await world.pause(job)
        assert not await world.resume(job, START)

        assert (await world.read(job.id)).state is JobState.CANCELLED
        assert (await world.decide()).advances == []

    async def test_an_unknown_job_has_no_state_to_change(self, world: World) -> None:
        job = await world.job()
        stranger = replace(job, id=world.ids(1)[0])

        assert not await world.pause(stranger)
        assert not await world.change(stranger)

    async def test_jobs_are_counted_by_state(self, world: World) -> None:
        jobs = [await world.job() for _ in range(5)]
        await world.pause(jobs[0])
        await world.cancel_job(jobs[1])

        counts = await world.store.insights.job_counts(1, world.now)

        assert counts == {JobState.ACTIVE: 3, JobState.PAUSED: 1, JobState.CANCELLED: 1}


class TestListing:
    async def test_pages_have_neither_holes_nor_repeats(self, world: World) -> None:
        made = []
        for _ in range(7):
            world.turn(SECOND)
            made.append((await world.job()).id)

        seen, before = [], None
        while page := await world.store.definitions.jobs(JobFilter(1, before=before, limit=3)):
            seen += [job.id for job in page]
            before = page[-1].id

        assert seen == made[::-1]

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ({"name": "mail:daily"}, {"mail:daily"}),
            ({"search": "MAIL"}, {"mail:daily", "mail_weekly"}),
            ({"search": "l_w"}, {"mail_weekly"}),
            ({"search": "%"}, set()),
            ({"state": JobState.PAUSED}, {"report"}),
            ({"handler": "send"}, {"mail:daily", "mail_weekly"}),
            ({"pool": "big"}, {"report"}),
            ({"pool": "big", "state": JobState.ACTIVE}, set()),
        ],
    )
    async def test_a_filter_lets_only_its_jobs_through(self, world: World, wanted: dict, expected: set[str]) -> None:
        await world.job("mail:daily", handler="send")
        await world.job("mail_weekly", handler="send")
        await world.pause(await world.job("report", pool="big"))

        found = await world.store.definitions.jobs(JobFilter(1, **wanted))

        assert {job.version.spec.name for job in found} == expected

    @pytest.mark.parametrize("search", ["rger", "RGER-", "Ärger", "-Österreich", "100%", "a_b", "\\"])
    async def test_a_name_is_found_by_any_part_of_it(self, world: World, search: str) -> None:
        odd = await world.job("Ärger-Österreich 100% a_b \\")
        await world.job("anger axb 1000")

        found = await world.store.definitions.job_step(JobFilter(1, search=search), 100)

        assert [job.id for job in found.found] == [odd.id]

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ({}, {"kept", "paused", "resting", "rested", "cancelled", "again"}),
            ({"name": "again"}, {"again", "cancelled"}),
            ({"state": JobState.ACTIVE}, {"kept", "rested", "again"}),
            ({"state": JobState.PAUSED}, {"paused", "resting"}),
            ({"state": JobState.CANCELLED}, {"cancelled"}),
            ({"search": "rest"}, {"resting", "rested"}),
            ({"search": "nothing"}, set()),
            ({"pool": "big"}, {"kept"}),
            ({"state": JobState.ACTIVE, "pool": "big"}, {"kept"}),
        ],
    )
    @pytest.mark.parametrize("looked_at", [1, 2, 100])
    async def test_steps_of_any_length_find_all_that_is_meant(
        self, world: World, wanted: dict, expected: set[str], looked_at: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(listing, "NAMES_AT_ONCE", looked_at)
        jobs = {"kept": await world.job("kept", pool="big")}
        for name in ("paused", "resting", "rested"):
            jobs[name] = await world.job(name)
        jobs["cancelled"] = await world.job("again")
        await world.pause(jobs["paused"])
        await world.cancel_job(jobs["cancelled"])
        for name, until in (("resting", world.now + HOUR), ("rested", world.now - HOUR)):
            await raw(world.engine, f"UPDATE jobs SET paused_until = {until} WHERE name = '{name}'")
        jobs["again"] = await world.job("again")
        names = {job.id: name for name, job in jobs.items()}

        seen, before, steps = [], None, 0
        while True:
            step = await world.store.definitions.job_step(JobFilter(1, before=before, limit=2, now=world.now, **wanted), looked_at)
            seen += [job.id for job in step.found]
            assert len(step.found) <= 2
            steps += 1
            assert steps < 20, "it does not end"
            if step.reached is None:
                break
            before = step.reached

        assert seen == sorted(seen, key=lambda id: id.int, reverse=True)
        assert {names[id] for id in seen} == expected
        assert len(seen) == len(expected)

    async def test_what_an_application_has_brought_is_found_by_its_name(self, world: World) -> None:
        ours = [await world.job(f"ours-{n}", source="code:shop") for n in range(3)]
        await world.job("theirs", source="code:other")
        await world.job("nobody's")
        await world.cancel_job(ours[0])
        await world.change(ours[1], source=None)
        find = world.store.definitions.jobs_of_source

        assert [job.id for job in await find(1, "code:shop", None, 10)] == [ours[2].id]
        assert await find(1, "code:shop", ours[2].id, 10) == []
        assert await find(2, "code:shop", None, 10) == []

    async def test_every_field_of_a_spec_survives(self, world: World) -> None:
        spec: JobSpec = world.spec(
            every=HOUR, payload='{"ü": [1, null, "\\u0000"]}', timeout=5 * SECOND, description="naïve – 日本", source="app.py:1"
        )

        new = world.new_job(spec)
        await create(world, new)

        assert (await world.read(new.id)).version.spec == spec


class TestApiKeys:
    KEY = KeyRow("abc", 1, "default", "ADMIN", "laptop", b"\x00\xff" * 16, created_at=START, expires_at=START + DAY)

    async def test_a_key_is_read_as_it_was_added(self, store: Store) -> None:
        assert await store.keys.add_key(self.KEY)

        assert await store.keys.key("abc") == self.KEY
        assert await store.keys.key("xyz") is None

    async def test_an_id_is_added_once(self, store: Store) -> None:
        await store.keys.add_key(self.KEY)

        assert not await store.keys.add_key(replace(self.KEY, name="thief"))

        assert (await store.keys.key("abc")).name == "laptop"

    async def test_only_an_admin_key_that_is_not_revoked_counts(self, store: Store) -> None:
        assert not await store.keys.any_admin_key(1, START)
        await store.keys.add_key(replace(self.KEY, id="reader", role="READER"))
        await store.keys.add_key(replace(self.KEY, id="revoked", revoked_at=START))
        assert not await store.keys.any_admin_key(1, START)

        await store.keys.add_key(self.KEY)

        assert await store.keys.any_admin_key(1, START)


class TestHealth:
    async def test_a_migrated_store_answers(self, store: Store) -> None:
        await store.health.ping()

    async def test_the_stores_clock_goes_forward(self, store: Store) -> None:
        first = await store.health.store_now()

        assert await store.health.store_now() >= first > START


def test_a_change_locks_the_schedule_before_the_job_as_a_fire_does() -> None:
    # The other way round, a last fire and a DELETE of the same job lock each other out until the server ends one of them.
    locking = _lock(1, UUID(int=7))

    assert [next(locking).name, locking.send(()).name] == ["lock_schedule", "lock_job"]


async def test_a_job_that_nobody_can_read_is_listed_changed_and_deleted(world: World) -> None:
    job, other = await world.job("odd"), await world.job("other")
    told = '{"name":"odd","retry":{"max_attempts":2.5}}'
    await raw(world.engine, f"UPDATE job_versions SET definition = '{told}' WHERE id = {job.version.number}")
    definitions = world.store.definitions

    found = await world.read(job.id)
    listed = (await definitions.job_step(JobFilter(1, now=world.now), 100)).found
    assert await world.pause(job)
    assert await world.change(found, description="as it was meant")

    assert found.version.spec.name == "odd"
    assert "cannot read" in (found.version.spec.description or "")
    assert {one.id for one in listed} == {job.id, other.id}
    assert (await world.read(job.id)).version.spec.description == "as it was meant"
    assert await world.cancel_job(await world.read(job.id))


async def test_the_auditor_reads_no_job_that_had_ended_before_its_round(world: World) -> None:
    lives_on, cancelled, later = [await world.job(every=HOUR) for _ in range(3)]
    assert await world.cancel_job(cancelled)
    world.turn(HOUR)
    first = world.now
    world.turn(HOUR)
    assert await world.cancel_job(later)

    lives, last = await world.store.fire_audit.lives(None, first, 100)

    assert {life.job_id for life in lives} == {lives_on.id, later.id}
    assert last is None
