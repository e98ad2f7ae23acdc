"""Backfill: run what a job's schedule named in the past and what did not run then, or not well.

It is a batch like any other bulk action: its executions carry the batch's id, are spaced apart when they are written if a rate is
asked for, pass a gate of the batch's own so that only so many run at a time, and are cancelled by aborting the batch.

Their ids are computed from batch and target. So a request that is repeated with its idempotency key makes up for what a crash has left
out, and makes nothing twice.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from duly.domain.access import Actor
from duly.domain.audit import on_batch
from duly.domain.backfill import BackfillPlan, Rerun, plan_backfill, targets_between
from duly.domain.bulk import Match
from duly.domain.errors import Conflict, Invalid, TooLarge, TooMany
from duly.domain.execution import NewExecution
from duly.domain.ids import ExecutionId, JobId, backfill_id, fire_id, new_id
from duly.domain.instants import Instant, to_rfc3339
from duly.domain.job import Job, Priority
from duly.domain.lifecycle import JobState, State, Trigger
from duly.domain.limits import batch_gate
from duly.domain.spacing import spaced
from duly.ports.clock import Clock, Entropy
from duly.ports.letters import Batch, Letters
from duly.ports.store import Idempotency
from duly.usecases.aborts import is_aborted, stop_if_aborted
from duly.usecases.executions import Executions, Wanted
from duly.usecases.jobs import Jobs

KIND = "backfill"
PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillAsk:
    """What somebody asks for: every target in [first, last]. `payload` is JSON text; None means the job's own."""

    first: Instant
    last: Instant
    rerun: Rerun = Rerun.NONE
    dry_run: bool = False
    rate: float | None = None
    max_concurrent: int = 1
    payload: str | None = None
    priority: Priority = Priority.LOW


@dataclass(frozen=True, slots=True)
class BackfillReport:
    """What is run, what is left alone, and the batch; none after a dry run, or when there is nothing to do."""

    batch: UUID | None
    plan: BackfillPlan


class Backfills:
    """The use case."""

    def __init__(self, jobs: Jobs, executions: Executions, letters: Letters, clock: Clock, entropy: Entropy) -> None:
        self._jobs = jobs
        self._executions = executions
        self._letters = letters
        self._clock = clock
        self._entropy = entropy

    async def start(self, actor: Actor, job_id: JobId, ask: BackfillAsk, idempotency: Idempotency | None = None) -> BackfillReport:
        """Plan it, and unless it is a dry run, do it: oldest first."""
        earlier = await self._jobs.made_with(actor, idempotency)
        if earlier is not None:
            return await self._again(actor, job_id, ask, earlier[0])
        self._executions.check_payload(ask.payload)
        job = await self._jobs.show(actor, job_id)
        if job.state is JobState.CANCELLED:
            raise Conflict("DULY-E210", "The job is cancelled and stays so.", field="state", hint="Create a new one.")
        now = self._clock.now()
        if ask.last > now:
            raise Invalid("DULY-E105", "lies in the future.", field="to", hint="What is to come fires by itself.")
        targets = targets_between(job.version.schedule, ask.first, ask.last)
        stands, _ = await self._stands(actor, job_id, targets, None)
        plan = plan_backfill(targets, stands, ask.rerun)
        if ask.dry_run:
            return BackfillReport(None, plan)
        if not plan.run:
            # Perhaps because the same request was carried out meanwhile: then what stands there is its own.
            earlier = await self._jobs.made_with(actor, idempotency)
            return BackfillReport(None, plan) if earlier is None else await self._again(actor, job_id, ask, earlier[0])
        batch = new_id(now, self._entropy)
        # What cannot be made is refused before there is a batch.
        made = await self._made(job, ask, batch, plan.run, now)
        about: dict[str, Any] = {"from": to_rfc3339(ask.first), "to": to_rfc3339(ask.last), "rerun": ask.rerun.value}
        about |= {"maxConcurrent": ask.max_concurrent} | ({"ratePerSec": ask.rate} if ask.rate else {})
        deed = on_batch(actor, now, "batch.create", batch, job_id, after={"kind": KIND, "total": len(plan.run), **about})
        new = Batch(batch, actor.tenant, KIND, now, actor.key_id, len(plan.run), about, job_id)
        meanwhile = await self._letters.add_batch(new, deed=deed, idempotency=idempotency)
        if meanwhile is not None:
            return await self._again(actor, job_id, ask, meanwhile)
        try:
            await self._enqueue(actor, job, batch, made, now)
        except (TooMany, TooLarge):
            # Refused as a whole.
            await self._letters.drop_batch(batch, deed=on_batch(actor, now, "batch.drop", batch, job_id), idempotency=idempotency)
            raise
        return BackfillReport(batch, plan)

    async def _again(self, actor: Actor, job_id: JobId, ask: BackfillAsk, id: UUID) -> BackfillReport:
        """The answer to a request that was made before, once what it asked for is all there."""
        batch = await self._letters.batch(actor.tenant, id)
        if batch is None:
            raise Conflict("DULY-E207", "What it asked for has come and gone.", field="Idempotency-Key", hint="Use another key.")
        job = await self._jobs.show(actor, job_id)
        targets = targets_between(job.version.schedule, ask.first, ask.last)
        stands, own = await self._stands(actor, job_id, targets, id)
        plan = plan_backfill(targets, stands, ask.rerun)
        if len(own) < batch.total and job.state is not JobState.CANCELLED and not is_aborted(batch):
            made = await self._made(job, ask, id, plan.run, batch.asked_at)
            rest = [item for at, item in zip(plan.run, made, strict=True) if at not in own]
            if rest:
                await self._enqueue(actor, job, id, rest, self._clock.now())
            own |= set(plan.run)
        left = tuple((at, state) for at, state in plan.left if at not in own)
        return BackfillReport(id, BackfillPlan(tuple(sorted(own)), left))

    async def _stands(
        self, actor: Actor, job_id: JobId, targets: list[Instant], own: UUID | None
    ) -> tuple[dict[Instant, list[State]], set[Instant]]:
        """How the runs of these targets stand: their own fires, and what other backfills made. And what this one has made."""
        stands: dict[Instant, list[State]] = defaultdict(list)
        ours: set[Instant] = set()
        by_id = {fire_id(job_id, at): at for at in targets}
        ids: list[ExecutionId] = list(by_id)
        for first in range(0, len(ids), PAGE):
            some = tuple(ids[first : first + PAGE])
            found, _ = await self._letters.candidates(actor.tenant, Match(ids=some), frozenset(State), None, PAGE + 1)
            for candidate in found:
                stands[by_id[candidate.id]].append(candidate.state)
        if targets:
            for batch, at, state in await self._letters.backfilled(actor.tenant, job_id, targets[0], targets[-1]):
                if batch == own:
                    ours.add(at)
                else:
                    stands[at].append(state)
        return stands, ours

    async def _made(self, job: Job, ask: BackfillAsk, batch: UUID, targets: tuple[Instant, ...], now: Instant) -> list[NewExecution]:
        gate = batch_gate(batch, ask.max_concurrent)
        wanted = [
            Wanted(payload=ask.payload, run_at=due_at, priority=ask.priority, trigger=Trigger.BACKFILL, scheduled_at=at, batch=batch)
            for at, due_at in zip(targets, spaced(len(targets), now, ask.rate), strict=True)
        ]
        made = await self._executions.headers(job, wanted)
        return [item._replace(id=backfill_id(batch, at), gates=(gate, *item.gates)) for at, item in zip(targets, made, strict=True)]

    async def _enqueue(self, actor: Actor, job: Job, batch: UUID, made: list[NewExecution], now: Instant) -> None:
        # What a quota may refuse goes in whole or not at all.
        size = len(made) if made[0].within_quota else PAGE
        for first in range(0, len(made), size):
            page = made[first : first + size]
            deed = on_batch(actor, now, "execution.backfill", batch, job.id, executions=[item.id for item in page])
            await self._executions.submit(page, deed=deed)
            if await stop_if_aborted(self._letters, self._executions, actor, batch, self._clock.now()):
                return
