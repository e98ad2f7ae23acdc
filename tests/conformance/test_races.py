"""Many at once, on connections of their own: of those who race for one thing, exactly one gets it."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.engine_sqlite import SqliteEngine
from duly.domain.errors import Unavailable
from duly.domain.instants import HOUR, MINUTE, SECOND
from duly.domain.job import Job
from duly.domain.lifecycle import Outcome, State
from duly.domain.overlap import OverlapPolicy
from duly.domain.retry import Backoff, RetryPolicy
from tests.conformance.ledger import raw
from tests.conformance.world import Clock, World

ROOT = Path(__file__).parents[2]
MILLISECOND = 1_000

Opener = Callable[[], object]


@asynccontextmanager
async def worlds(open_engine: Opener, count: int) -> AsyncIterator[list[World]]:
    """Several engines on one store, as several processes have, under one clock."""
    clock = Clock()
    async with AsyncExitStack() as stack:
        yield [World(await stack.enter_async_context(open_engine()), seed=nth, clock=clock) for nth in range(count)]


def lighter_on_sqlite(world: World, many: int, few: int) -> int:
    """Every commit on a SQLite file is a turn at one lock: a tenth of the rounds says as much."""
    return few if world.engine.name == "sqlite" else many


async def count(world: World, table: str) -> int:
    return (await raw(world.engine, f"SELECT count(*) AS n FROM {table}"))[0]["n"]


class Storm:
    """Claimers that pause past their time, sweepers, a promoter and somebody who cancels; and what each was told."""

    TTL = 200 * MILLISECOND

    def __init__(self, job: Job, ids: list[UUID]) -> None:
        self.job, self.ids = job, ids
        self.over = asyncio.Event()
        self.acknowledged: set[UUID] = set()
        self.cancelled: set[UUID] = set()
        self.refused = 0
        self.lost = 0
        self.seen = Counter[str]()

    async def claimer(self, world: World) -> None:
        worker, expires = 0, 0
        while not self.over.is_set():
            world.turn(world.chance.randrange(MILLISECOND))
            if await world.store.liveness.renew(worker, world.now, self.TTL) is None:
                worker = await world.worker(ttl=self.TTL)
            expires = world.now + self.TTL
            claimed = await world.claim(worker, world.chance.choice((1, 3, 10)), of=[self.job])
            if claimed is None:
                await asyncio.sleep(0)
                continue
            ends = world.chance.choices((Outcome.SUCCEEDED, Outcome.FAILED, Outcome.RELEASED), (7, 2, 1), k=len(claimed.ids))
            chosen = [(await world.ended(claimed, end, [run_id]))[0] for run_id, end in zip(claimed.ids, ends, strict=True)]
            half = world.chance.randrange(len(chosen) + 1)
            for part in (chosen[:half], chosen[half:]):
                if world.chance.random() < 0.15:
                    await self.pause(world, until=expires + world.chance.randrange(self.TTL))
                refused = await world.store.outcomes.finish(worker, part, [claimed.lease], world.now)
                self.refused += len(refused)
                self.acknowledged |= {item.id for item in part if item.outcome is Outcome.SUCCEEDED} - refused

    async def pause(self, world: World, until: int) -> None:
        """A process that stands still; often past its time."""
        self.seen["pauses"] += 1
        while world.now < until and not self.over.is_set():
            await asyncio.sleep(0)

    async def sweeper(self, world: World) -> None:
        while not self.over.is_set():
            world.turn(5 * MILLISECOND)
            report = await world.lose(limit=5)
            self.lost += report.lost
            await asyncio.sleep(0)

    async def promoter(self, world: World) -> None:
        await world.own_shards()
        while not self.over.is_set():
            world.turn(MILLISECOND)
            await world.promote()
            if await count(world, "outcomes") == len(self.ids):
                self.over.set()

    async def canceller(self, world: World) -> None:
        for run_id in world.chance.sample(self.ids, len(self.ids) // 10):
            if self.over.is_set():
                return
            state = (await world.cancel(run_id))[run_id]
            self.seen[state.name] += 1
            if state is State.CANCELLED:
                self.cancelled.add(run_id)
            world.turn(MILLISECOND)


@pytest.mark.slow
async def test_a_storm_ends_every_execution_once(open_engine: Opener, long_form: bool) -> None:
    async with worlds(open_engine, 4) as (first, *others):
        job = await first.job(
            retry=RetryPolicy(max_attempts=4, backoff=Backoff.FIXED, initial_delay=20 * MILLISECOND, jitter=0.0, max_losses=6)
        )
        size = lighter_on_sqlite(first, 1_000, 100) * (10 if long_form else 1)
        storm = Storm(job, await first.enqueue(job, size))
        claimers = [storm.claimer(world) for world in (first, *others, *others)]

        async with asyncio.timeout(600 if long_form else 60):
            await asyncio.gather(
                *claimers, storm.sweeper(first), storm.sweeper(others[0]), storm.promoter(others[1]), storm.canceller(others[2])
            )

        outcomes = {row["id"]: row["state"] for row in await raw(first.engine, "SELECT id, state FROM outcomes")}
        attempts = await raw(first.engine, "SELECT id, outcome FROM attempts")
        assert outcomes.keys() == set(storm.ids)
        assert storm.acknowledged == {run_id for run_id, state in outcomes.items() if state == State.SUCCEEDED}
        assert {run_id for run_id in storm.cancelled if outcomes[run_id] != State.CANCELLED} == set()
        # Whoever was lost came too late with its report, and nobody else did.
        assert storm.lost == storm.refused == sum(row["outcome"] == Outcome.WORKER_LOST for row in attempts)
        assert storm.lost > 0, "no pause went past its time: the storm was calm"
        first.turn(MINUTE)
        await first.lose()
        assert await count(first, "leases") == 0


async def test_of_a_sweep_and_a_finish_exactly_one_wins(open_engine: Opener) -> None:
    async with worlds(open_engine, 2) as (worker_side, sweeper_side):
        job = await worker_side.job(retry=RetryPolicy(max_losses=1000))
        won = Counter[str]()
        for _ in range(lighter_on_sqlite(worker_side, 60, 15)):
            await worker_side.enqueue(job, 5)
            worker = await worker_side.worker(ttl=SECOND)
            claimed = await worker_side.claimed(worker, 5, of=[job])
            outcome = worker_side.chance.choice((Outcome.SUCCEEDED, Outcome.FAILED))
            worker_side.turn(SECOND)
            await sweeper_side.store.losses.bury_workers(sweeper_side.now)
            pair = [worker_side.finish(worker, claimed, outcome), sweeper_side.lose()]

            refused, report = await asyncio.gather(*pair)

            assert report.lost == len(refused) in (0, 5)
            won["sweep" if refused else "finish"] += 1
            # The sweeper leaves a lease that a finish held: the next round finds it gone or empty.
            assert (await sweeper_side.lose()).lost == 0
        assert won["finish"] + won["sweep"] > 0


async def test_two_dispatchers_fire_each_instant_once(open_engine: Opener) -> None:
    async with worlds(open_engine, 2) as (one, other):
        jobs = await one.jobs(10, every=MINUTE)
        rounds = lighter_on_sqlite(one, 30, 10)
        fired = 0
        for nth in range(rounds):
            await one.own_shards()
            # Equal epochs in two rounds of three; in the third the second dispatcher holds stale ones.
            other.epochs = {shard: epoch - (nth % 3 == 2) for shard, epoch in one.epochs.items()}
            firing = await one.decide()

            reports = await asyncio.gather(one.fire(firing), other.fire(firing), other.fire(firing), one.fire(firing))

            fired += sum(report.fired for report in reports)
            assert sum(report.advanced for report in reports) == len(jobs)
            one.turn(MINUTE)
        instants = {(row["job_id"], row["due_at"]) for row in await raw(one.engine, "SELECT job_id, due_at FROM executions")}
        assert fired == len(instants) == await count(one, "executions") == rounds * len(jobs)


async def test_a_new_owner_stops_the_old_one_at_any_moment(open_engine: Opener) -> None:
    async with worlds(open_engine, 2) as (old, new):
        jobs = await old.jobs(10, every=MINUTE)
        for _ in range(lighter_on_sqlite(old, 20, 8)):
            await old.own_shards("old")
            firing = await old.decide()

            await asyncio.gather(old.fire(firing), new.own_shards("new"))
            before = await count(old, "executions")
            late = await old.fire(firing)

            assert late.advanced == 0
            assert await count(old, "executions") == before
            await new.fire()
            old.turn(MINUTE)
        assert await count(old, "executions") % len(jobs) == 0


async def test_nobody_who_queues_is_forgotten(open_engine: Opener) -> None:
    async with worlds(open_engine, 3) as (dispatcher, *runners):
        job = await dispatcher.job(every=MINUTE, overlap=OverlapPolicy.QUEUE_ONE, retry=RetryPolicy(max_attempts=1))
        rounds = lighter_on_sqlite(dispatcher, 100, 30)
        over = asyncio.Event()
        live = Counter[UUID]()

        async def dispatch() -> None:
            for _ in range(rounds):
                await dispatcher.fire()
                dispatcher.turn(MINUTE)
            over.set()
            # Who passes a place on by a clock that is behind puts the waiter off until its time.
            while await count(dispatcher, "outcomes") < rounds:
                await dispatcher.promote()

        async def run(world: World) -> None:
            while not over.is_set() or await count(world, "outcomes") < rounds:
                worker = await world.worker(ttl=rounds * MINUTE * 2)
                claimed = await world.claim(worker, 5, of=[job])
                if claimed is None:
                    continue
                live.update(claimed.ids)
                assert live.total() == 1, "two at once"
                outcome = world.chance.choice((Outcome.SUCCEEDED, Outcome.FAILED))
                reports = await world.ended(claimed, outcome)
                live.subtract(claimed.ids)
                assert await world.store.outcomes.finish(worker, reports, [claimed.lease], world.now) == set()

        async with asyncio.timeout(60):
            await asyncio.gather(dispatch(), *(run(world) for world in runners))

        assert await count(dispatcher, "executions") == await count(dispatcher, "outcomes") == rounds
        for table in ("blocked", "waits", "places", "ready", "leases"):
            assert await count(dispatcher, table) == 0


async def test_of_cancel_and_completion_the_first_commit_stands(open_engine: Opener) -> None:
    async with worlds(open_engine, 2) as (canceller, runner):
        job = await canceller.job()
        worker = await runner.worker(ttl=HOUR)
        for outcome in (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.RELEASED) * lighter_on_sqlite(canceller, 10, 4):
            (run_id,) = await canceller.enqueue(job)
            claimed = await runner.claimed(worker)

            answer, refused = await asyncio.gather(canceller.cancel(run_id, kill_after=SECOND), runner.finish(worker, claimed, outcome))

            assert refused == set()
            assert answer[run_id] in (State.RUNNING, await canceller.state(run_id))
            # What went back to waiting before it could see the wish is final when its time comes, and never runs again.
            canceller.turn(MINUTE)
            await canceller.promote()
            # A success stands whoever came first: it had not been told in time.
            final = State.SUCCEEDED if outcome is Outcome.SUCCEEDED else State.CANCELLED
            assert await canceller.state(run_id) is final
            assert await canceller.outcomes_of(run_id) == [outcome]
            assert await canceller.cancel(run_id) == {run_id: final}


async def test_a_cancel_meets_what_moves(open_engine: Opener) -> None:
    async with worlds(open_engine, 3) as (canceller, dispatcher, runner):
        job = await canceller.job(retry=RetryPolicy(max_attempts=100, backoff=Backoff.FIXED, initial_delay=0, jitter=0.0))
        await dispatcher.own_shards()
        worker = await runner.worker(ttl=MINUTE)
        for _ in range(lighter_on_sqlite(canceller, 40, 12)):
            ids = await canceller.enqueue(job, 6, due_in=SECOND)
            canceller.turn(SECOND)

            async def move() -> None:
                await dispatcher.promote()
                for _ in range(20):
                    claimed = await runner.claim(worker, 3, of=[job])
                    if claimed is None:
                        return
                    await runner.finish(worker, claimed, runner.chance.choice((Outcome.FAILED, Outcome.RELEASED)))
                    await dispatcher.promote()

            _, answers = await asyncio.gather(move(), canceller.cancel(*ids))

            assert set(answers.values()) <= {State.CANCELLED, State.RUNNING}
            await move()
            assert await canceller.states(ids) == [State.CANCELLED] * 6
            await runner.store.liveness.renew(worker, runner.now, MINUTE)


class Cutter:
    """Ends connections of the store at random moments; the caller repeats blindly what got no answer."""

    def __init__(self, connection: asyncpg.Connection, chance: random.Random) -> None:
        self.connection, self.chance = connection, chance
        self.unanswered = 0
        self.over = False

    async def run(self) -> None:
        while not self.over:
            # Seldom enough that a call gets through in the end: it must be able to win against its cutter.
            await asyncio.sleep(self.chance.random() * 0.08)
            await self.connection.execute(
                """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE datname = current_database() AND application_name LIKE 'duly-%' AND state <> 'idle'
                   ORDER BY random() LIMIT 1"""
            )

    async def until_answered(self, call: Callable[[], Awaitable[object]]) -> object:
        while True:
            try:
                return await call()
            except Unavailable:
                self.unanswered += 1


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
async def test_connections_cut_at_any_moment_lose_and_double_nothing(engine: PostgresEngine, long_form: bool) -> None:
    world = World(engine)
    jobs = await world.jobs(5, every=MINUTE)
    await world.own_shards()
    worker = await world.worker(ttl=10_000 * MINUTE)
    rounds = 400 if long_form else 40
    cutter = Cutter(await asyncpg.connect(engine.dsn), world.chance)
    cutting = asyncio.create_task(cutter.run())

    for _ in range(rounds):
        batch = world.new_executions(jobs[0], 5)
        firing = await cutter.until_answered(world.decide)
        await cutter.until_answered(lambda: world.store.intake.enqueue(batch, world.now))  # noqa: B023
        await cutter.until_answered(lambda: world.fire(firing))  # noqa: B023
        await cutter.until_answered(lambda: world.claim(worker, 10))
        # A lease whose answer was lost is adopted; each is reported until somebody answers.
        for held in await cutter.until_answered(lambda: world.store.ready.held_by(worker)):
            outcome = world.chance.choice((Outcome.SUCCEEDED, Outcome.CANCELLED))
            reports = await cutter.until_answered(lambda: world.ended(held, outcome))  # noqa: B023
            refused = await cutter.until_answered(lambda: world.store.outcomes.finish(worker, reports, [held.lease], world.now))  # noqa: B023
            assert refused == set()
        world.turn(MINUTE)
    cutter.over = True
    await cutting
    await cutter.connection.close()
    while claimed := await world.claim(worker):
        await world.finish(worker, claimed)

    assert cutter.unanswered > 0
    assert await count(world, "executions") == await count(world, "outcomes") == rounds * 10
    assert await count(world, "leases") == 0


@pytest.mark.slow
async def test_two_processes_on_one_file_never_fire_twice(sqlite_path: str) -> None:
    world = World(SqliteEngine(sqlite_path))
    jobs = await world.jobs(20, every=MINUTE)
    await world.own_shards()
    command = [sys.executable, "-m", "tests.conformance.dispatch_process", sqlite_path, "15"]
    processes = [subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]

    for process in processes:
        assert await asyncio.to_thread(process.stdout.readline) == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    fired = [int((await asyncio.to_thread(process.communicate))[0]) for process in processes]

    assert sum(fired) == 15 * len(jobs) == await count(world, "executions")
    await world.engine.close()
