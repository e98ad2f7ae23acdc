"""Short words for what tests do to a store, with a clock that is turned by hand."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from duly.adapters.sql.engine import Engine
from duly.adapters.sql.store import store_on
from duly.domain import decide
from duly.domain.catchup import CatchUp, CatchUpPolicy
from duly.domain.execution import Claimed, Finished, Lost, NewExecution, Verdict
from duly.domain.fairness import Ask
from duly.domain.ids import ExecutionId, JobId, new_ids
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND, Instant, Micros
from duly.domain.job import Job, JobSpec, JobType, JobVersion, Priority, Target, Timing
from duly.domain.lifecycle import JobState, Outcome, State
from duly.domain.overlap import Overlap, OverlapPolicy
from duly.domain.retry import Backoff, RetryPolicy
from duly.domain.shards import SHARDS, shard_of
from duly.ports.store import ExecutionFilter, FireReport, Idempotency, LossReport, NewJob, PromoteReport, Reschedule, WorkerAbout
from duly.usecases.executions import Wanted, headers
from tests.conformance.ledger import raw

# Noon of a day far from any partition that a test makes by accident.
START: Instant = 20_000 * DAY + 12 * HOUR
TTL: Micros = 15 * SECOND
NOW_OR_LATER = 1 << 30

# Waits are exact and short, so that a test can say when a retry is due.
RETRIES = RetryPolicy(max_attempts=3, backoff=Backoff.FIXED, initial_delay=10 * SECOND, jitter=0.0, max_losses=3)


class Clock:
    """One time for all who share it."""

    def __init__(self, now: Instant = START) -> None:
        self.now = now


class World:
    """A store, its clock, and the epochs under which this dispatcher holds every shard."""

    def __init__(self, engine: Engine, now: Instant = START, seed: int = 1, clock: Clock | None = None) -> None:
        self.engine = engine
        self.store = store_on(engine)
        self.clock = clock or Clock(now)
        self.epochs: dict[int, int] = {}
        self.chance = random.Random(seed)
        self._numbers = itertools.count(1)
        self._versions: dict[int, JobVersion] = {}

    @property
    def now(self) -> Instant:
        return self.clock.now

    def turn(self, by: Micros) -> Instant:
        """Turn the clock on."""
        self.clock.now += by
        return self.now

    def ids(self, count: int) -> list[UUID]:
        return new_ids(count, self.now, self.chance.getrandbits)

    # ------------------------------------------------------------ jobs

    def spec(self, name: str | None = None, **changes: Any) -> JobSpec:
        """An on-demand job of this name; `every` makes it fire, `overlap`, `catch_up` and `priority` take the enum."""
        every, at, pool = changes.pop("every", None), changes.pop("at", None), changes.pop("pool", "default")
        timing = Timing()
        if every is not None:
            timing = Timing(type=JobType.INTERVAL, every=every, anchor=changes.pop("anchor", self.now))
        elif at is not None:
            timing = Timing(type=JobType.ONE_TIME, run_at=at)
        overlap = changes.pop("overlap", OverlapPolicy.ALLOW)
        catch_up = changes.pop("catch_up", CatchUpPolicy.LATEST)
        grace = changes.pop("grace", MINUTE)
        return JobSpec(
            name=name or f"job-{next(self._numbers)}",
            timing=timing,
            target=Target(pool=pool, handler=changes.pop("handler", "noop"), requires=changes.pop("requires", {})),
            retry=changes.pop("retry", RETRIES),
            priority=changes.pop("priority", Priority.NORMAL),
            overlap=Overlap(
                policy=overlap,
                max_queued=changes.pop("max_queued", 100),
                max_running=changes.pop("max_running", None),
                grace=changes.pop("kill_grace", 10 * SECOND),
            ),
            catch_up=CatchUp(policy=catch_up, grace=grace),
            **changes,
        )

    def new_job(self, spec: JobSpec, *, tenant: int = 1, next_fire_at: Instant | None = None) -> NewJob:
        if next_fire_at is None and spec.timing.type is not JobType.ON_DEMAND:
            next_fire_at = spec.timing.anchor or spec.timing.run_at
        run_id = self.ids(1)[0]
        return NewJob(run_id, tenant, spec, shard_of(run_id), next_fire_at)

    async def job(self, name: str | None = None, *, tenant: int = 1, **changes: Any) -> Job:
        """Create a job. A schedule's first fire is now."""
        made = self.new_job(self.spec(name, **changes), tenant=tenant)
        await self.store.definitions.create_jobs([([made], None)], self.now)
        return await self.read(made.id, tenant)

    async def jobs(self, count: int, **changes: Any) -> list[Job]:
        """Create many at once."""
        made = [self.new_job(self.spec(**changes)) for _ in range(count)]
        await self.store.definitions.create_jobs([(made, None)], self.now)
        return [await self.read(job.id) for job in made]

    async def read(self, job_id: JobId, tenant: int = 1) -> Job:
        found = await self.store.definitions.job(tenant, job_id)
        assert found is not None
        return found

    async def pause(self, job: Job, reason: str | None = None) -> bool:
        return await self.store.definitions.set_state(job.version.tenant, job.id, JobState.PAUSED, None, reason, self.now)

    async def resume(self, job: Job, next_fire_at: Instant | None = None) -> bool:
        return await self.store.definitions.set_state(job.version.tenant, job.id, JobState.ACTIVE, next_fire_at, None, self.now)

    async def cancel_job(self, job: Job) -> bool:
        return await self.store.definitions.set_state(job.version.tenant, job.id, JobState.CANCELLED, None, None, self.now)

    async def change(self, job: Job, reschedule: Reschedule | None = None, expected: int | None = None, **changes: Any) -> bool:
        """Give the job a new version that differs in these fields."""
        spec = replace(job.version.spec, **changes)
        return await self.store.definitions.new_version(job.version.tenant, job.id, spec, reschedule, expected, self.now)

    async def add_tenant(self, number: int, weight: int = 100) -> int:
        await raw(self.engine, f"INSERT INTO tenants (tenant, name, weight) VALUES ({number}, 'tenant-{number}', {weight})")
        return number

    # ------------------------------------------------------------ intake

    def new_executions(self, job: Job, count: int, *, due_in: Micros = 0, payload: str | None = None) -> list[NewExecution]:
        return headers(job, [Wanted(payload, delay=due_in)] * count, self.now, self.chance.getrandbits)

    async def enqueue(self, job: Job, count: int = 1, *, due_in: Micros = 0, payload: str | None = None) -> list[ExecutionId]:
        made = self.new_executions(job, count, due_in=due_in, payload=payload)
        assert (await self.store.intake.enqueue(made, self.now)).new == count
        return [execution.id for execution in made]

    def key(self, text: str, body: bytes = b"body", lasts: Micros = DAY) -> Idempotency:
        return Idempotency(text, body, self.now + lasts)

    # ------------------------------------------------------------ dispatch

    async def own_shards(self, owner: str = "dispatcher") -> dict[int, int]:
        """Take every shard under new epochs, in one statement: 64 calls would be most of a test's time."""
        await raw(
            self.engine, f"UPDATE shards SET epoch = epoch + 1, owner = '{owner}', lease_until = {self.now + DAY}, progress_at = {self.now}"
        )
        self.epochs = {lease.shard: lease.epoch for lease in await self.store.leases.shards()}
        return self.epochs

    async def decide(self, limit: int = 1000) -> decide.Firing:
        """What is due now, decided as a dispatcher decides."""
        due = await self.store.schedules.due_schedules(range(SHARDS), self.now, limit)
        versions = await self.store.definitions.versions(sorted({item.version for item in due}))
        return decide.fires(due, versions, self.now)

    async def fire(self, firing: decide.Firing | None = None, epochs: dict[int, int] | None = None) -> FireReport:
        """Fire what is due now."""
        if not self.epochs:
            await self.own_shards()
        return await self.store.schedules.fire(firing or await self.decide(), self.epochs if epochs is None else epochs, self.now)

    async def promote(self, limit: int = 1000) -> PromoteReport:
        if not self.epochs:
            await self.own_shards()
        return await self.store.schedules.promote(self.epochs, self.now, limit)

    # ------------------------------------------------------------ work

    async def worker(self, name: str = "worker", *, ttl: Micros = TTL, **about: Any) -> int:
        return await self.store.liveness.register(name, WorkerAbout(pool="default", **about), self.now, ttl)

    async def claim(self, worker: int, quota: int = NOW_OR_LATER, *, of: Sequence[Job] = ()) -> Claimed | None:
        """Claim from the routes of these jobs; from every (route, tenant) that has work when none is named."""
        if of:
            asks = [Ask(job.version.route, job.version.tenant, quota) for job in of]
        else:
            routes = [route.number for route in await self.store.ready.routes()]
            asks = [Ask(work.route, work.tenant, quota) for work in await self.store.ready.work(routes, 10)]
        return await self.store.ready.claim(worker, asks, self.now)

    async def claimed(self, worker: int, quota: int = NOW_OR_LATER, *, of: Sequence[Job] = ()) -> Claimed:
        """The same, when there must be something."""
        claimed = await self.claim(worker, quota, of=of)
        assert claimed is not None
        return claimed

    async def version(self, number: int) -> JobVersion:
        if number not in self._versions:
            self._versions |= await self.store.definitions.versions([number])
        return self._versions[number]

    async def ended(self, claimed: Claimed, outcome: Outcome, only: Iterable[ExecutionId] | None = None, **changes: Any) -> list[Finished]:
        """How the worker reports the claimed executions when each ends so; decided as a worker decides."""
        wanted = set(claimed.ids if only is None else only)
        reports: list[Finished] = []
        for nth, run_id in enumerate(claimed.ids):
            if run_id not in wanted:
                continue
            version = await self.version(claimed.job_versions[nth])
            error = None if outcome is Outcome.SUCCEEDED else f'{{"message":"{outcome.name.lower()}"}}'
            state, retry_at = self._verdict(version, claimed, nth, outcome)
            report = Finished(
                id=run_id,
                lease=claimed.lease,
                outcome=outcome,
                state=state,
                started_at=self.now,
                finished_at=self.now,
                job_id=version.job_id,
                shard=shard_of(version.job_id),
                holds_place=claimed.holds_place[nth],
                result='"done"' if outcome is Outcome.SUCCEEDED else None,
                error=error,
                retry_at=retry_at,
            )
            reports.append(replace(report, **changes))
        return reports

    def _verdict(self, version: JobVersion, claimed: Claimed, nth: int, outcome: Outcome) -> tuple[State, Instant | None]:
        match outcome:
            case Outcome.SUCCEEDED:
                return State.SUCCEEDED, None
            case Outcome.CANCELLED:
                return State.CANCELLED, None
            case Outcome.RELEASED:
                # Back to where it stood: due since its own time.
                return State.SCHEDULED, claimed.due_ats[nth]
            case _:
                verdict = decide.after_failure(version.spec.retry, claimed.failures[nth], self.now, 0.5, error="{}")
                return verdict.state, verdict.retry_at

    async def finish(
        self, worker: int, claimed: Claimed, outcome: Outcome = Outcome.SUCCEEDED, only: Iterable[ExecutionId] | None = None, **changes: Any
    ) -> set[ExecutionId]:
        """Report them all (or only these) as ended so, and close the lease; answers what was refused."""
        reports = await self.ended(claimed, outcome, only, **changes)
        return await self.store.outcomes.finish(worker, reports, [claimed.lease], self.now)

    async def run(self, outcome: Outcome = Outcome.SUCCEEDED, *, of: Sequence[Job] = ()) -> list[ExecutionId]:
        """A worker comes, runs all that is ready, reports it so and leaves."""
        worker = await self.worker()
        claimed = await self.claim(worker, of=of)
        if claimed is not None:
            assert await self.finish(worker, claimed, outcome) == set()
        await self.store.liveness.retire(worker, self.now)
        return [] if claimed is None else claimed.ids

    # ------------------------------------------------------------ losses and cancels

    async def lose(self, limit: int = 1000) -> LossReport:
        """Bury who is past his time, and take his leases away."""
        await self.store.losses.bury_workers(self.now)
        return await self.store.losses.lose(self.after_loss, self.now, limit)

    def after_loss(self, lost: Lost, version: JobVersion | None) -> Verdict:
        return decide.after_loss(lost, None if version is None else version.spec.retry, self.now)

    async def cancel(self, *ids: ExecutionId, tenant: int = 1, kill_after: Micros | None = None) -> dict[ExecutionId, State]:
        return await self.store.cancels.cancel(tenant, ids, "somebody", self.now, kill_after)

    async def wish(self, run_id: ExecutionId) -> None:
        """The first half of a cancel: the wish is committed, and the process dies."""
        name, params = ("ask_cancels", {"ids": [run_id]}) if self.engine.name == "postgres" else ("ask_cancel", {"id": run_id})
        await self.engine.fetch(name, params | {"tenant": 1, "by": "somebody", "now": self.now, "kill_at": None})

    # ------------------------------------------------------------ reading

    async def execution(self, run_id: ExecutionId, tenant: int = 1) -> Any:
        found = await self.store.insights.execution(tenant, run_id)
        assert found is not None
        return found

    async def state(self, run_id: ExecutionId) -> State:
        return (await self.execution(run_id)).state

    async def states(self, ids: Iterable[ExecutionId]) -> list[State]:
        return [await self.state(run_id) for run_id in ids]

    async def outcomes_of(self, run_id: ExecutionId) -> list[Outcome | None]:
        """How its attempts ended, first to last; None for one that runs."""
        return [attempt.outcome for attempt in await self.store.insights.attempts(run_id)]

    async def of_job(self, job: Job) -> list[Any]:
        """The job's executions, oldest first."""
        found = await self.store.insights.executions(ExecutionFilter(job.version.tenant, job_id=job.id, limit=1000))
        return found[::-1]
