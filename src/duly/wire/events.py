"""What is told to those who follow a tenant's changes."""

from __future__ import annotations

from duly.domain.execution import Execution
from duly.domain.ids import execution_text, job_text
from duly.domain.instants import Instant
from duly.domain.job import Job
from duly.wire.executions import OutcomeName, StateName
from duly.wire.jobs import JobStateName
from duly.wire.shapes import View, shown


class JobEvent(View, kw_only=True):
    """The data of an event `job`: it was made, has a new version, or another state."""

    job_id: str
    name: str
    state: JobStateName
    version: int
    next_fire_at: str | None
    paused_until: str | None


class ExecutionEvent(View, kw_only=True):
    """The data of an event `execution`: it was made, has started, ended an attempt, or is final."""

    execution_id: str
    job_id: str
    job_name: str
    state: StateName
    attempt: int
    last_outcome: OutcomeName | None
    next_attempt_at: str | None


class RefreshEvent(View, kw_only=True):
    """The data of an event `refresh`: more has changed than was told; read again what you show."""

    reason: str


def job_event(job: Job, now: Instant) -> JobEvent:
    """A job that has changed."""
    return JobEvent(
        job_id=job_text(job.id),
        name=job.version.spec.name,
        state=JobStateName[job.standing(now).name],
        version=job.version.version,
        next_fire_at=shown(job.next_fire_at),
        paused_until=shown(job.paused_until),
    )


def execution_event(execution: Execution) -> ExecutionEvent:
    """An execution that has changed."""
    return ExecutionEvent(
        execution_id=execution_text(execution.id),
        job_id=job_text(execution.job_id),
        job_name=execution.job_name,
        state=StateName[execution.state.name],
        attempt=execution.attempt,
        last_outcome=None if execution.last_outcome is None else OutcomeName[execution.last_outcome.name],
        next_attempt_at=shown(execution.next_attempt_at),
    )
