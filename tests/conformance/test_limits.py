"""Limits: how many at once, how many in a time, and which are the same."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from duly.domain.errors import Unavailable
from duly.domain.instants import HOUR, MINUTE, SECOND
from duly.domain.job import Job, Priority
from duly.domain.lifecycle import Outcome, State
from duly.domain.limits import Concurrency, Limits, Rate, Unique
from duly.domain.overlap import OverlapPolicy
from duly.domain.retry import RetryPolicy
from duly.usecases.executions import Wanted, headers
from tests.conformance.ledger import assert_ledger_is_sound, raw
from tests.conformance.test_races import Opener, count, worlds
from tests.conformance.world import World

S, B, P, R, K, C = State.SCHEDULED, State.BLOCKED, State.PENDING, State.RUNNING, State.SUCCEEDED, State.CANCELLED

PER_USER = Limits(concurrency=Concurrency(max=2, key=("user",)))
TWO_A_MINUTE = Limits(rate=Rate(count=2, per=MINUTE))


async def enqueue(world: World, job: Job, *users: object) -> list[UUID]:
    """One execution for each user, in this order."""
    return [(await world.enqueue(job, payload=f'{{"user":{user}}}'))[0] for user in users]


class TestHowManyAtOnce:
    async def test_a_key_lets_so_many_through_and_the_rest_wait(self, world: World) -> None:
        job = await world.job(limits=PER_USER)

        runs = await enqueue(world, job, 1, 1, 1, 2, 1)

        assert await world.states(runs) == [P, P, B, P, B]

    async def test_who_ends_lets_the_next_one_in(self, world: World) -> None:
        job = await world.job(limits=PER_USER)
        runs = await enqueue(world, job, 1, 1, 1, 1)

        assert set(await world.run()) == set(runs[:2])

        assert await world.states(runs) == [K, K, P, P]

    async def test_who_waits_for_a_retry_holds_nothing(self, world: World) -> None:
        job = await world.job(limits=PER_USER)
        runs = await enqueue(world, job, 1, 1, 1)
        worker = await world.worker()
        await world.finish(worker, await world.claimed(worker), Outcome.FAILED)

        assert await world.states(runs) == [S, S, P]

    async def test_a_retry_passes_the_gate_again(self, world: World) -> None:
        job = await world.job(limits=Limits(max_concurrent=1))
        first, second = await world.enqueue(job, 2)
        worker = await world.worker(ttl=HOUR)
        await world.finish(worker, await world.claimed(worker), Outcome.FAILED)
        claimed = await world.claimed(worker)
        assert claimed.ids == [second]
        world.turn(MINUTE)

        await world.promote()

        assert await world.states([first, second]) == [B, R]
        await world.finish(worker, claimed)
        assert await world.states([first, second]) == [P, K]
        retried = await world.claimed(worker)
        assert (retried.attempts, retried.failures) == ([2], [1])

    @pytest.mark.parametrize("end", ["lost", "released", "cancelled", "cancelled while it waits"])
    async def test_whatever_ends_it_gives_the_slot_back(self, world: World, end: str) -> None:
        job = await world.job(limits=Limits(max_concurrent=1))
        first, second = await world.enqueue(job, 2)
        worker = await world.worker()
        if end == "cancelled while it waits":
            assert await world.cancel(first) == {first: C}
        else:
            claimed = await world.claimed(worker)
            if end == "lost":
                world.turn(HOUR)
                await world.lose()
            else:
                await world.finish(worker, claimed, Outcome.RELEASED if end == "released" else Outcome.CANCELLED)

        assert await world.state(second) is P

    async def test_a_waiter_can_be_cancelled(self, world: World) -> None:
        job = await world.job(limits=Limits(max_concurrent=1))
        first, second, third = await world.enqueue(job, 3)

        assert await world.cancel(second) == {second: C}

        assert await world.run() == [first]
        assert await world.states([second, third]) == [C, P]

    async def test_the_better_rank_goes_first(self, world: World) -> None:
        job = await world.job(limits=Limits(max_concurrent=1))
        first, second = await world.enqueue(job, 2)
        (urgent,) = headers(job, [Wanted(priority=Priority.CRITICAL)], world.now, world.chance.getrandbits)
        await world.store.intake.enqueue([urgent], world.now)

        await world.run()

        assert await world.states([first, second, urgent.id]) == [K, B, P]

    async def test_a_busy_key_does_not_hold_the_slots_of_the_job(self, world: World) -> None:
        job = await world.job(limits=Limits(max_concurrent=3, concurrency=Concurrency(max=1, key=("user",))))

        runs = await enqueue(world, job, 1, 1, 1, 1, 2, 3, 4)

        assert await world.states(runs) == [P, B, B, B, P, P, B]
        worker = await world.worker()
        claimed = await world.claimed(worker)
        await world.finish(worker, claimed, only=[runs[4]])
        assert await world.states(runs) == [R, B, B, B, K, R, P]

    async def test_a_name_is_shared_by_jobs(self, world: World) -> None:
        shared = Limits(concurrency=Concurrency(max=1, name="stripe"))
        one, other = await world.job(limits=shared), await world.job(limits=shared)

        runs = [(await world.enqueue(one))[0], (await world.enqueue(other))[0]]

        assert await world.states(runs) == [P, B]
        await world.run()
        assert await world.states(runs) == [K, P]

    async def test_a_delayed_one_meets_the_gate_when_it_is_due(self, world: World) -> None:
        job = await world.job(limits=Limits(max_concurrent=1))
        (first,) = await world.enqueue(job)
        (later,) = await world.enqueue(job, due_in=MINUTE)
        assert await world.states([first, later]) == [P, S]
        world.turn(MINUTE)

        await world.promote()

        assert await world.states([first, later]) == [P, B]

    async def test_fires_pass_gates_as_well(self, world: World) -> None:
        job = await world.job(every=MINUTE, overlap=OverlapPolicy.ALLOW, limits=Limits(max_concurrent=1))
        for _ in range(3):
            await world.fire()
            world.turn(MINUTE)

        assert [run.state for run in await world.of_job(job)] == [P, B, B]

    async def test_a_place_comes_before_the_gate(self, world: World) -> None:
        limits = Limits(concurrency=Concurrency(max=1, name="disk"))
        other = await world.job(limits=limits)
        job = await world.job(every=MINUTE, overlap=OverlapPolicy.QUEUE_ONE, limits=limits)
        (busy,) = await world.enqueue(other)
        for _ in range(3):
            await world.fire()
            world.turn(MINUTE)
        assert [run.state for run in await world.of_job(job)] == [B, B, State.SKIPPED]

        assert await world.run() == [busy]
        assert [run.state for run in await world.of_job(job)] == [P, B, State.SKIPPED]
        await world.run()
        assert [run.state for run in await world.of_job(job)] == [K, P, State.SKIPPED]

    async def test_a_wider_version_opens_the_gate(self, world: World) -> None:
        job = await world.job(limits=Limits(max_concurrent=1))
        runs = await world.enqueue(job, 3)
        await world.change(job, limits=Limits(max_concurrent=3))

        (newest,) = await world.enqueue(await world.read(job.id))

        assert Counter(await world.states([*runs, newest])) == {P: 3, B: 1}

    async def test_a_crash_between_two_statements_leaves_no_slot_idle(self, world: World) -> None:
        job = await world.job(limits=Limits(max_concurrent=1))
        first, second = await world.enqueue(job, 2)
        await raw(world.engine, "DELETE FROM slots")
        await raw(world.engine, "DELETE FROM ready")
        await raw(world.engine, "DELETE FROM executions WHERE id NOT IN (SELECT id FROM blocked)")

        assert await world.store.losses.unstick(world.now, 10) == 1

        assert await world.state(second) is P
        assert first != second

    async def test_an_enqueue_that_has_committed_is_acknowledged_though_the_store_goes_away(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = await world.job(limits=Limits(max_concurrent=1))
        run, calls = world.engine.run, 0

        async def once(*words: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > 1:
                raise Unavailable("DULY-E501", "away")
            return await run(*words, **more)

        monkeypatch.setattr(world.engine, "run", once)
        (made,) = await world.enqueue(job)
        monkeypatch.undo()

        await world.store.losses.unstick(world.now, 10)
        assert await world.state(made) is P

    async def test_a_gate_stays_while_somebody_who_waits_for_a_time_will_come_to_it(self, world: World) -> None:
        job = await world.job(limits=Limits(max_concurrent=1, concurrency=Concurrency(max=1, name="shared")))
        (later,) = await world.enqueue(job, due_in=HOUR)

        await world.store.losses.reconcile(world.now)
        world.turn(HOUR)
        await world.promote()

        assert await world.run() == [later]
        assert await world.state(later) is State.SUCCEEDED

    async def test_a_gate_stays_while_somebody_who_waits_at_another_will_come_to_it(self, world: World) -> None:
        shared = Concurrency(max=1, key=("user",), name="shared")
        (first,) = await enqueue(world, await world.job(limits=Limits(concurrency=shared)), 1)
        (second,) = await enqueue(world, await world.job(limits=Limits(max_concurrent=1, concurrency=shared)), 1)

        await world.store.losses.reconcile(world.now)

        assert await world.run() == [first]
        assert await world.run() == [second]

    async def test_gates_that_nobody_uses_go(self, world: World) -> None:
        job = await world.job(limits=PER_USER)
        await enqueue(world, job, *range(5))
        assert await count(world, "gates") == 5
        await world.run()
        (kept,) = await enqueue(world, job, 7)

        await world.store.losses.reconcile(world.now)

        assert await count(world, "gates") == 1
        assert await world.state(kept) is P


class TestHowManyInATime:
    async def test_the_rest_waits_for_the_clock(self, world: World) -> None:
        await world.own_shards()
        job = await world.job(limits=TWO_A_MINUTE)
        runs = await world.enqueue(job, 5)
        assert await world.states(runs) == [P, P, B, B, B]
        await world.run()
        assert await world.states(runs) == [K, K, B, B, B]

        world.turn(MINUTE - SECOND)
        await world.promote()
        assert await world.states(runs) == [K, K, B, B, B]
        world.turn(SECOND)
        await world.promote()
        assert await world.states(runs) == [K, K, P, P, B]

    async def test_a_clock_that_was_set_back_by_hours_keeps_nobody_waiting_for_hours(self, world: World) -> None:
        job = await world.job(limits=TWO_A_MINUTE)
        first = await world.enqueue(job, 2)
        assert sorted(await world.run()) == sorted(first)
        world.turn(-2 * HOUR)
        [later] = await world.enqueue(job, 1)

        await world.store.losses.unstick(world.now, 1000)

        assert await world.run() == [later]

    async def test_a_call_that_was_long_under_way_frees_nothing_before_its_time(self, world: World) -> None:
        await world.own_shards()
        job = await world.job(limits=Limits(rate=Rate(count=1, per=SECOND)))
        runs = await world.enqueue(job, 3)
        assert await world.run() == runs[:1]

        # What it goes by was read before the slot was taken: to it, the slot's end lies far ahead.
        await world.store.losses.unstick(world.now - 5 * SECOND, 10)
        await world.store.losses.reconcile(world.now - 5 * SECOND)
        await world.store.schedules.promote(world.epochs, world.now - 5 * SECOND, 10)

        assert await world.states(runs) == [K, B, B]

    async def test_who_has_not_started_keeps_its_slot(self, world: World) -> None:
        """Nobody worked for an hour: what was let through then does not start together with what follows."""
        await world.own_shards()
        job = await world.job(limits=TWO_A_MINUTE)
        runs = await world.enqueue(job, 6)
        for _ in range(60):
            world.turn(MINUTE)
            await world.promote()

        assert await world.states(runs) == [P, P, B, B, B, B]
        await world.run()
        await world.promote()
        assert await world.states(runs) == [K, K, B, B, B, B]

    async def test_a_long_run_frees_its_slot_while_it_runs(self, world: World) -> None:
        await world.own_shards()
        job = await world.job(limits=Limits(rate=Rate(count=1, per=MINUTE)))
        runs = await world.enqueue(job, 2)
        worker = await world.worker(ttl=HOUR)
        await world.claimed(worker)
        for _ in range(62):
            world.turn(SECOND)
            await world.promote()

        assert await world.states(runs) == [R, P]

    async def test_a_long_run_that_has_to_run_again_finds_its_gate(self, world: World) -> None:
        await world.own_shards()
        job = await world.job(limits=TWO_A_MINUTE, retry=RetryPolicy(jitter=0.0))
        [run_id, *others] = await world.enqueue(job, 3)
        worker = await world.worker(ttl=HOUR)
        claimed = await world.claimed(worker, 1)
        # Somebody waits at the gate, so it is noted when the long one began.
        assert await world.run() == others[:1]
        for _ in range(3):
            world.turn(MINUTE)
            await world.promote()
            await world.run()
            await world.store.losses.reconcile(world.now)
        await world.finish(worker, claimed, Outcome.FAILED)
        world.turn(10 * MINUTE)
        await world.promote()
        await world.store.losses.unstick(world.now, 10)

        assert await world.run() == [run_id]

    async def test_the_instant_comes_up(self, world: World) -> None:
        await world.own_shards()
        job = await world.job(limits=TWO_A_MINUTE)
        await world.enqueue(job, 3)
        await world.run()
        await world.store.losses.unstick(world.now, 10)
        world.turn(2 * SECOND)
        await world.promote()

        coming = await world.store.schedules.upcoming(sorted(world.epochs), world.now, world.now + HOUR, 10)

        assert [one.at for one in coming] == [world.now - 2 * SECOND + MINUTE]

    async def test_never_more_in_any_period(self, world: World) -> None:
        await world.own_shards()
        job = await world.job(limits=Limits(rate=Rate(count=3, per=10 * SECOND)))
        await world.enqueue(job, 20)
        starts: list[int] = []
        for _ in range(100):
            starts += [world.now] * len(await world.run())
            world.turn(SECOND)
            await world.promote()

        assert len(starts) == 20
        assert all(later - earlier >= 10 * SECOND for earlier, later in zip(starts, starts[3:], strict=False))
        assert starts[-1] - starts[0] <= 70 * SECOND


class TestWhichAreTheSame:
    def wanted(self, world: World, job: Job, *users: object) -> list[Any]:
        return headers(job, [Wanted(f'{{"user":{user},"n":{nth}}}') for nth, user in enumerate(users)], world.now, world.chance.getrandbits)

    async def test_the_first_one_stands_for_all_until_it_is_final(self, world: World) -> None:
        job = await world.job(limits=Limits(unique=Unique(key=("user",))))
        first, again, other = self.wanted(world, job, 1, 1, 2)

        report = await world.store.intake.enqueue([first, again, other], world.now)

        assert (report.new, report.instead) == (2, {again.id: first.id})
        await world.run()
        (after,) = self.wanted(world, job, 1)
        assert (await world.store.intake.enqueue([after], world.now)).new == 1

    async def test_a_window_lasts_however_it_ends(self, world: World) -> None:
        job = await world.job(limits=Limits(unique=Unique(key=("user",), window=HOUR)))
        (first,) = self.wanted(world, job, 1)
        await world.store.intake.enqueue([first], world.now)
        await world.run()
        world.turn(HOUR - 1)
        (within,) = self.wanted(world, job, 1)
        assert (await world.store.intake.enqueue([within], world.now)).instead == {within.id: first.id}
        world.turn(1)

        (beyond,) = self.wanted(world, job, 1)
        assert (await world.store.intake.enqueue([beyond], world.now)).new == 1

    async def test_a_repeated_call_is_not_its_own_duplicate(self, world: World) -> None:
        job = await world.job(limits=Limits(unique=Unique(key=("user",))))
        batch = self.wanted(world, job, 1, 2)
        await world.store.intake.enqueue(batch, world.now)

        report = await world.store.intake.enqueue(batch, world.now)

        assert (report.new, report.instead) == (0, {})

    async def test_under_an_idempotency_key_the_answer_is_who_has_the_key(self, world: World) -> None:
        job = await world.job(limits=Limits(unique=Unique(key=("user",))))
        (first,) = self.wanted(world, job, 1)
        await world.store.intake.enqueue([first], world.now)
        (again,) = self.wanted(world, job, 1)

        for _ in range(2):
            assert await world.store.intake.enqueue_once(1, [again], world.key("k"), world.now) == [first.id]

    async def test_of_many_at_once_one_is_written(self, open_engine: Opener) -> None:
        async with worlds(open_engine, 4) as all_worlds:
            job = await all_worlds[0].job(limits=Limits(unique=Unique(key=("user",))))
            batches = [self.wanted(world, job, 7) for world in all_worlds]

            reports = await asyncio.gather(
                *(world.store.intake.enqueue(batch, world.now) for world, batch in zip(all_worlds, batches, strict=True))
            )

            assert sum(report.new for report in reports) == 1
            (winner,) = [batch[0].id for batch, report in zip(batches, reports, strict=True) if report.new]
            assert {holder for report in reports for holder in report.instead.values()} == {winner}

    async def test_keys_of_the_finished_are_cleared_away(self, world: World) -> None:
        job = await world.job(limits=Limits(unique=Unique(key=("user",))))
        await world.store.intake.enqueue(self.wanted(world, job, 1, 2, 3), world.now)
        await world.run()

        await world.store.losses.reconcile(world.now)

        assert await count(world, "uniques") == 0


async def test_a_limit_of_three_is_never_four(open_engine: Opener) -> None:
    """Twenty workers, two sweepers, losses and cancels: at any time at most three hold a lease for a key, and nothing is left waiting."""
    async with worlds(open_engine, 8) as (sweeper, *others):
        limits = Limits(max_concurrent=9, concurrency=Concurrency(max=3, key=("user",)))
        job = await sweeper.job(limits=limits)
        rounds = 24 if sweeper.engine.name == "postgres" else 12
        runs: list[UUID] = []
        users: dict[UUID, int] = {}
        live: Counter[int] = Counter()
        peak: Counter[int] = Counter()
        over = asyncio.Event()

        async def submit() -> None:
            for nth in range(rounds):
                batch = headers(job, [Wanted(f'{{"user":{nth % 4}}}')] * 5, sweeper.now, sweeper.chance.getrandbits)
                users.update({one.id: nth % 4 for one in batch})
                runs.extend(one.id for one in batch)
                await sweeper.store.intake.enqueue(batch, sweeper.now)

        async def work(world: World) -> None:
            worker = await world.worker(ttl=HOUR)
            while not over.is_set():
                claimed = await world.claim(worker, world.chance.randint(1, 4), of=[job])
                if claimed is None:
                    await asyncio.sleep(0)
                    if len(runs) == rounds * 5 and await count(world, "outcomes") == len(runs):
                        over.set()
                    continue
                for id in claimed.ids:
                    live[users[id]] += 1
                    peak[users[id]] = max(peak[users[id]], live[users[id]])
                assert live.total() <= 9
                outcome = world.chance.choice((Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.CANCELLED))
                reports = await world.ended(claimed, outcome)
                for id in claimed.ids:
                    live[users[id]] -= 1
                await world.store.outcomes.finish(worker, reports, [claimed.lease], world.now)

        async def sweep() -> None:
            while not over.is_set():
                await sweeper.store.losses.unstick(sweeper.now, 50)
                await sweeper.store.losses.reconcile(sweeper.now)
                if runs:
                    await sweeper.cancel(sweeper.chance.choice(runs))

        async with asyncio.timeout(100):
            await asyncio.gather(submit(), sweep(), *(work(world) for world in others * 3))

        assert max(peak.values()) == 3
        assert await count(sweeper, "slots") == await count(sweeper, "gate_waits") == await count(sweeper, "blocked") == 0
        await assert_ledger_is_sound(sweeper.engine)
