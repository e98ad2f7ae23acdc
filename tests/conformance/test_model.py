"""The store beside a small reference model: the same calls, the same state, whatever is repeated, late or left unanswered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from duly.adapters.sql.engine import Engine, Lane
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.engine_sqlite import InlineSqliteEngine
from duly.domain import trail
from duly.domain.errors import Unavailable
from duly.domain.execution import NewExecution
from duly.domain.instants import HOUR, MINUTE, SECOND
from duly.domain.job import Priority
from duly.domain.lifecycle import JobState, Outcome, State, is_final
from duly.domain.overlap import OverlapPolicy
from duly.domain.retry import Backoff, RetryPolicy
from duly.domain.shards import shard_of
from duly.ports.store import ExecutionFilter
from tests.conformance.ledger import assert_ledger_is_sound, raw
from tests.conformance.model import Model, Plan
from tests.conformance.world import World
from tests.services.databases import empty, in_memory

RETRY = RetryPolicy(max_attempts=2, backoff=Backoff.FIXED, initial_delay=10 * SECOND, jitter=0.0, max_losses=2)
POLICIES = list(OverlapPolicy)
LIFE = 20 * SECOND


class Faulty:
    """An engine whose n-th transaction from now fails before its commit, or commits and loses its answer."""

    countdown: int | None = None
    commits = False

    def arm(self, nth: int, commits: bool) -> None:
        self.countdown, self.commits = nth, commits

    def disarm(self) -> None:
        self.countdown = None

    async def run(self, action: Callable[[], Any], lane: Lane = Lane.GENERAL) -> Any:
        return await self._or_fault(lambda: super(Faulty, self).run(action, lane))

    async def fetch(self, name: str, params: dict[str, Any], lane: Lane = Lane.GENERAL) -> Any:
        return await self._or_fault(lambda: super(Faulty, self).fetch(name, params, lane))

    async def _or_fault(self, transaction: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        if self.countdown is None:
            return await transaction()
        self.countdown -= 1
        if self.countdown >= 0:
            return await transaction()
        self.disarm()
        if self.commits:
            await transaction()
        raise Unavailable("DULY-E501", "The answer was lost." if self.commits else "Nothing was written.")


class FaultyInline(Faulty, InlineSqliteEngine):
    """In memory."""


class FaultyPostgres(Faulty, PostgresEngine):
    """On a server."""


@dataclass(frozen=True)
class Op:
    """One call, of the store and of the model; it can be made again."""

    of_store: Callable[[], Coroutine[Any, Any, Any]]
    of_model: Callable[[], Any]
    # Whether a call that was repeated gives the answer of the first.
    same_answer: bool = False


seldom = st.sampled_from([False, False, False, True])
faults = st.sampled_from([None] * 8 + [(nth, commits) for nth in (0, 1, 2) for commits in (False, True)])
outcomes = st.sampled_from([Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.FAILED, Outcome.RELEASED, Outcome.CANCELLED])


class Ledger(RuleBasedStateMachine):
    """Subclasses say how a fresh store is opened."""

    runner: asyncio.Runner
    open: Callable[[], Coroutine[Any, Any, Engine]]

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.wait(type(self).open()))
        self.model = Model(RETRY.max_losses)
        self.model.now = self.world.now
        self.jobs: list[Any] = []
        self.claims: list[tuple[int, Any]] = []
        self.decided: list[tuple[Any, dict[int, int]]] = []
        self.history: list[Op] = []

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    def do(self, op: Op, fault: tuple[int, bool] | None = None) -> None:
        """Make a call as callers do: what got no answer is repeated blindly, and the sweeper comes round afterwards."""
        self.history.append(op)
        unanswered = self._store_does(op, fault)
        answer, expected = self._answer, op.of_model()
        if op.same_answer or not unanswered:
            assert answer == expected
        if unanswered:
            self.wait(self.world.store.losses.reconcile(self.world.now))
            self.wait(self.world.store.losses.unstick(self.world.now + MINUTE, 1000))
            self.model.carry_out_wishes()

    def _store_does(self, op: Op, fault: tuple[int, bool] | None) -> bool:
        with self.armed(fault):
            try:
                self._answer = self.wait(op.of_store())
            except Unavailable:
                self._answer = self.wait(op.of_store())
                return True
        return False

    @contextmanager
    def armed(self, fault: tuple[int, bool] | None) -> Iterator[None]:
        if fault is not None:
            self.world.engine.arm(*fault)
        try:
            yield
        finally:
            self.world.engine.disarm()

    # ------------------------------------------------------------ jobs and what they fire

    @initialize()
    def begin(self) -> None:
        self.change_dispatcher()
        for policy, priority in ((OverlapPolicy.ALLOW, Priority.HIGH), (OverlapPolicy.QUEUE_ALL, Priority.NORMAL)):
            self.create(policy, priority)
            self.enqueue(which=-1, count=3, due_in=0, fault=None)

    @precondition(lambda self: len(self.jobs) < 5)
    @rule(policy=st.sampled_from(POLICIES), priority=st.sampled_from(list(Priority)))
    def create(self, policy: OverlapPolicy, priority: Priority) -> None:
        job = self.wait(self.world.job(every=MINUTE, overlap=policy, max_queued=2, retry=RETRY, priority=priority))
        self.jobs.append(job)
        self.model.jobs[job.id] = Plan(job.version.number, self.world.now)

    def change(self, which: int) -> None:
        job = self._job(which)
        assert self.wait(self.world.change(job))
        self.model.change(job.id, self.wait(self.world.read(job.id)).version.number)

    def set_state(self, which: int, state: JobState, fault: Any) -> None:
        job = self._job(which)
        next_at = self.world.now if state is JobState.ACTIVE else None
        set_state = self.world.store.definitions.set_state
        self.do(
            Op(
                lambda: set_state(1, job.id, state, next_at, None, self.world.now),
                lambda: self.model.set_state(job.id, state, next_at),
                same_answer=True,
            ),
            fault,
        )

    @rule(which=st.integers(0), to=st.sampled_from([None, JobState.ACTIVE, JobState.PAUSED]), fault=faults)
    def alter_a_job(self, which: int, to: JobState | None, fault: Any) -> None:
        """A new version, a pause or the end of one."""
        if to is None:
            self.change(which)
        else:
            self.set_state(which, to, fault)

    def _job(self, which: int) -> Any:
        return self.jobs[which % len(self.jobs)]

    async def _enqueue(self, batch: list[NewExecution]) -> int:
        return (await self.world.store.intake.enqueue(batch, self.world.now)).new

    @rule(which=st.integers(0), count=st.integers(1, 4), due_in=st.sampled_from([0, 0, 0, 5 * SECOND]), fault=faults)
    def enqueue(self, which: int, count: int, due_in: int, fault: Any) -> None:
        batch = self.world.new_executions(self._job(which), count, due_in=due_in)
        self.do(Op(lambda: self._enqueue(batch), lambda: self.model.enqueue(batch)), fault)

    @rule()
    def decide(self) -> None:
        """What is fired later, perhaps too late."""
        firing = self.wait(self.world.decide())
        due = {
            job_id
            for job_id, job in self.model.jobs.items()
            if job.state is JobState.ACTIVE and job.next_at is not None and job.next_at <= self.model.now
        }
        assert {move.job_id for move in firing.advances} == due
        self.decided.append((firing, dict(self.world.epochs)))

    @precondition(lambda self: self.decided)
    @rule(of_then=st.booleans(), fault=faults)
    def fire(self, of_then: bool, fault: Any) -> None:
        """Under the epochs of the decision, or those of now."""
        firing, epochs = self.decided.pop()
        epochs = epochs if of_then else dict(self.world.epochs)

        async def fired() -> tuple[int, int, int, int]:
            report = await self.world.store.schedules.fire(firing, epochs, self.world.now)
            return report.advanced, report.fired, report.skipped, report.queued

        self.do(Op(fired, lambda: self.model.fire(firing, epochs)), fault)

    @rule(replaced=seldom, fault=faults)
    def a_minute_later(self, replaced: bool, fault: Any) -> None:
        self.turn_the_clock(MINUTE)
        self.decide()
        if replaced:
            self.change_dispatcher()
        self.fire(of_then=True, fault=fault)

    def promote(self, fault: Any, *, replaced: bool = False) -> None:
        epochs = dict(self.world.epochs)
        if replaced:
            self.change_dispatcher()

        async def promoted() -> int:
            report = await self.world.store.schedules.promote(epochs, self.world.now, 1000)
            return report.promoted + report.cancelled

        self.do(Op(promoted, lambda: self.model.promote(epochs)), fault)

    @rule(replaced=seldom, fault=faults)
    def ten_seconds_later(self, replaced: bool, fault: Any) -> None:
        self.turn_the_clock(10 * SECOND)
        self.promote(fault, replaced=replaced)

    def change_dispatcher(self) -> None:
        self.wait(self.world.own_shards())
        self.model.epoch = dict(self.world.epochs)

    # ------------------------------------------------------------ workers

    def _live_worker(self, which: int) -> int:
        live = [worker for worker, expires in self.model.workers.items() if worker not in self.model.lost and expires > self.model.now]
        if not live:
            live = [self.wait(self.world.worker(ttl=LIFE))]
            self.model.workers[live[0]] = self.world.now + LIFE
        return live[which % len(live)]

    @precondition(lambda self: self.model.workers)
    @rule(which=st.integers(0))
    def a_worker_comes_back(self, which: int) -> None:
        """Whether it is late or in time: it renews, then claims."""
        worker = sorted(self.model.workers)[which % len(self.model.workers)]
        self._renew(worker)
        self._claim(worker, 2)

    def _renew(self, worker: int) -> None:
        answer = self.wait(self.world.store.liveness.renew(worker, self.world.now, LIFE))
        assert (answer is not None) == self.model.renew(worker, LIFE)
        if answer is not None:
            running = {run_id for holder, members in self.model.leases.values() if holder == worker for run_id in members}
            assert {stop.id for stop in answer} == {run_id for run_id in running if self.model.runs[run_id].wish}

    @rule(which=st.integers(0), quota=st.integers(1, 5), fault=faults)
    def claim(self, which: int, quota: int, fault: Any) -> None:
        self._claim(self._live_worker(which), quota, fault)

    def _claim(self, worker: int, quota: int, fault: Any = None) -> None:
        expected = self.model.ready(worker, quota)
        with self.armed(fault):
            try:
                claimed = self.wait(self.world.claim(worker, quota, of=self.jobs[:1]))
            except Unavailable:
                # The lease may exist: it is adopted, or there was none.
                held = self.wait(self.world.store.ready.held_by(worker))
                claimed = next((one for one in held if one.lease not in self.model.leases), None)
                expected = expected if claimed is not None else []
        assert sorted(expected) == sorted(claimed.ids if claimed is not None else [])
        if claimed is not None:
            runs = [self.model.runs[run_id] for run_id in claimed.ids]
            assert (claimed.attempts, claimed.failures) == ([run.attempt for run in runs], [run.failures for run in runs])
            self.model.grant(worker, claimed.lease, claimed.ids)
            self.claims.append((worker, claimed))

    @precondition(lambda self: self.claims)
    @rule(
        which=st.integers(-3, -1),
        outcome=outcomes,
        share=st.sampled_from([1, 2, 3]),
        thief=seldom,
        fault=faults,
    )
    def finish(self, which: int, outcome: Outcome, share: int, thief: bool, fault: Any) -> None:
        """Report some of what a lease holds; now and then as somebody who never held it."""
        worker, claimed = self.claims[which % len(self.claims)]
        worker += thief
        _, held = self.model.leases.get(claimed.lease, (worker, set(claimed.ids)))
        only = [run_id for run_id in claimed.ids if run_id in held and (claimed.lease, run_id) not in self.model.ended][::share]
        reports = self.wait(self.world.ended(claimed, outcome, only))
        call = Op(
            lambda: self.world.store.outcomes.finish(worker, reports, [claimed.lease], self.world.now),
            lambda: self.model.finish(worker, reports),
            same_answer=True,
        )
        self.do(call, fault)

    @precondition(lambda self: self.claims)
    @rule(which=st.integers(-3, -1), nth=st.integers(0, 4), further=st.sampled_from([0, 1, 1, 2]), thief=seldom, fault=faults)
    def save(self, which: int, nth: int, further: int, thief: bool, fault: Any) -> None:
        """A checkpoint, under a lease of now or of long ago; now and then the number of the last one again."""
        worker, claimed = self.claims[which % len(self.claims)]
        worker += thief
        run_id = claimed.ids[nth % len(claimed.ids)]
        number = max(self.model.runs[run_id].checkpoint + further, 1)
        call = Op(
            lambda: self.world.store.checkpoints.save(worker, claimed.lease, run_id, number, "{}", self.world.now),
            lambda: self.model.save(worker, claimed.lease, run_id, number),
            same_answer=True,
        )
        self.do(call, fault)

    @rule(quota=st.integers(2, 5), outcome=outcomes, share=st.sampled_from([1, 2]), fault=faults)
    def work(self, quota: int, outcome: Outcome, share: int, fault: Any) -> None:
        worker = self._live_worker(0)
        if not self.model.ready(worker, 1):
            self.enqueue(which=quota, count=quota, due_in=0, fault=None)
        self._claim(worker, quota)
        if self.claims:
            self.finish(which=-1, outcome=outcome, share=share, thief=False, fault=fault)

    # ------------------------------------------------------------ losses, cancels, time

    @rule(fault=faults)
    def lose(self, fault: Any) -> None:
        async def lost() -> int:
            return (await self.world.lose()).lost

        self.do(Op(lost, self.model.lose), fault)

    @rule(wishes=st.booleans(), fault=faults)
    def a_worker_dies(self, wishes: bool, fault: Any) -> None:
        """Its executions wait again; now and then somebody wished them away meanwhile, and died too."""
        self._claim(self._live_worker(0), 3)
        self.turn_the_clock(LIFE)
        self.lose(fault)
        if wishes:
            self.wish()
        self.turn_the_clock(SECOND)
        self.promote(None)

    @precondition(lambda self: self.model.runs)
    @rule(which=st.lists(st.integers(0, 1000), min_size=1, max_size=3), fault=faults)
    def cancel(self, which: list[int], fault: Any) -> None:
        known = sorted(self.model.runs)
        ids = sorted({known[nth % len(known)] for nth in which})
        self.do(Op(lambda: self.world.cancel(*ids), lambda: self.model.cancel(ids), same_answer=True), fault)

    def wish(self) -> None:
        waiting = sorted(run for run, stands in self.model.runs.items() if stands.state is State.SCHEDULED)
        if waiting:
            self.do(Op(lambda: self.world.wish(waiting[0]), lambda: self.model.wish(waiting[0])))

    def turn_the_clock(self, by: int) -> None:
        self.model.now = self.world.turn(by)

    @precondition(lambda self: self.history)
    @rule(back=st.integers(1, 20), fault=faults)
    def repeat_an_old_call(self, back: int, fault: Any) -> None:
        """Late, with the lease and the epoch of then."""
        self.do(self.history[-min(back, len(self.history))], fault)

    # ------------------------------------------------------------ what must be equal

    @invariant()
    def the_same_is_visible(self) -> None:
        self.wait(self._compare())

    async def _compare(self) -> None:
        shown = await self.world.store.insights.executions(ExecutionFilter(1, limit=10_000))
        attempts: dict[Any, list[Outcome]] = {}
        for row in await raw(self.world.engine, "SELECT id, outcome FROM attempts ORDER BY id, attempt"):
            attempts.setdefault(row["id"], []).append(Outcome(row["outcome"]))
        seen = {}
        for one in shown:
            ends = attempts.get(one.id, []) + [Outcome.SUCCEEDED] * (one.state is State.SUCCEEDED)
            fence = one.fence if one.state is State.RUNNING else None
            wish = one.cancel_asked_at is not None and not is_final(one.state)
            seen[one.id] = (one.state, one.attempt, one.next_attempt_at, fence, wish, ends)
        expected = {}
        for run_id, run in self.model.runs.items():
            waits_until = run.due_at if run.state is State.SCHEDULED else None
            fence = run.lease if run.state is State.RUNNING else None
            expected[run_id] = (run.state, run.attempt, waits_until, fence, run.wish and not is_final(run.state), run.ends)
        assert seen == expected
        saved = await self.world.store.checkpoints.saved(sorted(self.model.runs))
        assert {run_id: kept.number for run_id, kept in saved.items()} == {
            run_id: run.checkpoint for run_id, run in self.model.runs.items() if run.checkpoint
        }
        for job_id, job in self.model.jobs.items():
            read = await self.world.read(job_id)
            assert (read.state, read.next_fire_at) == (job.state, job.next_at if job.state is JobState.ACTIVE else None)
            assert shard_of(job_id) in self.model.epoch
        await assert_ledger_is_sound(self.world.engine)


# Four parts with seeds of their own, so that they spread over the test workers: walks of 50 steps, fewer where every step is a round trip.
PARTS = range(4)
WALKS = {"sqlite": 120, "postgres": 60}
WALKS_IN_THE_LONG_FORM = 2_000


def check(machine: type[Ledger], engine: str, part: int, long_form: bool) -> None:
    walks = (WALKS_IN_THE_LONG_FORM if long_form else WALKS[engine]) // len(PARTS)
    steps = 100 if long_form else 50
    chosen = settings(max_examples=walks, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck))
    with asyncio.Runner() as runner:
        machine.runner = runner
        run_state_machine_as_test(seed(part)(machine), settings=chosen)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.timeout(1200)
def test_sqlite_is_the_model(part: int, long_form: bool) -> None:
    async def opened() -> Engine:
        return await in_memory(FaultyInline())

    class OnSqlite(Ledger):
        open = staticmethod(opened)

        def teardown(self) -> None:
            self.wait(self.world.engine.close())

    check(OnSqlite, "sqlite", part, long_form)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.timeout(3600)
def test_postgres_is_the_model(part: int, shared_dsn: str, long_form: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Claims that are slow begin further on, and what is slow depends on how busy the machine is. tests/domain/test_trail.py has that.
    monkeypatch.setattr(trail, "SLOW", HOUR)
    engine = FaultyPostgres(shared_dsn)

    async def opened() -> Engine:
        empty(shared_dsn)
        return engine

    class OnPostgres(Ledger):
        open = staticmethod(opened)

    check(OnPostgres, "postgres", part, long_form)
