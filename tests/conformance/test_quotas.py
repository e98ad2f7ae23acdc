"""Quotas of tenants: never passed, however many submit and claim at once, and gone when they are taken away."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from duly.domain.errors import DulyError, TooMany
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND
from duly.domain.job import Job
from duly.domain.lifecycle import JobState, Outcome, State
from duly.domain.limits import Limits
from duly.domain.tenants import Quotas, Tenant
from duly.ports.tenants import Bounded
from duly.roles.pruner import Pruner, PrunerSettings
from duly.usecases.executions import Wanted, headers
from duly.usecases.quotas import TRUSTED_FOR, Directory
from tests.conformance.asking import TurnedClock
from tests.conformance.ledger import raw
from tests.conformance.tenants import change, client_of, fire, made, submit, tenant, waiting
from tests.conformance.test_races import Opener, count, lighter_on_sqlite, worlds
from tests.conformance.world import World


class TestQueued:
    async def test_calls_are_admitted_whole_and_in_order(self, world: World) -> None:
        acme = await tenant(world, max_queued=5)
        job = await world.job(tenant=acme.number)

        answers = await submit(world, job, acme, 3, 3, 2, 1)

        assert answers == [None, "DULY-E402", None, "DULY-E402"]
        assert await waiting(world, acme) == 5

    async def test_whatever_waits_counts(self, world: World) -> None:
        acme = await tenant(world, max_queued=3, max_concurrent=1)
        job = await world.job(tenant=acme.number)

        assert await submit(world, job, acme, 2) == [None]
        assert await submit(world, job, acme, 1, delay=HOUR) == [None]

        assert await submit(world, job, acme, 1) == ["DULY-E402"]
        assert [await count(world, table) for table in ("ready", "blocked", "timers")] == [1, 1, 1]

    async def test_what_has_left_makes_room(self, world: World) -> None:
        acme = await tenant(world, max_queued=2)
        job = await world.job(tenant=acme.number)
        await submit(world, job, acme, 2)
        assert await submit(world, job, acme, 1) == ["DULY-E402"]

        assert len(await world.run()) == 2

        world.turn(SECOND)
        assert await submit(world, job, acme, 2) == [None]

    async def test_scheduled_fires_count_and_are_never_refused(self, world: World) -> None:
        acme = await tenant(world, max_queued=1)
        job = await world.job(tenant=acme.number)
        await world.job(tenant=acme.number, every=MINUTE)
        assert await submit(world, job, acme, 1) == [None]

        assert len(await fire(world, acme)) == 2

        world.turn(2 * SECOND)
        assert await submit(world, job, acme, 1) == ["DULY-E402"]
        assert await waiting(world, acme) == 2

    async def test_a_replay_is_refused_with_all_that_belongs_to_it(self, world: World) -> None:
        acme = await tenant(world, max_queued=1)
        job = await world.job(tenant=acme.number)
        [dead] = made(world, job, acme)
        await world.store.intake.enqueue_within([[dead]], world.now)
        await world.cancel(dead.id, tenant=acme.number)
        await submit(world, job, acme, 1)

        with pytest.raises(TooMany):
            await world.store.letters.replay([(dead.id, made(world, job, acme)[0])], "somebody", world.now)

        assert await count(world, "settled") == 0

    async def test_an_idempotency_key_is_used_only_by_what_is_written(self, world: World) -> None:
        acme = await tenant(world, max_queued=1)
        job = await world.job(tenant=acme.number)
        first = made(world, job, acme)
        ids = await world.store.intake.enqueue_once(acme.number, first, world.key("a"), world.now)

        with pytest.raises(TooMany):
            await world.store.intake.enqueue_once(acme.number, made(world, job, acme), world.key("b"), world.now)

        assert await world.store.intake.enqueue_once(acme.number, made(world, job, acme), world.key("a"), world.now) == ids
        assert await count(world, "idempotency") == 1

    async def test_many_at_once_never_pass_it(self, open_engine: Opener) -> None:
        async with worlds(open_engine, 4) as all_of_them:
            world = all_of_them[0]
            acme = await tenant(world, max_queued=25)
            job = await world.job(tenant=acme.number)
            rounds = lighter_on_sqlite(world, 12, 6)

            async def submitter(own: World) -> Counter[str | None]:
                answers: Counter[str | None] = Counter()
                for _ in range(rounds):
                    sizes = [own.chance.choice((1, 1, 2, 5)) for _ in range(3)]
                    for size, answer in zip(sizes, await submit(own, job, acme, *sizes), strict=True):
                        answers[answer] += size
                    own.turn(own.chance.randrange(SECOND // 4))
                    assert await waiting(own, acme) <= 25
                return answers

            async def drainer(own: World) -> int:
                worker = await own.worker(ttl=HOUR)
                done = 0
                last = False
                while not last:
                    # Asked before the claim: what was submitted by then is there to be taken.
                    last = submitting.done()
                    claimed = await own.claim(worker, 3, of=[job])
                    if claimed is not None:
                        done += len(claimed.ids)
                        await own.finish(worker, claimed)
                    await asyncio.sleep(0)
                return done

            submitting = asyncio.gather(*(submitter(own) for own in all_of_them[:3]))
            done = await drainer(all_of_them[3])
            answers = await submitting

            total = sum(answers, Counter[str | None]())
            assert total["DULY-E402"] > 0
            assert done > 0
            assert await waiting(world, acme) == total[None] - done

    async def test_use_cases_of_several_processes_never_pass_it(self, open_engine: Opener) -> None:
        async with worlds(open_engine, 3) as all_of_them:
            acme = await tenant(all_of_them[0], max_queued=10, max_jobs=4)
            clients = [await client_of(own, acme) for own in all_of_them]
            try:
                jobs = await asyncio.gather(*(client.post("/v1/jobs", json={"target": {"handler": "noop"}}) for client in clients * 4))
                made_jobs = [answer.json()["jobId"] for answer in jobs if answer.status_code == 201]
                path = f"/v1/jobs/{made_jobs[0]}/executions"
                runs = await asyncio.gather(*(client.post(path, json={}) for client in clients * 8))
            finally:
                for client in clients:
                    await client.aclose()

            assert Counter(answer.status_code for answer in jobs) == {201: 4, 429: 8}
            assert Counter(answer.status_code for answer in runs) == {201: 10, 429: 14}
            assert await waiting(all_of_them[0], acme) == 10


class TestJobs:
    async def test_many_at_once_never_pass_it(self, open_engine: Opener) -> None:
        async with worlds(open_engine, 3) as all_of_them:
            acme = await tenant(all_of_them[0], max_jobs=7)

            async def creator(own: World) -> int:
                done = 0
                for _ in range(6):
                    new = [own.new_job(own.spec(f"{own.chance.random()}"), tenant=acme.number) for _ in range(2)]
                    with contextlib.suppress(TooMany):
                        await own.store.definitions.create_jobs([([replace(job, within_quota=True) for job in new], None)], own.now)
                        done += 2
                return done

            done = await asyncio.gather(*(creator(own) for own in all_of_them))

            assert sum(done) == 6
            assert await count(all_of_them[0], f"jobs WHERE tenant = {acme.number}") == 6

    async def test_a_cancelled_job_makes_room_and_a_paused_one_does_not(self, world: World) -> None:
        acme = await tenant(world, max_jobs=1)
        job = await self.create(world, acme)
        await world.pause(job)
        world.turn(SECOND)
        with pytest.raises(TooMany):
            await self.create(world, acme)

        await world.store.definitions.set_state(acme.number, job.id, JobState.CANCELLED, None, None, world.now)

        world.turn(SECOND)
        await self.create(world, acme)

    async def create(self, world: World, of: Tenant) -> Job:
        new = replace(world.new_job(world.spec(), tenant=of.number), within_quota=True)
        return (await world.store.definitions.create_jobs([([new], None)], world.now))[0][0]


class TestFiresPerMinute:
    async def test_enqueues_are_refused_and_fires_wait(self, world: World) -> None:
        acme = await tenant(world, max_fires_per_minute=2)
        job = await world.job(tenant=acme.number)
        for _ in range(3):
            await world.job(tenant=acme.number, every=HOUR)

        assert len(await fire(world, acme)) == 3

        assert await submit(world, job, acme, 1) == ["DULY-E403"]
        assert [await count(world, table) for table in ("ready", "blocked")] == [2, 1]
        assert len(await world.run()) == 2
        world.turn(MINUTE + SECOND)
        await world.promote()
        assert len(await world.run()) == 1
        world.turn(MINUTE)
        assert await submit(world, job, acme, 2) == [None]

    async def test_many_at_once_never_pass_it(self, open_engine: Opener) -> None:
        async with worlds(open_engine, 3) as all_of_them:
            world = all_of_them[0]
            acme = await tenant(world, max_fires_per_minute=20)
            job = await world.job(tenant=acme.number)
            came: list[int] = []

            async def submitter(own: World) -> None:
                for _ in range(lighter_on_sqlite(own, 40, 20)):
                    now = own.turn(own.chance.randrange(2 * SECOND))
                    calls = [headers(job, [Wanted()], now, own.chance.getrandbits, acme.quotas)]
                    if (await own.store.intake.enqueue_within(calls, now)).refusals == [None]:
                        came.append(now)

            await asyncio.gather(*(submitter(own) for own in all_of_them))

            came.sort()
            assert max(sum(1 for other in came if at <= other < at + MINUTE) for at in came) <= 20
            assert len(came) >= 20


class TestConcurrent:
    async def test_a_changed_quota_changes_the_gate_at_once(self, world: World) -> None:
        acme = await tenant(world, max_concurrent=1)
        job = await world.job(tenant=acme.number)
        await world.store.intake.enqueue(made(world, job, acme, 5), world.now)
        assert [await count(world, table) for table in ("ready", "blocked")] == [1, 4]

        await change(world, acme, max_concurrent=3)
        assert [await count(world, table) for table in ("ready", "blocked")] == [3, 2]

        # Who still believes the old quota cannot bring it back.
        await world.store.intake.enqueue(made(world, job, acme), world.now)
        assert await raw(world.engine, f"SELECT capacity FROM gates WHERE tenant = {acme.number}") == [{"capacity": 3}]

        await change(world, acme)
        assert [await count(world, table) for table in ("ready", "blocked")] == [6, 0]

    async def test_the_gate_stays_though_nobody_uses_it(self, world: World) -> None:
        acme = await tenant(world, max_concurrent=1)

        await world.store.losses.reconcile(world.now)

        assert await count(world, "gates") == 1
        job = await world.job(tenant=acme.number)
        await world.store.intake.enqueue(made(world, job, acme, 2), world.now)
        assert [await count(world, table) for table in ("ready", "blocked")] == [1, 1]

    async def test_it_is_the_last_of_an_executions_gates(self, world: World) -> None:
        acme = await tenant(world, max_concurrent=2)
        busy = await world.job(tenant=acme.number, limits=Limits(max_concurrent=1))
        other = await world.job(tenant=acme.number)
        await world.store.intake.enqueue(made(world, busy, acme, 3), world.now)

        # Who waits for its own job's limit holds nothing that the tenant's other jobs could use.
        [run] = made(world, other, acme)
        await world.store.intake.enqueue([run], world.now)

        assert (await world.execution(run.id, acme.number)).state is State.PENDING

    async def test_fires_retries_and_enqueues_of_many_never_pass_it(self, open_engine: Opener) -> None:
        async with worlds(open_engine, 3) as all_of_them:
            world = all_of_them[0]
            acme = await tenant(world, max_concurrent=4)
            jobs = [await world.job(tenant=acme.number) for _ in range(3)]
            rounds = lighter_on_sqlite(world, 15, 8)
            running: set[Any] = set()
            most = 0

            async def worker(own: World) -> None:
                nonlocal most
                number = await own.worker(ttl=DAY)
                for _ in range(rounds):
                    job = own.chance.choice(jobs)
                    if own is world:
                        await own.promote()
                    await own.store.intake.enqueue(made(own, job, acme, own.chance.randrange(1, 4)), own.now)
                    claimed = await own.claim(number, own.chance.choice((1, 3, 10)), of=jobs)
                    if claimed is None:
                        continue
                    running.update(claimed.ids)
                    most = max(most, len(running))
                    await asyncio.sleep(0)
                    running.difference_update(claimed.ids)
                    await own.finish(number, claimed, own.chance.choice((Outcome.SUCCEEDED, Outcome.FAILED)))
                    own.turn(SECOND)

            await asyncio.gather(*(worker(own) for own in all_of_them))

            assert 2 <= most <= 4

    async def test_why_names_the_quota(self, world: World) -> None:
        acme = await tenant(world, max_concurrent=1, max_fires_per_minute=1)
        job = await world.job(tenant=acme.number)
        runs = made(world, job, acme, 2)
        await world.store.intake.enqueue(runs, world.now)

        client = await client_of(world, acme)
        async with client:
            answer = (await client.get(f"/v1/executions/run_{runs[1].id.hex}/why")).json()

        [reason] = answer["reasons"]
        assert reason["code"] == "CONCURRENCY_LIMIT"
        assert reason["message"].startswith("The tenant's quota maxConcurrent lets 1 run at a time")
        assert reason["facts"]["quota"] == "maxConcurrent"


class TestRetention:
    async def test_a_tenant_that_keeps_less_loses_its_old_history_alone(self, world: World) -> None:
        acme, other = await tenant(world, retention_days=1), await tenant(world, "other")
        jobs = {one.number: [await world.job(tenant=one.number) for _ in range(2)] for one in (acme, other)}
        for number in jobs:
            for job in jobs[number]:
                await world.enqueue(job, 3)
        await world.run()
        world.turn(DAY + HOUR)
        fresh = await world.enqueue(jobs[acme.number][0])
        await world.run()
        [waits] = await world.enqueue(jobs[acme.number][1])
        pruner = Pruner(world.store.retention, world.store.tenants, PrunerSettings(keep=30 * DAY, batch=2))

        steps = [await pruner.step(world.now)]
        while steps[-1].wait < 1:
            steps.append(await pruner.step(world.now))

        kept = await raw(world.engine, f"SELECT id FROM executions WHERE tenant = {acme.number} ORDER BY id")
        assert [row["id"] for row in kept] == sorted([*fresh, waits], key=lambda id: id.int)
        assert await count(world, f"executions WHERE tenant = {other.number}") == 6
        assert sum(step.did["pruned"] for step in steps) == 6

    async def test_the_installations_own_retention_is_the_outer_bound(self, world: World) -> None:
        await tenant(world, retention_days=90)
        pruner = Pruner(world.store.retention, world.store.tenants, PrunerSettings(keep=30 * DAY))

        assert (await pruner.step(world.now)).wait > 1


class TestDirectory:
    async def test_it_believes_for_two_seconds_and_no_longer(self, world: World) -> None:
        directory = Directory(world.store.tenants, TurnedClock(world))
        acme = await tenant(world)
        assert dict(await directory.all()) == {}
        await change(world, acme, max_jobs=1)
        world.turn(TRUSTED_FOR - 1)
        assert (await directory.of(acme.number)).is_empty

        world.turn(1)

        assert (await directory.of(acme.number)).max_jobs == 1

    async def test_a_new_tenant_is_known_at_once(self, world: World) -> None:
        directory = Directory(world.store.tenants, TurnedClock(world))
        await directory.all()

        acme = await tenant(world, max_jobs=1)

        assert (await directory.of(acme.number)).max_jobs == 1

    async def test_who_changes_them_forgets_at_once(self, world: World) -> None:
        directory = Directory(world.store.tenants, TurnedClock(world))
        acme = await tenant(world, max_jobs=1)
        await directory.all()
        await change(world, acme, max_jobs=2)

        directory.forget()

        assert (await directory.of(acme.number)).max_jobs == 2

    async def test_callers_that_come_at_once_share_one_read(self, world: World) -> None:
        class Counting:
            reads = 0

            async def bounded(self) -> Bounded:
                self.reads += 1
                await asyncio.sleep(0)
                return Bounded({7: Quotas(max_jobs=1)}, 7)

        store: Any = Counting()
        directory = Directory(store, TurnedClock(world))

        found = await asyncio.gather(*(directory.of(7) for _ in range(10)))

        assert ({quotas.max_jobs for quotas in found}, store.reads) == ({1}, 1)

    async def test_an_error_reaches_everybody_and_is_not_kept(self, world: World) -> None:
        class Away:
            reads = 0

            async def bounded(self) -> Bounded:
                self.reads += 1
                if self.reads == 1:
                    raise DulyError("DULY-E501", "away")
                return Bounded({}, 1)

        store: Any = Away()
        directory = Directory(store, TurnedClock(world))

        first = await asyncio.gather(directory.all(), directory.all(), return_exceptions=True)

        assert [type(answer) for answer in first] == [DulyError, DulyError]
        assert dict(await directory.all()) == {}
