"""The worker protocol: what workers ask that reach the store through the API.

A worker is bound to the tenant of the key that registered it, takes that tenant's work only, and may write
about nothing but executions under its own leases. Everything may be repeated: an answer that was lost on the
way is read from the ledger again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from duly.domain import decide
from duly.domain.access import Actor
from duly.domain.errors import Conflict, DulyError, NotFound
from duly.domain.execution import Claimed, Finished, LeaseId, LogLine, Saved, Stop, WorkerId
from duly.domain.fairness import share_out
from duly.domain.ids import ExecutionId, execution_text
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.job import JobVersion, satisfies
from duly.domain.lifecycle import COSTS_AN_ATTEMPT, Outcome, State
from duly.domain.shards import shard_of
from duly.ports.clock import Clock, Entropy
from duly.ports.desk import Ended, Held, Member
from duly.ports.store import Store, WorkerAbout, WorkerRow
from duly.ports.transport import Transport

COUNTED_TO = 64
MOST_VERSIONS = 100_000
# A version that this release cannot read belongs to a newer one: back to the queue, for a while.
UNREADABLE_WAIT: Micros = 10 * SECOND
CANCELLED = '{"reason":"cancelled"}'


@dataclass(frozen=True, slots=True)
class Leased:
    """A batch under one lease, with the versions of its jobs by number and what its executions keep from earlier attempts."""

    claimed: Claimed
    versions: dict[int, JobVersion]
    saved: dict[ExecutionId, Saved]
    losses: dict[ExecutionId, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The end of one attempt, as a worker tells it. Lengths of time only; `ago` is how long ago it ended."""

    id: ExecutionId
    lease: LeaseId
    outcome: Outcome
    result: str | None = None
    error: str | None = None
    retry: bool = True
    retry_after: Micros | None = None
    took: Micros | None = None
    ago: Micros = 0


@dataclass(frozen=True, slots=True)
class Reported:
    """Where the execution stands after a report, or why the report was refused."""

    id: ExecutionId
    ended: Ended | None
    refusal: DulyError | None = None


class Workers:
    """The use cases of workers over HTTP. `ttl` is how long one lives without a heartbeat unless it asks for another time."""

    def __init__(self, store: Store, clock: Clock, entropy: Entropy, transport: Transport, ttl: Micros) -> None:
        self._store = store
        self._clock = clock
        self._entropy = entropy
        self._transport = transport
        self._ttl = ttl
        self._known: dict[int, JobVersion] = {}

    def lifetime(self, asked: Micros | None) -> Micros:
        """How long a worker lives without a heartbeat."""
        return self._ttl if asked is None else asked

    def trust(self, ttl: Micros) -> Micros:
        """How long it may believe so itself: a margin less, so that it stops before its work is given away."""
        return ttl - ttl * 2 // 15

    async def register(self, actor: Actor, name: str, about: WorkerAbout, ttl: Micros | None) -> WorkerId:
        """A new worker for the work of the actor's tenant."""
        return await self._store.liveness.register(name, about, self._clock.now(), self.lifetime(ttl), actor.tenant)

    async def heartbeat(self, actor: Actor, worker: WorkerId, ttl: Micros | None) -> list[Stop]:
        """Live on; answers what was asked to stop. Raises NotFound with DULY-E222 when the worker is lost for good."""
        await self._row(actor, worker)
        stops = await self._store.liveness.renew(worker, self._clock.now(), self.lifetime(ttl))
        if stops is None:
            raise _lost()
        return stops

    # ------------------------------------------------------------ taking work

    async def lease(self, actor: Actor, worker: WorkerId, most: int, known: Iterable[LeaseId]) -> Leased | None:
        """A lease that the worker has and does not know of (its answer was lost), else a new one; None when nothing is ready."""
        row = await self._row(actor, worker)
        if row.lost_at is not None or row.expires_at <= self._clock.now():
            raise _lost()
        unheard = sorted(set(await self._store.desk.leases(worker)) - set(known))
        if unheard:
            for claimed in await self._store.ready.held_by(worker):
                if claimed.lease in unheard and (leased := await self._leased(worker, claimed)) is not None:
                    return leased
        if row.about.draining:
            return None
        claimed_now = await self._claim(row, most)
        return None if claimed_now is None else await self._leased(worker, claimed_now)

    async def wait(self, seconds: float) -> None:
        """Until something may be ready, or the time has passed."""
        await self._transport.wait_ready(seconds)

    async def _claim(self, row: WorkerRow, most: int) -> Claimed | None:
        about = row.about
        offered = set(about.handlers)
        routes = [
            route.number
            for route in await self._store.ready.routes()
            if route.pool == about.pool and route.handler in offered and satisfies(about.labels, route.labels)
        ]
        if not routes:
            return None
        work = [item for item in await self._store.ready.work(routes, COUNTED_TO) if item.tenant == row.tenant]
        # One tenant: what is shared is shared among its routes, oldest head first, and no credit is carried.
        asks = share_out(most, work, {}, counted_to=COUNTED_TO)
        return await self._store.ready.claim(row.id, asks, self._clock.now()) if asks else None

    async def _leased(self, worker: WorkerId, claimed: Claimed) -> Leased | None:
        versions = await self._versions(claimed.job_versions)
        readable = [nth for nth, number in enumerate(claimed.job_versions) if number in versions]
        if len(readable) < len(claimed.ids):
            await self._give_back(worker, claimed, [nth for nth in range(len(claimed.ids)) if nth not in readable])
            claimed = claimed.part(readable)
        again = [id for id, attempt in zip(claimed.ids, claimed.attempts, strict=True) if attempt > 1]
        saved = await self._store.checkpoints.saved(again) if again else {}
        losses = {id: await self._store.outcomes.losses(id) for id in again}
        return Leased(claimed, versions, saved, losses) if claimed.ids else None

    async def _give_back(self, worker: WorkerId, claimed: Claimed, unreadable: Sequence[int]) -> None:
        """What a newer release wrote and this one cannot read is for others: back to the queue, for a while."""
        now = self._clock.now()
        released = [
            Finished(id, claimed.lease, Outcome.RELEASED, State.SCHEDULED, now, now, UUID(int=0), 0, False, retry_at=now + UNREADABLE_WAIT)
            for id in claimed.part(unreadable).ids
        ]
        await self._store.desk.settle(worker, released, [], now)

    async def _versions(self, numbers: Iterable[int]) -> dict[int, JobVersion]:
        unknown = sorted(set(numbers) - self._known.keys())
        if unknown:
            if len(self._known) > MOST_VERSIONS:
                self._known.clear()
                unknown = sorted(set(numbers))
            self._known |= await self._store.definitions.versions(unknown)
        return self._known

    # ------------------------------------------------------------ reporting

    async def report(self, actor: Actor, worker: WorkerId, reports: Sequence[Report]) -> list[Reported]:
        """Write the ends of attempts; what was written before counts as it was written. One answer each, in order."""
        await self._row(actor, worker)
        now = self._clock.now()
        held = [(report.lease, report.id) for report in reports]
        members = await self._store.desk.members(worker, held)
        versions = await self._versions(member.job_version for member in members.values())
        finished: dict[Held, Finished] = {}
        for report in reports:
            member = members.get((report.lease, report.id))
            if member is not None and member.job_version in versions:
                finished.setdefault((report.lease, report.id), self._finished(report, member, versions[member.job_version], now))
        ended = await self._store.desk.settle(worker, list(finished.values()), held, now)
        touched = await self._touched(worker, [id for lease, id in held if (lease, id) not in ended])
        return [_reported(report, ended.get((report.lease, report.id)), touched) for report in reports]

    async def end(self, actor: Actor, worker: WorkerId, report: Report) -> Ended:
        """The same for one. Raises what refuses it."""
        [reported] = await self.report(actor, worker, [report])
        if reported.refusal is not None:
            raise reported.refusal
        assert reported.ended is not None
        return reported.ended

    def _finished(self, report: Report, member: Member, version: JobVersion, now: Instant) -> Finished:
        ended_at = max(now - report.ago, member.granted_at)
        started_at = member.granted_at if report.took is None else max(ended_at - report.took, member.granted_at)
        state, error, retry_at = self._verdict(report, member, version, now)
        return Finished(
            report.id,
            report.lease,
            report.outcome,
            state,
            started_at,
            ended_at,
            version.job_id,
            shard_of(version.job_id),
            member.holds_place,
            report.result,
            error,
            retry_at,
        )

    def _verdict(self, report: Report, member: Member, version: JobVersion, now: Instant) -> tuple[State, str | None, Instant | None]:
        if report.outcome is Outcome.SUCCEEDED:
            return State.SUCCEEDED, None, None
        if report.outcome is Outcome.CANCELLED:
            return State.CANCELLED, report.error or CANCELLED, None
        if report.outcome not in COSTS_AN_ATTEMPT:
            # Given back: it keeps its place in the queue unless it is to wait.
            return State.SCHEDULED, report.error, member.due_at if report.retry_after is None else now + report.retry_after
        error = report.error or '{"type":"Failure","message":""}'
        chance = self._entropy(53) / (1 << 53)
        verdict = decide.after_failure(version.spec.retry, member.failures, now, chance, error=error, retry=report.retry)
        retry_at = verdict.retry_at
        if retry_at is not None and report.retry_after is not None:
            retry_at = now + report.retry_after
        return verdict.state, verdict.error, retry_at

    async def log(self, actor: Actor, worker: WorkerId, lines: Sequence[tuple[Held, LogLine]]) -> int:
        """Keep lines of attempts that run under the worker's leases; answers how many were kept."""
        await self._row(actor, worker)
        members = await self._store.desk.members(worker, sorted({held for held, _ in lines}))
        kept = [(lease, id, members[lease, id].attempt, line) for (lease, id), line in lines if (lease, id) in members]
        return await self._store.outcomes.append_logs(worker, kept) if kept else 0

    async def checkpoint(self, actor: Actor, worker: WorkerId, held: Held, number: int, data: str) -> None:
        """Keep a checkpoint. Raises Conflict with DULY-E226 when its number does not exceed the last one's."""
        await self._row(actor, worker)
        lease, id = held
        if not await self._store.checkpoints.save(worker, lease, id, number, data, self._clock.now()):
            if held not in await self._store.desk.members(worker, [held]):
                raise await self.refusal(worker, id)
            last = (await self._store.checkpoints.saved([id]))[id].number
            raise Conflict("DULY-E226", f"Checkpoint {number} comes after checkpoint {last}.", field="number")

    async def progress(self, actor: Actor, worker: WorkerId, told: Sequence[tuple[LeaseId, ExecutionId, str]]) -> int:
        """Keep the latest progress of running attempts; answers how many were kept."""
        await self._row(actor, worker)
        latest = list({(lease, id): (lease, id, progress) for lease, id, progress in told}.values())
        return await self._store.checkpoints.report(worker, latest, self._clock.now()) if latest else 0

    async def refusal(self, worker: WorkerId, id: ExecutionId) -> DulyError:
        """Why something about this execution is not taken from this worker."""
        return _refusal(id, await self._touched(worker, [id]))

    # ------------------------------------------------------------ leaving

    async def drain(self, actor: Actor, worker: WorkerId, *, retire: bool) -> int:
        """No more leases; at a retirement what is still held is given back. Answers how many were."""
        row = await self._row(actor, worker)
        if not row.about.draining:
            await self._store.desk.describe(worker, replace(row.about, draining=True))
        if not retire:
            return 0
        released = 0
        for claimed in await self._store.ready.held_by(worker):
            reports = [Report(id=id, lease=claimed.lease, outcome=Outcome.RELEASED) for id in claimed.ids]
            released += sum(1 for reported in await self.report(actor, worker, reports) if reported.refusal is None)
        await self._store.liveness.retire(worker, self._clock.now())
        return released

    # ------------------------------------------------------------ who asks

    async def _row(self, actor: Actor, worker: WorkerId) -> WorkerRow:
        """The worker, if it is of the actor's tenant: a stranger learns nothing, not even that it exists."""
        row = await self._store.desk.worker(worker)
        if row is None or row.tenant != actor.tenant:
            raise NotFound("DULY-E221", "There is no such worker.", field="workerId")
        return row

    async def _touched(self, worker: WorkerId, ids: Sequence[ExecutionId]) -> set[ExecutionId]:
        return await self._store.desk.touched(worker, ids) if ids else set()


def _reported(report: Report, ended: Ended | None, touched: set[ExecutionId]) -> Reported:
    if ended is None:
        return Reported(report.id, None, _refusal(report.id, touched))
    if ended.outcome is not report.outcome:
        told = f"This attempt was reported before as {ended.outcome.name}; that stands."
        return Reported(report.id, ended, Conflict("DULY-E224", told, field="outcome"))
    return Reported(report.id, ended)


def _refusal(id: ExecutionId, touched: set[ExecutionId]) -> DulyError:
    if id in touched:
        return Conflict("DULY-E223", f"This worker no longer holds {execution_text(id)} under that fence.", field="fence")
    return NotFound("DULY-E205", f"This worker holds no execution {execution_text(id)}.", field="executionId")


def _lost() -> NotFound:
    return NotFound("DULY-E222", "This worker is lost: its time ran out, or it has retired.", field="workerId")
