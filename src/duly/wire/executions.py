"""Executions, attempts and logs on the wire."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Raw, UnsetType

from duly.domain.choices import Priority
from duly.domain.ids import ExecutionId, batch_text, execution_text, job_text
from duly.domain.secrets import masked_json
from duly.wire.shapes import Moment, Seconds, Shape, View, shown, shown_json

if TYPE_CHECKING:
    from duly.domain.execution import Attempt, Execution, LogLine, Saved


class EnqueueShape(Shape, kw_only=True):
    """One execution to be enqueued: now, at a time, or after a delay."""

    payload: Raw | UnsetType = UNSET
    run_at: Moment | None = None
    delay_sec: Seconds | None = None
    priority: Priority | None = None


class RunShape(Shape, kw_only=True):
    """Run a job now: with its own payload and priority, or with others this once."""

    payload: Raw | UnsetType = UNSET
    priority: Priority | None = None


class ReplayShape(Shape, kw_only=True):
    """Run a final execution again: with its own payload, or with another."""

    payload: Raw | UnsetType = UNSET


class EnqueueBatchShape(Shape, kw_only=True):
    """Many executions of one job in one transaction."""

    executions: Annotated[list[EnqueueShape], Meta(min_length=1, max_length=10_000)]


class StateName(StrEnum):
    """Execution states by name."""

    SCHEDULED = "SCHEDULED"
    BLOCKED = "BLOCKED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    DEAD = "DEAD"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"


class OutcomeName(StrEnum):
    """Attempt outcomes by name."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    WORKER_LOST = "WORKER_LOST"
    CANCELLED = "CANCELLED"
    RELEASED = "RELEASED"


class CheckpointView(View, kw_only=True):
    """The last checkpoint of an execution: its number, over all attempts, and when it was saved."""

    number: int
    saved_at: str


class ExecutionView(View, kw_only=True):
    """An execution as it is read."""

    execution_id: str
    job_id: str
    job_name: str
    state: StateName
    trigger: str
    scheduled_at: str
    created_at: str
    attempt: int
    max_attempts: int
    last_outcome: OutcomeName | None
    next_attempt_at: str | None
    fence: int | None
    worker_id: str | None
    started_at: str | None
    finished_at: str | None
    lateness_ms: int | None
    payload: Any
    result: Any
    error: Any
    progress: Any = None
    checkpoint: CheckpointView | None = None
    cancel_asked_at: str | None = None
    skip_reason: str | None = None
    batch_id: str | None = None
    replayed_as: str | None = None
    discarded_at: str | None = None
    run_id: str | None = None
    step: str | None = None
    item: int | None = None


class AttemptView(View, kw_only=True):
    """One try: `outcome` is null while it runs."""

    attempt: int
    outcome: OutcomeName | None
    fence: int
    worker_id: str
    started_at: str | None
    finished_at: str | None
    retry_at: str | None
    error: Any


class LevelName(StrEnum):
    """Levels of log lines, lowest first; a line of any other level counts as the highest."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogLineView(View, kw_only=True):
    """One line that the handler logged."""

    at: str
    attempt: int
    level: str
    message: str
    fields: dict[str, Any]


class FoundLineView(LogLineView, kw_only=True):
    """The same among the lines of a job's executions."""

    execution_id: str


class EnqueuedView(View, kw_only=True):
    """What was enqueued. `duplicate`: its unique key is taken, and this is the execution that has it."""

    execution_id: str
    job_id: str
    state: StateName
    scheduled_at: str
    duplicate: bool = False


def execution_view(execution: Execution) -> ExecutionView:
    """An execution as the API answers it."""
    started = execution.started_at
    return ExecutionView(
        execution_id=execution_text(execution.id),
        job_id=job_text(execution.job_id),
        job_name=execution.job_name,
        state=StateName[execution.state.name],
        trigger=execution.trigger.name.lower(),
        scheduled_at=shown(execution.due_at if execution.scheduled_at is None else execution.scheduled_at) or "",
        created_at=shown(execution.created_at) or "",
        attempt=execution.attempt,
        max_attempts=execution.max_attempts,
        last_outcome=None if execution.last_outcome is None else OutcomeName[execution.last_outcome.name],
        next_attempt_at=shown(execution.next_attempt_at),
        fence=execution.fence,
        worker_id=None if execution.worker is None else str(execution.worker),
        started_at=shown(started),
        finished_at=shown(execution.finished_at),
        # A retry is late when it starts after its own time, not because it had to wait for it.
        lateness_ms=None if started is None else (started - (execution.attempt_due_at or execution.due_at)) // 1000,
        payload=shown_json(masked_json(execution.payload)),
        result=shown_json(execution.result),
        error=shown_json(execution.error),
        progress=None if execution.saved is None else shown_json(execution.saved.progress),
        checkpoint=_checkpoint_view(execution.saved),
        cancel_asked_at=shown(execution.cancel_asked_at),
        skip_reason=None if execution.skip is None else execution.skip.name.lower(),
        batch_id=None if execution.batch is None else batch_text(execution.batch),
        replayed_as=None if execution.replayed_as is None else execution_text(execution.replayed_as),
        discarded_at=shown(execution.discarded_at),
        run_id=None if execution.run is None else execution_text(execution.run),
        step=execution.step_name,
        item=execution.nth,
    )


def _checkpoint_view(saved: Saved | None) -> CheckpointView | None:
    if saved is None or saved.saved_at is None:
        return None
    return CheckpointView(number=saved.number, saved_at=shown(saved.saved_at) or "")


def attempt_view(attempt: Attempt) -> AttemptView:
    """An attempt as the API answers it."""
    return AttemptView(
        attempt=attempt.attempt,
        outcome=None if attempt.outcome is None else OutcomeName[attempt.outcome.name],
        fence=attempt.fence,
        worker_id=str(attempt.worker),
        started_at=shown(attempt.started_at),
        finished_at=shown(attempt.finished_at),
        retry_at=shown(attempt.retry_at),
        error=shown_json(attempt.error),
    )


def log_view(attempt: int, line: LogLine) -> LogLineView:
    """A log line as the API answers it."""
    return LogLineView(at=shown(line.at) or "", attempt=attempt, level=line.level, message=line.message, fields=line.fields)


def found_line_view(id: ExecutionId, attempt: int, line: LogLine) -> FoundLineView:
    """The same with its execution."""
    return FoundLineView(
        execution_id=execution_text(id),
        at=shown(line.at) or "",
        attempt=attempt,
        level=line.level,
        message=line.message,
        fields=line.fields,
    )
