"""Backfill: run what a job's schedule named in the past and what did not run then, or not well.

It is a batch like any other bulk action: its executions carry the batch's id, are spaced apart when they are written if a rate is
asked for, pass a gate of the batch's own so that only so many run at a time, and are cancelled by aborting the batch.
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
from duly.domain.errors import Conflict, Invalid, TooMany
from duly.domain.ids import ExecutionId, JobId, fire_id, new_id
from duly.domain.instants import Instant, to_rfc3339
from duly.domain.job import Job, Priority
from duly.domain.lifecycle import JobState, State, Trigger
from duly.domain.limits import batch_gate
from duly.domain.spacing import spaced
from duly.ports.clock import Clock, Entropy
from duly.ports.letters import Batch, Letters
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

    async def start(self, actor: Actor, job_id: JobId, ask: BackfillAsk) -> BackfillReport:
        """Plan it, and unless it is a dry run, do it: oldest first."""
        self._executions.check_payload(ask.payload)
        job = await self._jobs.show(actor, job_id)
        if job.state is JobState.CANCELLED:
            raise Conflict("DULY-E210", "The job is cancelled and stays so.", field="state", hint="Create a new one.")
        now = self._clock.now()
        if ask.last > now:
            raise Invalid("DULY-E105", "lies in the future.", field="to", hint="What is to come fires by itself.")
        targets = targets_between(job.version.schedule, ask.first, ask.last)
        plan = plan_backfill(targets, await self._stands(actor, job_id, targets), ask.rerun)
        if ask.dry_run or not plan.run:
            return BackfillReport(None, plan)
        batch = new_id(now, self._entropy)
        about: dict[str, Any] = {"from": to_rfc3339(ask.first), "to": to_rfc3339(ask.last), "rerun": ask.rerun.value}
        about |= {"maxConcurrent": ask.max_concurrent} | ({"ratePerSec": ask.rate} if ask.rate else {})
        deed = on_batch(actor, now, "batch.create", batch, job_id, after={"kind": KIND, "total": len(plan.run), **about})
        await self._letters.add_batch(Batch(batch, actor.tenant, KIND, now, actor.key_id, len(plan.run), about, job_id), deed=deed)
        try:
            await self._enqueue(actor, job, ask, batch, plan.run, now)
        except TooMany:
            # Refused as a whole.
            await self._letters.drop_batch(batch, deed=on_batch(actor, now, "batch.drop", batch, job_id))
            raise
        return BackfillReport(batch, plan)

    async def _stands(self, actor: Actor, job_id: JobId, targets: list[Instant]) -> dict[Instant, list[State]]:
        """How the runs of these targets stand: their own fires, and what earlier backfills made."""
        stands: dict[Instant, list[State]] = defaultdict(list)
        by_id = {fire_id(job_id, at): at for at in targets}
        ids: list[ExecutionId] = list(by_id)
        for first in range(0, len(ids), PAGE):
            some = tuple(ids[first : first + PAGE])
            found, _ = await self._letters.candidates(actor.tenant, Match(ids=some), frozenset(State), None, PAGE + 1)
            for candidate in found:
                stands[by_id[candidate.id]].append(candidate.state)
        if targets:
            for at, state in await self._letters.backfilled(actor.tenant, job_id, targets[0], targets[-1]):
                stands[at].append(state)
        return stands

    async def _enqueue(self, actor: Actor, job: Job, ask: BackfillAsk, batch: UUID, targets: tuple[Instant, ...], now: Instant) -> None:
        gate = batch_gate(batch, ask.max_concurrent)
        wanted = [
            Wanted(payload=ask.payload, run_at=due_at, priority=ask.priority, trigger=Trigger.BACKFILL, scheduled_at=at, batch=batch)
            for at, due_at in zip(targets, spaced(len(targets), now, ask.rate), strict=True)
        ]
        made = [item._replace(gates=(gate, *item.gates)) for item in await self._executions.headers(job, wanted)]
        # What a quota may refuse goes in whole or not at all.
        size = len(made) if made[0].within_quota else PAGE
        for first in range(0, len(made), size):
            page = made[first : first + size]
            deed = on_batch(actor, now, "execution.backfill", batch, job.id, executions=[item.id for item in page])
            await self._executions.submit(page, deed=deed)
