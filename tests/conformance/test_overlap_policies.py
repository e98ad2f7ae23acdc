"""Every overlap policy: what becomes of each fire, and that no interleaving breaks the promise."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest

from duly.domain.instants import HOUR, MINUTE, SECOND, Instant
from duly.domain.job import Job
from duly.domain.lifecycle import Outcome, SkipReason, State, is_final
from duly.domain.limits import Limits
from duly.domain.overlap import Overlap, OverlapPolicy
from duly.domain.retry import RetryPolicy
from tests.conformance.ledger import assert_ledger_is_sound, raw
from tests.conformance.test_races import Opener, count, worlds
from tests.conformance.world import World

S, B, P, R = State.SCHEDULED, State.BLOCKED, State.PENDING, State.RUNNING
K, D, C, X = State.SUCCEEDED, State.DEAD, State.CANCELLED, State.SKIPPED
POLICIES = OverlapPolicy


async def fire(world: World) -> None:
    await world.fire()
    world.turn(MINUTE)


async def states(world: World, job: Job) -> list[State]:
    return [run.state for run in await world.of_job(job)]


# What three fires are, when the first one … is pending, runs, waits for its retry, or has ended by the second.
TABLE: list[tuple[dict[str, Any], str, list[State]]] = [
    ({"overlap": POLICIES.ALLOW}, "pending", [P, P, P]),
    ({"overlap": POLICIES.ALLOW}, "running", [R, P, P]),
    ({"overlap": POLICIES.ALLOW, "max_running": 2}, "pending", [P, P, X]),
    ({"overlap": POLICIES.ALLOW, "max_running": 2}, "running", [R, P, X]),
    ({"overlap": POLICIES.ALLOW, "max_running": 2}, "retrying", [S, P, X]),
    ({"overlap": POLICIES.ALLOW, "max_running": 2}, "ended", [K, P, P]),
    ({"overlap": POLICIES.SKIP}, "pending", [P, X, X]),
    ({"overlap": POLICIES.SKIP}, "running", [R, X, X]),
    ({"overlap": POLICIES.SKIP}, "retrying", [S, X, X]),
    ({"overlap": POLICIES.SKIP}, "ended", [K, P, X]),
    ({"overlap": POLICIES.QUEUE_ONE}, "pending", [P, B, X]),
    ({"overlap": POLICIES.QUEUE_ONE}, "running", [R, B, X]),
    ({"overlap": POLICIES.QUEUE_ONE}, "retrying", [S, B, X]),
    ({"overlap": POLICIES.QUEUE_ONE}, "ended", [K, P, B]),
    ({"overlap": POLICIES.QUEUE_ALL}, "running", [R, B, B]),
    ({"overlap": POLICIES.QUEUE_ALL, "max_queued": 1}, "running", [R, B, X]),
    ({"overlap": POLICIES.QUEUE_ALL}, "ended", [K, P, B]),
    ({"overlap": POLICIES.CANCEL_PREVIOUS}, "pending", [C, C, P]),
    ({"overlap": POLICIES.CANCEL_PREVIOUS}, "running", [R, X, B]),
    ({"overlap": POLICIES.CANCEL_PREVIOUS}, "retrying", [C, C, P]),
    ({"overlap": POLICIES.CANCEL_PREVIOUS}, "ended", [K, C, P]),
    ({"overlap": POLICIES.KILL_PREVIOUS}, "pending", [C, C, P]),
    ({"overlap": POLICIES.KILL_PREVIOUS}, "running", [R, X, B]),
    ({"overlap": POLICIES.KILL_PREVIOUS}, "ended", [K, C, P]),
]


@pytest.mark.parametrize(("policy", "first_is", "expected"), TABLE, ids=lambda value: getattr(value, "name", str(value)))
async def test_what_becomes_of_three_fires(world: World, policy: dict[str, Any], first_is: str, expected: list[State]) -> None:
    retry = RetryPolicy(max_attempts=2, initial_delay=HOUR)
    job = await world.job(every=MINUTE, grace=HOUR, retry=retry, **policy)
    await fire(world)
    if first_is != "pending":
        worker = await world.worker(ttl=HOUR)
        claimed = await world.claimed(worker)
        if first_is != "running":
            await world.finish(worker, claimed, Outcome.FAILED if first_is == "retrying" else Outcome.SUCCEEDED)
    await fire(world)
    await fire(world)

    assert await states(world, job) == expected
    for run in await world.of_job(job):
        if run.state is X:
            assert run.skip is SkipReason.OVERLAP
            assert run.error is not None


class TestTakingThePlaceOfThePrevious:
    @pytest.mark.parametrize("policy", [POLICIES.CANCEL_PREVIOUS, POLICIES.KILL_PREVIOUS])
    async def test_the_new_one_starts_when_the_old_one_has_stopped(self, world: World, policy: OverlapPolicy) -> None:
        job = await world.job(every=MINUTE, overlap=policy)
        await fire(world)
        worker = await world.worker(ttl=HOUR)
        old = await world.claimed(worker)
        await fire(world)
        assert await world.claim(await world.worker()) is None
        assert await states(world, job) == [R, B]

        await world.finish(worker, old, Outcome.CANCELLED)

        assert await states(world, job) == [C, P]

    async def test_one_that_ignores_it_is_waited_for(self, world: World) -> None:
        """It was asked, it went on, it succeeded: its success stands, and only then the next one runs."""
        job = await world.job(every=MINUTE, overlap=POLICIES.CANCEL_PREVIOUS)
        await fire(world)
        worker = await world.worker(ttl=24 * HOUR)
        old = await world.claimed(worker)
        for _ in range(5):
            await fire(world)
            assert await world.claim(await world.worker()) is None
        assert await states(world, job) == [R, X, X, X, X, B]

        await world.finish(worker, old)

        assert await states(world, job) == [K, X, X, X, X, P]

    async def test_one_that_fails_after_it_was_asked_is_not_tried_again(self, world: World) -> None:
        job = await world.job(every=MINUTE, overlap=POLICIES.CANCEL_PREVIOUS)
        await fire(world)
        worker = await world.worker(ttl=HOUR)
        old = await world.claimed(worker)
        await fire(world)

        await world.finish(worker, old, Outcome.FAILED)

        assert await states(world, job) == [C, P]

    async def test_one_whose_worker_is_lost_is_cancelled(self, world: World) -> None:
        job = await world.job(every=MINUTE, overlap=POLICIES.KILL_PREVIOUS)
        await fire(world)
        await world.claimed(await world.worker())
        await fire(world)

        world.turn(HOUR)
        await world.lose()

        assert await states(world, job) == [C, P]

    @pytest.mark.parametrize(("policy", "kill_in"), [(POLICIES.CANCEL_PREVIOUS, None), (POLICIES.KILL_PREVIOUS, 7 * SECOND)])
    async def test_whether_it_is_killed_is_written_with_the_wish(self, world: World, policy: OverlapPolicy, kill_in: int | None) -> None:
        await world.job(every=MINUTE, overlap=policy, kill_grace=7 * SECOND)
        await fire(world)
        await world.claimed(await world.worker(ttl=HOUR))
        fired_at = world.now
        await fire(world)

        (wish,) = await raw(world.engine, "SELECT asked_by, kill_at FROM cancels")

        assert wish == {"asked_by": "overlap", "kill_at": None if kill_in is None else fired_at + kill_in}

    async def test_a_crash_after_the_fire_leaves_the_rest_to_the_sweeper(self, world: World) -> None:
        job = await world.job(every=MINUTE, overlap=POLICIES.CANCEL_PREVIOUS)
        await fire(world)
        (first,) = await world.of_job(job)
        await world.wish(first.id)
        world.turn(MINUTE)

        await world.store.losses.unstick(world.now, 10)

        assert await states(world, job) == [C]

    async def test_fewer_places_than_before_let_nobody_in_until_they_are_free(self, world: World) -> None:
        job = await world.job(every=MINUTE, overlap=POLICIES.ALLOW, max_running=3)
        for _ in range(3):
            await fire(world)
        worker = await world.worker(ttl=HOUR)
        claimed = await world.claimed(worker)
        await world.change(job, overlap=Overlap(policy=POLICIES.SKIP))
        await world.finish(worker, claimed, only=[(await world.of_job(job))[0].id])

        await fire(world)

        assert await states(world, job) == [K, R, R, X]


@dataclass
class Watch:
    """Who is at work, as the workers see it: from the claim's answer to just before the report, or until the lease is over."""

    limit: int
    live: dict[UUID, Instant] = field(default_factory=dict)
    most: int = 0

    def come(self, run_id: UUID, now: Instant, leased_until: Instant) -> None:
        self.live = {other: until for other, until in self.live.items() if until > now} | {run_id: leased_until}
        self.most = max(self.most, len(self.live))
        assert len(self.live) <= self.limit, f"{len(self.live)} at once"

    def go(self, run_id: UUID) -> None:
        self.live.pop(run_id, None)


@pytest.mark.parametrize(
    ("policy", "limit"),
    [
        ({"overlap": POLICIES.SKIP}, 1),
        ({"overlap": POLICIES.QUEUE_ONE}, 1),
        ({"overlap": POLICIES.QUEUE_ALL, "max_queued": 3}, 1),
        ({"overlap": POLICIES.ALLOW, "max_running": 3}, 3),
        ({"overlap": POLICIES.CANCEL_PREVIOUS}, 1),
        ({"overlap": POLICIES.KILL_PREVIOUS}, 1),
    ],
    ids=lambda value: str(value.get("overlap")) if isinstance(value, dict) else str(value),
)
async def test_no_interleaving_lets_more_in(open_engine: Opener, policy: dict[str, Any], limit: int) -> None:
    """Two dispatchers that both believe they own the shards, a sweeper, four workers that succeed, fail, release, stop when they are
    asked, and are lost with their leases; every turn of the event loop is another interleaving of their transactions."""
    async with worlds(open_engine, 7) as (one, other, sweeper, *workers):
        retry = RetryPolicy(max_attempts=2, initial_delay=0, jitter=0.0, max_losses=1000)
        job = await one.job(every=MINUTE, grace=HOUR, retry=retry, **policy)
        rounds = 60 if one.engine.name == "postgres" else 15
        watch = Watch(limit)
        over = asyncio.Event()
        await one.own_shards("both")
        other.epochs = dict(one.epochs)

        async def dispatch() -> int:
            """A limit is tried when every place was taken at once: on until then. The one lock of a file lets few meet."""
            minutes = 0
            while minutes < rounds or (watch.most < limit and one.engine.name != "sqlite"):
                await one.fire()
                await one.promote()
                one.turn(MINUTE)
                minutes += 1
            over.set()
            return minutes

        async def dispatch_as_well() -> None:
            while not over.is_set():
                await other.fire()
                await other.promote()

        async def sweep() -> None:
            while not over.is_set():
                await sweeper.lose()
                await sweeper.store.losses.unstick(sweeper.now, 50)
                await sweeper.store.losses.reconcile(sweeper.now)

        async def work(world: World) -> None:
            while not over.is_set():
                leased_until = world.now + 3 * MINUTE
                worker = await world.worker(ttl=3 * MINUTE)
                claimed = await world.claim(worker, 2, of=[job])
                if claimed is None:
                    continue
                for run_id in claimed.ids:
                    watch.come(run_id, world.now, leased_until)
                asked = await world.store.liveness.renew(worker, world.now, 3 * MINUTE)
                stops = {getattr(stop, "id", stop) for stop in asked or ()}
                outcome = world.chance.choice((Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.FAILED, Outcome.RELEASED, Outcome.WORKER_LOST))
                for run_id in claimed.ids:
                    watch.go(run_id)
                    if outcome is Outcome.WORKER_LOST:
                        continue
                    end = Outcome.CANCELLED if run_id in stops else outcome
                    await world.finish(worker, claimed, end, only=[run_id])

        async with asyncio.timeout(100):
            minutes, *_ = await asyncio.gather(dispatch(), dispatch_as_well(), sweep(), *(work(world) for world in workers))

        # The other dispatcher may have been the one to fire the last minute.
        assert await count(one, "executions") in (minutes, minutes + 1)
        await _settle(one, job)
        ends = Counter(run.state for run in await one.of_job(job))
        assert all(is_final(state) for state in ends)
        await assert_ledger_is_sound(one.engine)


async def _settle(world: World, job: Job) -> None:
    """No more fires; the rest comes to its end."""
    await world.pause(job)
    for _ in range(200):
        world.turn(HOUR)
        await world.lose()
        await world.store.losses.unstick(world.now, 100)
        await world.promote()
        if not await world.run(of=[job]) and all(is_final(run.state) for run in await world.of_job(job)):
            return
    raise AssertionError("something waits for ever")


@pytest.mark.parametrize("limits", [Limits(), Limits(max_concurrent=1)], ids=["plain", "at a gate"])
async def test_a_place_that_comes_free_does_not_start_anybody_before_its_time(world: World, limits: Limits) -> None:
    job = await world.job(every=MINUTE, overlap=POLICIES.QUEUE_ONE, limits=limits)
    await world.fire()
    worker = await world.worker(ttl=HOUR)
    claimed = await world.claimed(worker)
    world.turn(MINUTE)
    due = await world.decide()
    # As jitter puts it off.
    await world.fire(replace(due, fires=[fire._replace(delay=30 * SECOND, rank=fire.rank + 30 * SECOND) for fire in due.fires]))

    await world.finish(worker, claimed)

    assert await states(world, job) == [K, S]
    world.turn(30 * SECOND)
    await world.promote()
    assert await states(world, job) == [K, P]
    await assert_ledger_is_sound(world.engine)
