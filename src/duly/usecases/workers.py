"""The worker protocol: what workers ask that reach the store through the API.

A worker is bound to the key that registered it and to its tenant, takes that tenant's work only, from a pool that the
key opens, and may write about nothing but executions under its own leases. Everything may be repeated: an answer that was lost on the
way is read from the ledger again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from json import dumps, loads
from typing import NamedTuple, assert_never
from uuid import UUID

from duly.domain import decide
from duly.domain.access import Actor, Role
from duly.domain.audit import Deed
from duly.domain.errors import Conflict, DulyError, Forbidden, NotFound
from duly.domain.execution import Claimed, Finished, LeaseId, LogLine, Lost, Saved, Stop, Verdict, WorkerId
from duly.domain.fairness import share_out, within_rooms
from duly.domain.ids import ExecutionId, execution_text
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.job import JobVersion
from duly.domain.lifecycle import Outcome, State
from duly.domain.recent import Recent
from duly.domain.serving import Needs, check_worker, misfits
from duly.domain.shards import shard_of
from duly.domain.tenants import LARGEST_PAYLOAD
from duly.domain.unreadable import UNREADABLE, Unreadable
from duly.ports.clock import Clock, Entropy
from duly.ports.desk import Ended, Held, Member
from duly.ports.dispatch import Idempotency
from duly.ports.parents import Parent
from duly.ports.store import Store, WorkerAbout, WorkerRow
from duly.ports.transport import Transport
from duly.usecases.log_bounds import LogBounds

COUNTED_TO = 64
# A version that this release cannot read belongs to a newer one: back to the queue, for a while.
UNREADABLE_WAIT: Micros = 10 * SECOND
# So much of payloads and checkpoints in one answer: a client reads 64 MiB at most.
LARGEST_LEASE = 48 << 20
CANCELLED = '{"reason":"cancelled"}'
FAILED = '{"type":"Failure","message":""}'


@dataclass(frozen=True, slots=True)
class Room:
    """What some handlers of a worker share, and how many more could begin in it."""

    handlers: Sequence[str]
    free: int


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
    # The names that the job's retry rules look for.
    kinds: tuple[str, ...] = ()
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


class Told(NamedTuple):
    """How many lines were kept, and how many were not because of the attempt's bounds."""

    kept: int
    dropped: int


class Workers:
    """The use cases of workers over HTTP. `ttl` is how long one lives without a heartbeat unless it asks for another time."""

    def __init__(self, store: Store, clock: Clock, entropy: Entropy, transport: Transport, ttl: Micros) -> None:
        self._store = store
        self._clock = clock
        self._entropy = entropy
        self._transport = transport
        self._ttl = ttl
        self._recent: Recent[JobVersion] = Recent()
        self._bounds = LogBounds(store.logs)

    def lifetime(self, asked: Micros | None) -> Micros:
        """How long a worker lives without a heartbeat."""
        return self._ttl if asked is None else asked

    def trust(self, ttl: Micros) -> Micros:
        """How long it may believe so itself: a margin less, so that it stops before its work is given away."""
        return ttl - ttl * 2 // 15

    async def register(self, actor: Actor, name: str, about: WorkerAbout, ttl: Micros | None, once: Idempotency | None = None) -> WorkerId:
        """A new worker for the work of the actor's tenant. Raises Forbidden (DULY-E304) when its key does not open the pool."""
        check_worker(name, about.pool, about.labels, about.handlers)
        _demand_pool(actor, about.pool)
        now, lasts, family = self._clock.now(), self.lifetime(ttl), actor.family or None
        if once is not None:
            return await self._store.desk.register_once(name, about, now, lasts, actor.tenant, family, once)
        return await self._store.liveness.register(name, about, now, lasts, actor.tenant, family)

    async def heartbeat(self, actor: Actor, worker: WorkerId, ttl: Micros | None, skew: Micros | None = None) -> list[Stop]:
        """Live on, and say anew how far the worker's clock is off; answers what was asked to stop.

        Raises NotFound with DULY-E222 when the worker is lost for good.
        """
        await self._row(actor, worker)
        stops = await self._store.liveness.renew(worker, self._clock.now(), self.lifetime(ttl), skew)
        if stops is None:
            raise _lost()
        return stops

    async def stops(self, worker: WorkerId) -> list[Stop]:
        """The same question without living on: for one who waits for the answer."""
        return await self._store.desk.stops(worker)

    async def wait_stop(self, seconds: float) -> None:
        """Until somebody may have asked something to stop, or the time has passed."""
        await self._transport.wait_cancel(seconds)

    # ------------------------------------------------------------ taking work

    async def lease(self, actor: Actor, worker: WorkerId, most: int, known: Iterable[LeaseId], rooms: Sequence[Room] = ()) -> Leased | None:
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
        claimed_now = await self._claim(row, most, rooms)
        return None if claimed_now is None else await self._leased(worker, claimed_now)

    async def wait(self, seconds: float) -> None:
        """Until something may be ready, or the time has passed."""
        await self._transport.wait_ready(seconds)

    async def _claim(self, row: WorkerRow, most: int, rooms: Sequence[Room]) -> Claimed | None:
        about = row.about
        offered = set(about.handlers)
        routes = [
            route
            for route in await self._store.ready.routes()
            if not misfits(about.pool, about.labels, offered, Needs(route.pool, route.labels, route.handler))
        ]
        if not routes:
            return None
        found = await self._store.ready.work([route.number for route in routes], COUNTED_TO, roughly=True)
        work = [item for item in found if item.tenant == row.tenant]
        if rooms:
            of_handler = {handler: nth for nth, room in enumerate(rooms) for handler in room.handlers}
            room_of = {route.number: of_handler[route.handler] for route in routes if route.handler in of_handler}
            work = within_rooms(work, room_of, {nth: room.free for nth, room in enumerate(rooms)})
        # One tenant: what is shared is shared among its routes, oldest head first, and no credit is carried.
        asks = share_out(most, work, {}, counted_to=COUNTED_TO)
        return await self._store.ready.claim(row.id, asks, self._clock.now()) if asks else None

    async def _leased(self, worker: WorkerId, claimed: Claimed) -> Leased | None:
        versions = await self._versions(claimed.job_versions)
        unknown = [nth for nth, number in enumerate(claimed.job_versions) if number not in versions]
        spoiled = [nth for nth, payload in enumerate(claimed.payloads) if isinstance(payload, Unreadable) and nth not in unknown]
        if unknown or spoiled:
            now = self._clock.now()
            ended = [_given_back(claimed, nth, now, now + UNREADABLE_WAIT) for nth in unknown]
            ended += [_spoiled(claimed, nth, versions[claimed.job_versions[nth]], now) for nth in spoiled]
            await self._store.desk.settle(worker, ended, [], now)
            claimed = claimed.part([nth for nth in range(len(claimed.ids)) if nth not in (*unknown, *spoiled)])
        again = [id for id, attempt in zip(claimed.ids, claimed.attempts, strict=True) if attempt > 1]
        saved = await self._store.checkpoints.saved(again) if again else {}
        losses = {id: await self._store.outcomes.losses(id) for id in again}
        if (fit := _fitting(claimed, versions, saved)) < len(claimed.ids):
            now = self._clock.now()
            surplus = [_given_back(claimed, nth, now, claimed.due_ats[nth]) for nth in range(fit, len(claimed.ids))]
            await self._store.desk.settle(worker, surplus, [], now)
            claimed = claimed.part(range(fit))
        return Leased(claimed, versions, saved, losses) if claimed.ids else None

    async def _versions(self, numbers: Iterable[int]) -> dict[int, JobVersion]:
        wanted = set(numbers)
        if unknown := self._recent.unknown(wanted, self._clock.boottime()):
            self._recent.learn(await self._store.definitions.versions(unknown))
        return self._recent.known(wanted)

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
            held_by_it = (report.lease, report.id)
            member = members.get(held_by_it)
            if member is not None and member.job_version in versions and held_by_it not in finished:
                version = versions[member.job_version]
                verdict = await self._verdict(worker, report, member, version, now)
                finished[held_by_it] = _finished(report, member, version, verdict, now)
        last_words = self._bounds.last_words([(*held_by_it, members[held_by_it].attempt) for held_by_it in finished], now)
        if last_words:
            await self._store.outcomes.append_logs(worker, last_words)
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

    async def _verdict(self, worker: WorkerId, report: Report, member: Member, version: JobVersion, now: Instant) -> Verdict:
        """What becomes of the execution: the job's policy decides, the worker may only ask for less."""
        spec = version.spec
        deadline = None if spec.execution_timeout is None else member.due_at + spec.execution_timeout
        match report.outcome:
            case Outcome.SUCCEEDED:
                return Verdict(State.SUCCEEDED, None, None)
            case Outcome.CANCELLED:
                return Verdict(State.CANCELLED, None, report.error or CANCELLED)
            case Outcome.RELEASED:
                # It keeps its place in the queue unless it is to wait.
                if report.retry_after is None:
                    return Verdict(State.SCHEDULED, member.due_at, report.error)
                return decide.after_snooze(report.retry_after, member.attempt, now, deadline)
            case Outcome.WORKER_LOST:
                lost = await self._loss(worker, report, member, version)
                return decide.after_loss(lost, spec.retry, now, _how(report.error))
            case Outcome.FAILED | Outcome.TIMED_OUT:
                return decide.after_failure(
                    spec.retry,
                    member.failures,
                    now,
                    self._entropy(53) / (1 << 53),
                    error=report.error or FAILED,
                    kinds=report.kinds,
                    retry=report.retry,
                    wait=report.retry_after,
                    deadline=deadline,
                )
            case _:
                assert_never(report.outcome)

    async def _loss(self, worker: WorkerId, report: Report, member: Member, version: JobVersion) -> Lost:
        return Lost(
            id=report.id,
            lease=report.lease,
            worker=worker,
            granted_at=member.granted_at,
            attempt=member.attempt,
            failures=member.failures,
            losses=await self._store.outcomes.losses(report.id),
            # Whoever was asked to stop is final by that: the ledger sees to it.
            cancelled=False,
            job_id=version.job_id,
            job_version=version.number,
            holds_place=member.holds_place,
        )

    async def log(self, actor: Actor, worker: WorkerId, lines: Sequence[tuple[Held, LogLine]]) -> Told:
        """Keep lines of attempts that run under the worker's leases, within what is kept of an attempt."""
        await self._row(actor, worker)
        members = await self._store.desk.members(worker, sorted({held for held, _ in lines}))
        held_lines = [(lease, id, members[lease, id].attempt, line) for (lease, id), line in lines if (lease, id) in members]
        kept, dropped = await self._bounds.admit(held_lines)
        if kept and not await self._store.outcomes.append_logs(worker, kept):
            return Told(0, 0)
        return Told(len(held_lines) - dropped, dropped)

    async def checkpoint(self, actor: Actor, worker: WorkerId, held: Held, number: int, data: str) -> None:
        """Keep a checkpoint. Raises Conflict with DULY-E226 when its number does not exceed the last one's, unless it is that one."""
        await self._row(actor, worker)
        lease, id = held
        if not await self._store.checkpoints.save(worker, lease, id, number, data, self._clock.now()):
            if held not in await self._store.desk.members(worker, [held]):
                raise await self.refusal(worker, id)
            last = (await self._store.checkpoints.saved([id]))[id].number
            told = (
                f"Checkpoint {number} was kept with other data."
                if number == last
                else f"Checkpoint {number} comes after checkpoint {last}."
            )
            raise Conflict("DULY-E226", told, field="number")

    async def progress(self, actor: Actor, worker: WorkerId, told: Sequence[tuple[LeaseId, ExecutionId, str]]) -> int:
        """Keep the latest progress of running attempts; answers how many were kept."""
        await self._row(actor, worker)
        latest = list({(lease, id): (lease, id, progress) for lease, id, progress in told}.values())
        return await self._store.checkpoints.report(worker, latest, self._clock.now()) if latest else 0

    async def parents(self, actor: Actor, worker: WorkerId, held: Held) -> list[Parent]:
        """What the steps before one that the worker holds came to. Raises what `refusal` says when it does not hold it."""
        await self._row(actor, worker)
        if held not in await self._store.desk.members(worker, [held]):
            raise await self.refusal(worker, held[1])
        return await self._store.parents.results(worker, *held)

    async def refusal(self, worker: WorkerId, id: ExecutionId) -> DulyError:
        """Why something about this execution is not taken from this worker."""
        return _refusal(id, await self._touched(worker, [id]))

    # ------------------------------------------------------------ leaving

    async def drain(self, actor: Actor, worker: WorkerId, *, retire: bool) -> int:
        """No more leases; at a retirement what is still held is given back. Answers how many were."""
        row = await self._row(actor, worker)
        if not row.about.draining:
            # A worker that says so itself keeps its protocol; anybody else answers for it.
            if actor.role is Role.WORKER:
                await self._store.liveness.drain(worker)
            else:
                await self._store.desk.drain(worker, Deed(actor, self._clock.now(), "worker.drain", "worker", str(worker)))
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
        """The worker, if it is of the actor's tenant: a stranger learns nothing, not even that it exists.

        Raises Forbidden when another key registered it: only that one, what it was rotated to, and an ADMIN act as it.
        """
        row = await self._store.desk.worker(worker)
        if row is None or row.tenant != actor.tenant:
            raise NotFound("DULY-E221", "There is no such worker.", field="workerId")
        if row.family is not None and row.family != actor.family and actor.role is not Role.ADMIN:
            raise Forbidden("DULY-E305", "Another key registered this worker.", field="workerId")
        _demand_pool(actor, row.about.pool)
        return row

    async def _touched(self, worker: WorkerId, ids: Sequence[ExecutionId]) -> set[ExecutionId]:
        return await self._store.desk.touched(worker, ids) if ids else set()


def _demand_pool(actor: Actor, pool: str) -> None:
    if not actor.may_serve(pool):
        raise Forbidden("DULY-E304", f"The key does not open the pool {pool}.", field="pool")


def _finished(report: Report, member: Member, version: JobVersion, verdict: Verdict, now: Instant) -> Finished:
    """The end as the ledger takes it. Nobody can have started before the lease was granted, whatever he says."""
    ended_at = max(now - report.ago, member.granted_at)
    return Finished(
        report.id,
        report.lease,
        report.outcome,
        verdict.state,
        member.granted_at if report.took is None else max(ended_at - report.took, member.granted_at),
        ended_at,
        version.job_id,
        shard_of(version.job_id),
        member.holds_place,
        report.result,
        verdict.error,
        verdict.retry_at,
        version.spec.step is not None,
    )


def _fitting(claimed: Claimed, versions: dict[int, JobVersion], saved: dict[ExecutionId, Saved]) -> int:
    """How many of them, the first ones, fit into one answer; one at least. A lease whose answer is refused would be sent again for ever."""
    if len(claimed.ids) * 2 * LARGEST_PAYLOAD <= LARGEST_LEASE:
        return len(claimed.ids)
    left = LARGEST_LEASE
    for nth, (id, number, payload) in enumerate(zip(claimed.ids, claimed.job_versions, claimed.payloads, strict=True)):
        left -= len(versions[number].spec.payload or "") if payload is None else len(dumps(payload))
        left -= len(saved[id].checkpoint or "") if id in saved else 0
        if left < 0:
            return max(nth, 1)
    return len(claimed.ids)


def _given_back(claimed: Claimed, nth: int, now: Instant, until: Instant) -> Finished:
    """What this release cannot read, or what is too much for one answer: back to the queue, with its slots."""
    id, holds_place = claimed.ids[nth], claimed.holds_place[nth]
    return Finished(id, claimed.lease, Outcome.RELEASED, State.SCHEDULED, now, now, UUID(int=0), 0, holds_place, retry_at=until)


def _spoiled(claimed: Claimed, nth: int, version: JobVersion, now: Instant) -> Finished:
    """A payload that cannot be decoded will not become better."""
    id, holds_place, job = claimed.ids[nth], claimed.holds_place[nth], version.job_id
    error = dumps({"type": UNREADABLE, "message": f"The payload cannot be read: {claimed.payloads[nth].why}"})
    return Finished(id, claimed.lease, Outcome.FAILED, State.DEAD, now, now, job, shard_of(job), holds_place, error=error)


def _reported(report: Report, ended: Ended | None, touched: set[ExecutionId]) -> Reported:
    if ended is None:
        return Reported(report.id, None, _refusal(report.id, touched))
    if ended.outcome is Outcome.WORKER_LOST is not report.outcome:
        return Reported(report.id, None, _refusal(report.id, {report.id}))
    if ended.outcome is not report.outcome:
        told = f"This attempt was reported before as {ended.outcome.name}; that stands."
        return Reported(report.id, ended, Conflict("DULY-E224", told, field="outcome"))
    return Reported(report.id, ended)


def _how(error: str | None) -> str:
    """How the process ended, in the words of whoever saw it."""
    told = loads(error or FAILED)
    return str(told.get("detail") or told.get("message") or "the process that ran it is gone")


def _refusal(id: ExecutionId, touched: set[ExecutionId]) -> DulyError:
    if id in touched:
        return Conflict("DULY-E223", f"This worker no longer holds {execution_text(id)} under that fence.", field="fence")
    return NotFound("DULY-E205", f"This worker holds no execution {execution_text(id)}.", field="executionId")


def _lost() -> NotFound:
    return NotFound("DULY-E222", "This worker is lost: its time ran out, or it has retired.", field="workerId")
