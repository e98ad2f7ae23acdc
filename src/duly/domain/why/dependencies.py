"""Why an execution waits for another job, or was skipped because that did not succeed in time."""

from __future__ import annotations

from duly.domain.instants import to_rfc3339
from duly.domain.lifecycle import JobState
from duly.domain.why.answers import Reason, WhyCode, known, moment
from duly.domain.why.errors import error_of
from duly.domain.why.facts import AwaitedFacts, ExecutionFacts, GateFacts


def waits(facts: ExecutionFacts, gate: GateFacts, awaited: AwaitedFacts) -> Reason:
    """Another job has not succeeded for the same period."""
    period = str(gate.about.get("for") or "the same period")
    then = "it runs all the same" if awaited.runs else "it is skipped"
    standing, hint = _standing(awaited)
    return Reason(
        WhyCode.DEPENDENCY_WAIT,
        f"It waits for the job {awaited.job!r} of {period}{standing}. At {moment(awaited.deadline)} {then}.",
        known(
            job=awaited.job,
            period=period,
            jobState=None if awaited.state is None else awaited.state.name,
            deadline=to_rfc3339(awaited.deadline),
            onDeadline="run" if awaited.runs else "skip",
        ),
        since=facts.execution.created_at,
        until=awaited.deadline,
        hint=hint,
    )


def _standing(awaited: AwaitedFacts) -> tuple[str, str]:
    match awaited.state:
        case None:
            return ", and there is no such job", f"Make it, or take it out of `after`: duly job show {awaited.job}"
        case JobState.CANCELLED:
            return ", and that job was deleted", "Take it out of `after`, or make a job of that name again."
        case JobState.PAUSED:
            return ", and that job is paused", f"duly job resume {awaited.job}"
        case _:
            return ", which has not succeeded yet", f"Why that one has not: duly why {awaited.job}"


def skipped(facts: ExecutionFacts) -> Reason:
    """It waited in vain."""
    job = str(error_of(facts.execution.error).get("job") or "another job")
    return Reason(
        WhyCode.SKIPPED_DEPENDENCY,
        f"It was skipped at {moment(facts.execution.finished_at or facts.now)}: the job {job!r} had not succeeded in time.",
        known(job=job, scheduledAt=to_rfc3339(facts.execution.scheduled_at or facts.execution.due_at)),
        since=facts.execution.finished_at,
        hint=f"To run it all the same: duly run {facts.execution.job_name}",
    )
