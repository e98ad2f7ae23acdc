"""Why a running execution runs on: where, since when, and what is about to happen to it."""

from __future__ import annotations

from json import loads

from duly.domain.decide import after_loss
from duly.domain.execution import Lost
from duly.domain.instants import to_rfc3339
from duly.domain.lifecycle import Outcome, State
from duly.domain.why import flows
from duly.domain.why.answers import Reason, WhyCode, known, moment, span
from duly.domain.why.facts import ExecutionFacts, Wish, WorkerFacts


def running(facts: ExecutionFacts) -> list[Reason]:
    """It runs; on a worker that is silent, or although it was asked to stop, that comes first."""
    if facts.flow is not None:
        under_way = [flows.under_way(facts, facts.flow), *(flows.held(facts, wait) for wait in facts.flow.held[:3])]
        return under_way if facts.wish is None else [_stop_asked(facts, facts.wish), *under_way]
    worker = next((worker for worker in facts.workers if worker.id == facts.execution.worker), None)
    reasons = [_running(facts, worker)]
    if facts.wish is not None:
        reasons.insert(0, _stop_asked(facts, facts.wish))
    if worker is None or not worker.is_live(facts.now):
        reasons.insert(0, _silent(facts, worker))
    return reasons


def _stop_asked(facts: ExecutionFacts, wish: Wish) -> Reason:
    who, kill_at = facts.who(wish.by), wish.kill_at
    end = "it runs until its handler has stopped" if kill_at is None else f"it is ended at {moment(kill_at)} if its handler has not stopped"
    return Reason(
        WhyCode.STOP_ASKED,
        f"It was asked to stop by {who} at {moment(wish.asked_at)}; {end}.",
        known(askedBy=who, askedAt=to_rfc3339(wish.asked_at), killAt=None if kill_at is None else to_rfc3339(kill_at)),
        since=wish.asked_at,
        until=kill_at,
        hint="A handler stops where it looks at ctx.cancelled, or at its next await.",
    )


def _running(facts: ExecutionFacts, worker: WorkerFacts | None) -> Reason:
    execution, saved = facts.execution, facts.execution.saved
    since = execution.started_at or facts.now
    where = f" on {worker.name}" if worker is not None else ""
    which = f", attempt {execution.attempt} of {execution.max_attempts}" if execution.attempt > 1 else ""
    timeout = facts.version.spec.timeout
    return Reason(
        WhyCode.RUNNING,
        f"It has been running for {span(facts.now - since)}{where}{which}.",
        known(
            startedAt=to_rfc3339(since),
            workerId=None if execution.worker is None else str(execution.worker),
            worker=None if worker is None else worker.name,
            attempt=execution.attempt,
            fence=execution.fence,
            lastHeartbeatAt=None if worker is None or not worker.ttl else to_rfc3339(worker.heard_at),
            timeoutSec=None if timeout is None else timeout / 1_000_000,
            progress=None if saved is None or saved.progress is None else loads(saved.progress),
            checkpoint=None if saved is None or not saved.number else saved.number,
            checkpointAt=None if saved is None or saved.saved_at is None else to_rfc3339(saved.saved_at),
        ),
        since=since,
        until=None if timeout is None else since + timeout,
    )


def _silent(facts: ExecutionFacts, worker: WorkerFacts | None) -> Reason:
    """What the sweeper will decide when it comes, by the function that it decides with."""
    execution = facts.execution
    gone_at = facts.now if worker is None else worker.expires_at if worker.lost_at is None else worker.lost_at
    lost = Lost(
        id=execution.id,
        lease=execution.fence or 0,
        worker=execution.worker or 0,
        granted_at=execution.started_at or gone_at,
        attempt=execution.attempt,
        failures=0,
        losses=sum(attempt.outcome is Outcome.WORKER_LOST for attempt in facts.attempts),
        cancelled=facts.wish is not None,
        job_id=execution.job_id,
        job_version=execution.job_version,
        holds_place=False,
    )
    verdict = after_loss(lost, facts.version.spec.retry, max(facts.now, gone_at))
    name = "Its worker" if worker is None else f"Worker {worker.name}"
    match verdict.state:
        case State.SCHEDULED if verdict.retry_at is not None:
            then = f"the sweeper takes it away and it starts again from {moment(verdict.retry_at)} on"
        case State.CANCELLED:
            then = "it was asked to stop, so it ends as cancelled"
        case _:
            then = "it has lost too many workers, so it ends as dead"
    return Reason(
        WhyCode.WORKER_SILENT,
        f"{name} has not been heard of for {span(facts.now - (gone_at if worker is None else worker.heard_at))}; {then}.",
        known(
            workerId=None if execution.worker is None else str(execution.worker),
            worker=None if worker is None else worker.name,
            expiredAt=to_rfc3339(gone_at),
            losses=lost.losses,
            maxLosses=facts.version.spec.retry.max_losses,
        ),
        since=gone_at,
        until=verdict.retry_at,
        hint="If it stays so, no sweeper runs: start one with duly up, or duly server.",
    )
