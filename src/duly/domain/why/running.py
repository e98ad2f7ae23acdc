"""Why a running execution runs on: where, since when, and what is about to happen to it."""

from __future__ import annotations

from duly.domain.decide import after_loss
from duly.domain.execution import Lost
from duly.domain.instants import to_rfc3339
from duly.domain.lifecycle import Outcome, State
from duly.domain.why.answers import Reason, WhyCode, known, moment, span
from duly.domain.why.facts import ExecutionFacts, WorkerFacts


def running(facts: ExecutionFacts) -> list[Reason]:
    """It runs; on a worker that is silent, or although it was asked to stop, that comes first."""
    worker = next((worker for worker in facts.workers if worker.id == facts.execution.worker), None)
    reasons = [_running(facts, worker)]
    if facts.wish is not None:
        reasons.insert(
            0,
            Reason(
                WhyCode.STOP_ASKED,
                f"It was asked to stop by {facts.who(facts.wish.by)} at {moment(facts.wish.asked_at)}; "
                "it runs until its worker has told it and it has ended.",
                {"askedBy": facts.who(facts.wish.by), "askedAt": to_rfc3339(facts.wish.asked_at)},
                since=facts.wish.asked_at,
                hint="A handler stops where it looks at ctx.cancelled, or at its next await.",
            ),
        )
    if worker is None or not worker.is_live(facts.now):
        reasons.insert(0, _silent(facts, worker))
    return reasons


def _running(facts: ExecutionFacts, worker: WorkerFacts | None) -> Reason:
    execution, progress = facts.execution, facts.progress
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
            progress=None if progress is None else progress.progress,
            progressAt=None if progress is None or progress.progress_at is None else to_rfc3339(progress.progress_at),
            checkpoint=None if progress is None or not progress.checkpoint else progress.checkpoint,
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
