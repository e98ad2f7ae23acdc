"""Executions: enqueue, run now, replay, cancel, show, list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from duly.domain.access import Actor
from duly.domain.audit import Deed, on_batch, on_execution
from duly.domain.bulk import Candidate
from duly.domain.errors import Conflict, DulyError, NotFound, TooLarge, TooMany
from duly.domain.execution import Attempt, Execution, LogLine, NewExecution
from duly.domain.ids import ExecutionId, JobId, execution_text, new_ids
from duly.domain.instants import Instant, Micros, to_rfc3339
from duly.domain.job import HEAD_STARTS, Job
from duly.domain.lifecycle import JobState, State, Trigger, is_final
from duly.domain.limits import gates_of, unique_key
from duly.domain.secrets import check_json
from duly.domain.shards import shard_of
from duly.domain.tenants import NO_QUOTAS, Quotas, check_payload, tenant_gates
from duly.ports.clock import Clock, Entropy
from duly.ports.store import Cancels, ExecutionFilter, Idempotency, Insights, Intake
from duly.ports.traces import carried
from duly.ports.transport import Transport
from duly.usecases.coalesce import Coalescer
from duly.usecases.deeds import enqueued
from duly.usecases.jobs import Jobs
from duly.usecases.quotas import Directory
from duly.usecases.signatures import Signatures
from duly.usecases.wanted import Wanted as Wanted

# A call with so many executions shares its commit with calls of its kind only.
MANY = 200


class _Submission(NamedTuple):
    """What one call asks for."""

    new: Sequence[NewExecution]
    deed: Deed | None


def _size(submission: _Submission) -> int:
    return len(submission.new)


class Executions:
    """The use cases on executions. `sealed`: the store encrypts payloads, so they may have secret values in them."""

    def __init__(
        self,
        jobs: Jobs,
        intake: Intake,
        cancels: Cancels,
        insights: Insights,
        quotas: Directory,
        clock: Clock,
        entropy: Entropy,
        transport: Transport,
        *,
        sealed: bool = False,
    ) -> None:
        self._jobs = jobs
        self._quotas = quotas
        self._intake = intake
        self._cancels = cancels
        self._insights = insights
        self._clock = clock
        self._entropy = entropy
        self._transport = transport
        self._sealed = sealed
        self._signatures = Signatures(insights, clock)
        self._enqueues: Coalescer[_Submission, dict[ExecutionId, ExecutionId]] = Coalescer(self._flush, most=5_000, weigh=_size)
        # Whoever brings one must not wait behind somebody's thousands.
        self._bulk: Coalescer[_Submission, dict[ExecutionId, ExecutionId]] = Coalescer(self._flush, most=5_000, weigh=_size)
        # Tenants with quotas share commits with nobody else: what they wait for, nobody else has to.
        self._bounded: dict[int, Coalescer[_Submission, TooMany | TooLarge | dict[ExecutionId, ExecutionId]]] = {}

    async def enqueue(
        self, actor: Actor, job_id: JobId, wanted: Sequence[Wanted], idempotency: Idempotency | None = None
    ) -> list[NewExecution]:
        """Enqueue all or none; concurrent calls share a commit. Acknowledged means committed.

        A payload that none of the workers that are there would take is refused (DULY-E117).
        """
        job = await self._jobs.show(actor, job_id)
        try:
            await self._signatures.check(job, [want.payload for want in wanted])
            return await self.enqueue_for(job, wanted, idempotency, actor=actor)
        except DulyError:
            earlier = await self._made_with(actor, idempotency)
            if earlier is None:
                raise
            return earlier

    async def enqueue_for(
        self, job: Job, wanted: Sequence[Wanted], idempotency: Idempotency | None = None, *, actor: Actor | None = None
    ) -> list[NewExecution]:
        """The same for a job that was read before. Without an actor nobody asked, and nothing is recorded of it."""
        _refuse_cancelled(job)
        new = await self.headers(job, wanted)
        return await self.submit(new, idempotency, deed=None if actor is None else enqueued(actor, self._clock.now(), new))

    async def _made_with(self, actor: Actor, idempotency: Idempotency | None) -> list[NewExecution] | None:
        """What the first request with this key has made, for a repeat that would be refused by now; None when there was none."""
        ids = await self._jobs.made_with(actor, idempotency)
        return None if ids is None else [_as_asked(await self.show(actor, id)) for id in ids]

    async def headers(self, job: Job, wanted: Sequence[Wanted]) -> list[NewExecution]:
        """The headers of what is wanted, within what the job's tenant may use, not written yet."""
        return headers(job, wanted, self._clock.now(), self._entropy, await self._quotas.of(job.version.tenant))

    async def submit(
        self, new: Sequence[NewExecution], idempotency: Idempotency | None = None, *, deed: Deed | None = None
    ) -> list[NewExecution]:
        """Write headers that were made before, and the deed that they are. What stands for another, because of its key, has that
        one's id in the answer.

        Raises TooMany past the tenant's quotas, TooLarge for what could never fit into them; then nothing of it is written.
        """
        now = self._clock.now()
        self._check(new)
        if idempotency is None:
            submission = _Submission(new, deed)
            if _is_bounded(new[0]):
                instead = await self._write_bounded(submission)
            else:
                instead = await (self._enqueues if len(new) < MANY else self._bulk).add(submission)
            made = [item._replace(id=instead[item.id], is_duplicate=True) if item.id in instead else item for item in new]
        else:
            ids = await self._intake.enqueue_once(new[0].tenant, new, idempotency, now, deed)
            made = [item if item.id == id else item._replace(id=id) for item, id in zip(new, ids, strict=True)]
        await self.hint(new, now)
        return made

    async def _flush(self, submissions: Sequence[_Submission]) -> list[dict[ExecutionId, ExecutionId]]:
        new = [item for submission in submissions for item in submission.new]
        deeds = [submission.deed for submission in submissions if submission.deed is not None]
        report = await self._intake.enqueue(new, self._clock.now(), deeds)
        return [report.instead] * len(submissions)

    async def _write_bounded(self, submission: _Submission) -> dict[ExecutionId, ExecutionId]:
        tenant = submission.new[0].tenant
        if tenant not in self._bounded:
            self._bounded[tenant] = Coalescer(self._flush_bounded, most=5_000, weigh=_size)
        answer = await self._bounded[tenant].add(submission)
        if isinstance(answer, TooMany | TooLarge):
            raise answer
        return answer

    async def _flush_bounded(self, submissions: Sequence[_Submission]) -> list[TooMany | TooLarge | dict[ExecutionId, ExecutionId]]:
        calls = [submission.new for submission in submissions]
        if not any(call[0].within_quota for call in calls):
            return [*await self._flush(submissions)]
        deeds = [submission.deed for submission in submissions if submission.deed is not None]
        done = await self._intake.enqueue_within(calls, self._clock.now(), deeds)
        return [done.instead if refusal is None else refusal for refusal in done.refusals]

    async def hint(self, new: Sequence[NewExecution], now: Instant) -> None:
        """Tell workers and dispatchers about what was just written."""
        routes = {item.route for item in new if item.due_at <= now}
        if routes:
            await self._transport.announce(sorted(routes))
        later = min((item.due_at for item in new if item.due_at > now), default=None)
        if later is not None:
            await self._transport.announce_due(later)

    async def replay(self, actor: Actor, id: ExecutionId, payload: str | None, idempotency: Idempotency | None = None) -> NewExecution:
        """Run a final execution again, as a new one of the job's present version, with its own payload or another."""
        try:
            job, wanted = await self._replayed(actor, id, payload)
            new = await self.headers(job, [wanted])
            deed = on_execution(actor, self._clock.now(), "execution.replay", id, job.id, executions=[item.id for item in new])
            return (await self.submit(new, idempotency, deed=deed))[0]
        except DulyError:
            earlier = await self._made_with(actor, idempotency)
            if earlier is None:
                raise
            return earlier[0]

    async def replay_of(self, actor: Actor, id: ExecutionId, payload: str | None) -> NewExecution:
        """The same execution, not written yet: for those who write more in the same transaction."""
        job, wanted = await self._replayed(actor, id, payload)
        new = await self.headers(job, [wanted])
        self._check(new)
        return new[0]

    def _check(self, new: Sequence[NewExecution]) -> None:
        for nth, item in enumerate(new):
            try:
                self.check_payload(item.payload)
            except DulyError as error:
                if len(new) > 1:
                    error.field = f"executions[{nth}].{error.field}"
                raise

    async def check_size(self, actor: Actor, payload: str | None) -> None:
        """Refuse one that is larger than the tenant may send (DULY-E404)."""
        check_payload(await self._quotas.of(actor.tenant), payload)

    def check_payload(self, payload: str | None) -> None:
        """Refuse one whose secrets are malformed (DULY-E141), would be stored in clear (DULY-E142) or cannot be read (DULY-E143)."""
        if payload is not None:
            check_json(payload, "payload", values=self._sealed)

    async def _replayed(self, actor: Actor, id: ExecutionId, payload: str | None) -> tuple[Job, Wanted]:
        past = await self.show(actor, id)
        if past.run is not None:
            hint = f"Do its run again: duly workflow retry {execution_text(past.run)}."
            raise Conflict("DULY-E293", f"{execution_text(id)} is a step of a run.", field="executionId", hint=hint)
        if not is_final(past.state):
            raise Conflict(
                "DULY-E212",
                f"{execution_text(id)} is {past.state.name}.",
                field="executionId",
                hint="Only a final execution can be replayed.",
            )
        job = await self._jobs.show(actor, past.job_id)
        _refuse_cancelled(job)
        if payload is not None:
            await self._signatures.check(job, [payload])
        return job, Wanted(payload=payload if payload is not None else past.payload, trigger=Trigger.REPLAY)

    async def cancel(self, actor: Actor, id: ExecutionId) -> Execution:
        """Ask it to stop: at once when it waits; when it runs its worker is told, and ends it after the job's grace if it has not
        stopped by then. Cancelling twice is a no-op."""
        before = await self.show(actor, id)
        if before.state is State.CANCELLED:
            return before
        if is_final(before.state):
            raise Conflict(
                "DULY-E211",
                f"{execution_text(id)} is {before.state.name} already.",
                field="executionId",
                hint="A final execution cannot be cancelled.",
            )
        grace = await self._jobs.stop_grace(before.job_version)
        now = self._clock.now()
        deed = on_execution(actor, now, "execution.cancel", id, before.job_id, before={"state": before.state.name})
        # What is asked for; what comes of it, the execution shows.
        deed = deed._replace(after={"cancelAskedAt": to_rfc3339(now)})
        stands = await self._cancels.cancel(actor.tenant, [id], actor.key_id, now, grace, deed=deed)
        if stands.get(id) is State.RUNNING:
            await self._transport.announce_cancel()
        after = await self.show(actor, id)
        if is_final(after.state) and after.state is not State.CANCELLED and stands.get(id) is not State.RUNNING:
            raise Conflict("DULY-E211", f"{execution_text(id)} was faster: it is {after.state.name}.", field="executionId")
        return after

    async def cancel_each(self, actor: Actor, batch: UUID, found: Sequence[Candidate], now: Instant) -> int:
        """Ask each to stop, for a batch, with the grace that its own version of the job gives it; answers how many were reached."""
        by_grace: dict[Micros | None, list[ExecutionId]] = {}
        for candidate in found:
            by_grace.setdefault(await self._jobs.stop_grace(candidate.job_version), []).append(candidate.id)
        stands: list[State] = []
        for grace, ids in by_grace.items():
            deed = on_batch(actor, now, "execution.cancel", batch)
            stands += (await self._cancels.cancel(actor.tenant, ids, actor.key_id, now, grace, deed=deed)).values()
        if State.RUNNING in stands:
            await self._transport.announce_cancel()
        return sum(state in (State.CANCELLED, State.RUNNING) for state in stands)

    async def show(self, actor: Actor, id: ExecutionId) -> Execution:
        """The execution, or NotFound: a foreign tenant's is not there."""
        found = await self._insights.execution(actor.tenant, id)
        if found is None:
            raise NotFound("DULY-E205", f"There is no execution {execution_text(id)}.", field="executionId")
        return found

    async def find(self, wanted: ExecutionFilter) -> list[Execution]:
        """Newest first."""
        return await self._insights.executions(wanted)

    async def attempts(self, actor: Actor, id: ExecutionId) -> list[Attempt]:
        """Every attempt, first to last."""
        await self.show(actor, id)
        return await self._insights.attempts(id)

    async def logs(self, actor: Actor, id: ExecutionId, attempt: int | None, after: int, limit: int) -> list[tuple[int, int, LogLine]]:
        """(sequence, attempt, line), in order, past the sequence number `after`."""
        await self.show(actor, id)
        return await self._insights.logs(id, attempt, after, limit)


def headers(job: Job, wanted: Sequence[Wanted], now: Instant, entropy: Entropy, quotas: Quotas = NO_QUOTAS) -> list[NewExecution]:
    """The headers of what is wanted, with ids in order. `quotas` are those of the job's tenant."""
    shard, trace = shard_of(job.id), carried()
    return [_header(id, job, shard, want, now, quotas, trace) for id, want in zip(new_ids(len(wanted), now, entropy), wanted, strict=True)]


def _header(id: ExecutionId, job: Job, shard: int, want: Wanted, now: Instant, quotas: Quotas, trace: str | None) -> NewExecution:
    """The header of an execution that somebody wants, of the job's present version, with the gates it passes and the key it needs."""
    version, spec = job.version, job.version.spec
    check_payload(quotas, want.payload)
    due_at = want.run_at if want.run_at is not None else now + (want.delay or 0)
    head_start = version.head_start if want.priority is None else HEAD_STARTS[want.priority]
    payload = spec.payload if want.payload is None else want.payload
    gates = gates_of(spec.limits, version.tenant, job.id, spec.name, payload) if spec.limits.gated else ()
    unique = spec.limits.unique if want.trigger is Trigger.ENQUEUE else None
    return NewExecution(
        id=id,
        job_id=job.id,
        job_version=version.number,
        tenant=version.tenant,
        route=version.route,
        shard=shard,
        trigger=want.trigger,
        due_at=due_at,
        rank=due_at - head_start,
        payload=want.payload,
        scheduled_at=want.scheduled_at,
        gates=gates if quotas is NO_QUOTAS else gates + tenant_gates(version.tenant, quotas),
        unique=None if unique is None else (unique_key(unique, job.id, payload), None if unique.window is None else now + unique.window),
        batch=want.batch,
        within_quota=quotas.bounds_intake,
        trace=trace,
    )


def _as_asked(execution: Execution) -> NewExecution:
    """An execution that is there, for whoever asks for it once more: who it is. Nothing is written from it."""
    due_at, job_id = execution.due_at, execution.job_id
    return NewExecution(
        execution.id, job_id, execution.job_version, execution.tenant, 0, shard_of(job_id), execution.trigger, due_at, rank=due_at
    )


def _is_bounded(new: NewExecution) -> bool:
    """Whether its tenant has quotas that it meets on its way in."""
    return new.within_quota or (bool(new.gates) and new.gates[-1].kept)


def _refuse_cancelled(job: Job) -> None:
    if job.state is JobState.CANCELLED:
        raise Conflict("DULY-E210", "The job is cancelled.", field="state", hint="Create a new one.")
