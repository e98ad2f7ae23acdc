"""Many executions at once: cancel, retry, replay or discard all that match, at a rate, with canaries first.

A bulk action is a row in `batches`; whatever it makes carries its id. Nothing keeps running to carry it out: replays at a rate are
written with due times spaced apart. It is done oldest first, in transactions of a thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, assert_never
from uuid import UUID

from duly.domain.access import Actor
from duly.domain.audit import Deed, on_batch
from duly.domain.bulk import BulkAction, Candidate, Match, can, fits
from duly.domain.errors import Conflict, Invalid, NotFound, TooLarge, TooMany
from duly.domain.execution import NewExecution
from duly.domain.ids import ExecutionId, JobId, batch_text, execution_text, new_id, new_ids, parse_execution_id
from duly.domain.instants import SECOND, Instant, to_rfc3339
from duly.domain.job import Job
from duly.domain.lifecycle import JobState, State, Trigger, is_final
from duly.domain.spacing import spaced
from duly.ports.clock import Clock, Entropy
from duly.ports.letters import Batch, Letters, Settling
from duly.ports.store import Idempotency
from duly.ports.transport import Transport
from duly.usecases.aborts import cancel_waiting, is_aborted, stop_if_aborted
from duly.usecases.executions import Executions, Wanted
from duly.usecases.jobs import Jobs

PAGE = 1000
MOST_PER_CALL = 10_000
SAMPLE = 5

_FAILED = frozenset({State.DEAD, State.CANCELLED, State.SKIPPED})


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkAsk:
    """What somebody asks for. `payload` is JSON text; None means each one's own."""

    action: BulkAction
    match: Match
    everything: bool = False
    dry_run: bool = False
    rate: float | None = None
    canary: int | None = None
    limit: int | None = None
    payload: str | None = None


@dataclass(frozen=True, slots=True)
class BulkReport:
    """What a call has done: how many matched, were done, could not be done, and are left for the next call."""

    action: BulkAction
    batch: UUID | None
    matched: int
    done: int
    skipped: int
    remaining: int
    sample: list[ExecutionId]


@dataclass(frozen=True, slots=True)
class BatchReport:
    """A batch, and where the executions that it made stand."""

    batch: Batch
    counts: dict[State, int]


@dataclass(slots=True)
class _Work:
    """One call's way through a batch."""

    actor: Actor
    batch: UUID
    action: BulkAction
    payload: str | None
    rate: float | None
    start: Instant
    jobs: dict[JobId, Job] = field(default_factory=dict)
    made: int = 0

    def deed(self, now: Instant, action: str) -> Deed:
        """What is done to some of the batch, for the record."""
        return on_batch(self.actor, now, action, self.batch)


class Bulk:
    """The use cases on many executions at once."""

    def __init__(self, letters: Letters, jobs: Jobs, executions: Executions, clock: Clock, entropy: Entropy, transport: Transport) -> None:
        self._letters = letters
        self._jobs = jobs
        self._executions = executions
        self._clock = clock
        self._entropy = entropy
        self._transport = transport

    async def start(self, actor: Actor, ask: BulkAsk, idempotency: Idempotency | None = None) -> BulkReport:
        """Do it to all that match, at most `MOST_PER_CALL` of them; the rest by `go_on`. A dry run only counts."""
        earlier = await self._jobs.made_with(actor, idempotency)
        if earlier is not None:
            return await self._again(actor, ask, earlier[0], idempotency)
        _refuse_contradictions(ask)
        self._executions.check_payload(ask.payload)
        await self._executions.check_size(actor, ask.payload)
        now = self._clock.now()
        # What comes into being from now on is not meant, however long the batch takes.
        before = now + 1 if ask.match.created_before is None else min(ask.match.created_before, now + 1)
        match = replace(ask.match, created_before=before)
        found = await self._all(actor, ask.action, match, None)
        able = [candidate for candidate in found if can(ask.action, candidate)]
        sample = [candidate.id for candidate in (able or found)[:SAMPLE]]
        if ask.dry_run:
            return BulkReport(ask.action, None, len(found), 0, len(found) - len(able), len(able), sample)
        about: dict[str, Any] = {"match": _match_to_json(match)}
        about |= {"ratePerSec": ask.rate} if ask.rate else {}
        about |= {"canary": ask.canary} if ask.canary else {}
        about |= {"payload": ask.payload} if ask.payload is not None else {}
        batch = new_id(now, self._entropy)
        told = {"kind": ask.action.value, "total": len(found), **{name: value for name, value in about.items() if name != "payload"}}
        meanwhile = await self._letters.add_batch(
            Batch(batch, actor.tenant, ask.action.value, now, actor.key_id, len(found), about, match.job_id),
            deed=on_batch(actor, now, "batch.create", batch, match.job_id, after=told),
            idempotency=idempotency,
        )
        if meanwhile is not None:
            return await self._again(actor, ask, meanwhile, idempotency)
        work = _Work(actor, batch, ask.action, ask.payload, ask.rate, now)
        try:
            done, tried = await self._do(work, able[: _most_of(ask)])
        except (TooMany, TooLarge):
            # Refused as a whole, so there is no batch to go on with.
            await self._letters.drop_batch(batch, deed=on_batch(actor, now, "batch.drop", batch, match.job_id), idempotency=idempotency)
            raise
        skipped = len(found) - len(able) + tried - done
        return await self._kept(BulkReport(ask.action, batch, len(found), done, skipped, len(able) - tried, sample), idempotency)

    async def _again(self, actor: Actor, ask: BulkAsk, id: UUID, idempotency: Idempotency | None) -> BulkReport:
        """The answer to a request that was made before; if it never got to one, its work is done to the end first.

        Should the first one still be at it, no harm is done: each execution is cancelled, settled or replayed once.
        """
        batch = await self._batch(actor, id)
        answered = _answered(batch, idempotency)
        if answered is not None or is_aborted(batch):
            return answered or BulkReport(ask.action, id, batch.total, 0, 0, batch.total, [])
        found = await self._all(actor, ask.action, _match_from_json(batch.about["match"]), id)
        able = [candidate for candidate in found if can(ask.action, candidate)]
        before = max(0, batch.total - len(found))
        work = _Work(actor, id, ask.action, ask.payload, ask.rate, self._clock.now())
        done, tried = await self._do(work, able[: max(0, _most_of(ask) - before)])
        skipped = len(found) - len(able) + tried - done
        sample = [candidate.id for candidate in (able or found)[:SAMPLE]]
        return await self._kept(BulkReport(ask.action, id, batch.total, before + done, skipped, len(able) - tried, sample), idempotency)

    async def _kept(self, report: BulkReport, idempotency: Idempotency | None) -> BulkReport:
        """The answer, kept for whoever asks the same again."""
        if idempotency is not None and report.batch is not None:
            told = {"matched": report.matched, "done": report.done, "skipped": report.skipped, "remaining": report.remaining}
            answer = told | {"sample": [execution_text(id) for id in report.sample]}
            await self._letters.keep_answer(report.batch, _name_of(idempotency), answer)
        return report

    async def go_on(self, actor: Actor, id: UUID, *, anyway: bool, limit: int | None, idempotency: Idempotency | None = None) -> BulkReport:
        """Do the rest of a batch. After canaries only if all of them succeeded, or `anyway`."""
        batch = await self._batch(actor, id)
        answered = _answered(batch, idempotency)
        if answered is not None:
            return answered
        if batch.kind not in set(BulkAction):
            raise NotFound("DULY-E233", f"{batch_text(id)} is no bulk action but a {batch.kind}.", field="batchId")
        if is_aborted(batch):
            raise _aborted(id)
        if "canary" in batch.about:
            if not anyway:
                _refuse_bad_canaries(id, await self._letters.batch_counts(id))
            # They have done their service: what fails later is not theirs.
            if not await self._letters.end_canaries(id, deed=on_batch(actor, self._clock.now(), "batch.continue", id, batch.job_id)):
                raise _aborted(id)
        action = BulkAction(batch.kind)
        found = await self._all(actor, action, _match_from_json(batch.about["match"]), id)
        able = [candidate for candidate in found if can(action, candidate)]
        todo = able[: min(MOST_PER_CALL, limit or MOST_PER_CALL)]
        rate = batch.about.get("ratePerSec")
        now = self._clock.now()
        last = await self._letters.last_due(id) if rate else None
        # The rate goes on where the last call has left it.
        start = now if last is None or rate is None else max(now, last + int(SECOND / rate))
        done, tried = await self._do(_Work(actor, id, action, batch.about.get("payload"), rate, start), todo)
        skipped = len(found) - len(able) + tried - done
        sample = [candidate.id for candidate in todo[:SAMPLE]]
        return await self._kept(BulkReport(action, id, len(found), done, skipped, len(able) - tried, sample), idempotency)

    async def abort(self, actor: Actor, id: UUID) -> BatchReport:
        """Cancel what the batch has made and what has not started; nothing more comes of it. What runs goes on."""
        batch = await self._batch(actor, id)
        now = self._clock.now()
        was = {"kind": batch.kind, "total": batch.total}
        deed = on_batch(actor, now, "batch.abort", id, batch.job_id, before=was, after={"abortedAt": to_rfc3339(now)})
        await self._letters.abort_batch(id, now, deed=deed)
        await cancel_waiting(self._letters, self._executions, actor, id, now)
        return await self.show(actor, id)

    async def show(self, actor: Actor, id: UUID) -> BatchReport:
        """The batch, and where what it has made stands."""
        return BatchReport(await self._batch(actor, id), await self._letters.batch_counts(id))

    async def _batch(self, actor: Actor, id: UUID) -> Batch:
        batch = await self._letters.batch(actor.tenant, id)
        if batch is None:
            raise NotFound("DULY-E233", f"There is no batch {batch_text(id)}.", field="batchId")
        return batch

    async def _all(self, actor: Actor, action: BulkAction, match: Match, own: UUID | None) -> list[Candidate]:
        """All that match, oldest first, without what the batch itself has made."""
        found: list[Candidate] = []
        before: ExecutionId | None = None
        while True:
            page, before = await self._letters.candidates(actor.tenant, match, action.states, before, PAGE)
            found += [item for item in page if fits(match, action.states, item) and (own is None or item.batch != own)]
            if before is None:
                return found[::-1]

    # ------------------------------------------------------------ doing it

    async def _do(self, work: _Work, todo: Sequence[Candidate]) -> tuple[int, int]:
        """How many were done, and how many tried. Past a quota of the tenant the rest is left for the next call; after an abort, undone."""
        done = tried = 0
        for first in range(0, len(todo), PAGE):
            page = todo[first : first + PAGE]
            try:
                done += await self._do_page(work, page)
            except (TooMany, TooLarge):
                if tried == 0:
                    raise
                break
            tried += len(page)
            if await stop_if_aborted(self._letters, self._executions, work.actor, work.batch, self._clock.now()):
                break
        return done, tried

    async def _do_page(self, work: _Work, page: Sequence[Candidate]) -> int:
        now, by, tenant = self._clock.now(), work.actor.key_id, work.actor.tenant
        ids = [candidate.id for candidate in page]
        match work.action:
            case BulkAction.CANCEL:
                return await self._executions.cancel_each(work.actor, work.batch, page, now)
            case BulkAction.DISCARD:
                return await self._letters.settle(ids, Settling.DISCARDED, by, now, deed=work.deed(now, "execution.discard"))
            case BulkAction.REPLAY:
                return await self._replay(work, page, now)
            case BulkAction.RETRY:
                dead = [candidate for candidate in page if candidate.state is State.DEAD]
                # What a quota may refuse comes first: then nothing of the page is done.
                replayed = await self._replay(work, dead, now) if dead else 0
                hastened = await self._letters.hasten(
                    tenant,
                    [item.id for item in page if item.state is not State.DEAD],
                    now,
                    deed=work.deed(now, "execution.retry"),
                )
                if hastened:
                    await self._transport.announce_due(now)
                return len(hastened) + replayed
            case _:
                assert_never(work.action)

    async def _replay(self, work: _Work, page: Sequence[Candidate], now: Instant) -> int:
        pairs: list[tuple[ExecutionId, NewExecution]] = []
        due = spaced(work.made + len(page), work.start, work.rate)[work.made :]
        for id, candidate in zip(new_ids(len(page), now, self._entropy), page, strict=True):
            if candidate.job_id not in work.jobs:
                work.jobs[candidate.job_id] = await self._jobs.show(work.actor, candidate.job_id)
            job = work.jobs[candidate.job_id]
            if job.state is JobState.CANCELLED:
                continue
            run_at = due[len(pairs)]
            payload = candidate.payload if work.payload is None else work.payload
            wanted = Wanted(payload=payload, run_at=max(run_at, now), trigger=Trigger.REPLAY, batch=work.batch)
            try:
                self._executions.check_payload(payload)
                [new] = await self._executions.headers(job, [wanted])
            except (Invalid, TooLarge):
                # The job's present limits cannot be counted by what this one carries, its tenant may no longer send so much,
                # or it cannot be read.
                continue
            pairs.append((candidate.id, new._replace(id=id)))
        work.made += len(pairs)
        deed = work.deed(now, "execution.replay")
        ours = await self._letters.replay(pairs, work.actor.key_id, now, deed=deed) if pairs else set()
        await self._executions.hint([new for old, new in pairs if old in ours], now)
        return len(ours)


def _refuse_contradictions(ask: BulkAsk) -> None:
    if ask.match.is_empty and not ask.everything:
        raise Invalid("DULY-E133", "matches everything.", field="match", hint='If that is meant, say so: "everything": true.')
    if ask.action is not BulkAction.REPLAY:
        for name, value in (("ratePerSec", ask.rate), ("canary", ask.canary), ("payload", ask.payload)):
            if value is not None:
                raise Invalid("DULY-E106", f"does not go with {ask.action.value}.", field=name, hint="It goes with replay.")


def _most_of(ask: BulkAsk) -> int:
    return min(MOST_PER_CALL, ask.limit or MOST_PER_CALL, ask.canary or MOST_PER_CALL)


def _name_of(idempotency: Idempotency) -> str:
    """By which an answer is found again: the key together with what was asked."""
    return sha256(idempotency.key.encode() + b"\0" + idempotency.body_hash).hexdigest()[:32]


def _answered(batch: Batch, idempotency: Idempotency | None) -> BulkReport | None:
    """What was answered to this very request before."""
    answer = None if idempotency is None else batch.about.get("answers", {}).get(_name_of(idempotency))
    if answer is None:
        return None
    sample = [parse_execution_id(text) for text in answer["sample"]]
    return BulkReport(BulkAction(batch.kind), batch.id, answer["matched"], answer["done"], answer["skipped"], answer["remaining"], sample)


def _aborted(id: UUID) -> Conflict:
    return Conflict("DULY-E236", f"{batch_text(id)} was aborted.", field="batchId", hint="Start a new one.")


def _refuse_bad_canaries(id: UUID, counts: dict[State, int]) -> None:
    failed = sum(counts.get(state, 0) for state in _FAILED)
    total = sum(counts.values())
    if failed:
        raise Conflict(
            "DULY-E234",
            f"{failed} of {total} canaries of {batch_text(id)} did not succeed.",
            field="continue",
            hint='Look at them first; "continue": "anyway" does the rest all the same.',
        )
    live = sum(count for state, count in counts.items() if not is_final(state))
    if live:
        raise Conflict(
            "DULY-E235",
            f"{live} of {total} canaries of {batch_text(id)} have not ended.",
            field="continue",
            hint='Wait for them; "continue": "anyway" does the rest all the same.',
        )


def _match_to_json(match: Match) -> dict[str, Any]:
    told: dict[str, Any] = {
        "jobId": None if match.job_id is None else match.job_id.hex,
        "state": None if match.state is None else match.state.name,
        "cause": match.cause,
        "createdBefore": match.created_before,
        "createdAfter": match.created_after,
        "batchId": None if match.batch is None else match.batch.hex,
        "ids": None if match.ids is None else [execution_text(id) for id in match.ids],
    }
    return {name: value for name, value in told.items() if value is not None}


def _match_from_json(told: dict[str, Any]) -> Match:
    return Match(
        job_id=None if "jobId" not in told else UUID(hex=told["jobId"]),
        state=None if "state" not in told else State[told["state"]],
        cause=told.get("cause"),
        created_before=told.get("createdBefore"),
        created_after=told.get("createdAfter"),
        batch=None if "batchId" not in told else UUID(hex=told["batchId"]),
        ids=None if "ids" not in told else tuple(UUID(hex=text.removeprefix("run_")) for text in told["ids"]),
    )
