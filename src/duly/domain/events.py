"""What happened to an execution, as others are told: one event for each change that they might act upon."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from duly.domain.ids import ExecutionId, JobId, execution_text, job_text
from duly.domain.instants import Instant, to_rfc3339
from duly.domain.lifecycle import Outcome, SkipReason, State, Trigger


class Change(IntEnum):
    """The kinds of change that the store notes."""

    CREATED = 0
    DISPATCHED = 1
    ATTEMPT_ENDED = 2
    FINAL = 3


@dataclass(frozen=True, slots=True)
class Happened:
    """One change, with what the history says of it. `verdict` is an Outcome or a final State, as the change has it."""

    change: Change
    at: Instant
    id: ExecutionId
    attempt: int
    job_id: JobId
    job: str
    tenant: str
    trigger: Trigger
    due_at: Instant
    created_at: Instant
    skip_reason: SkipReason | None = None
    verdict: int | None = None
    fence: int | None = None
    worker: int | None = None
    started_at: Instant | None = None
    finished_at: Instant | None = None
    retry_at: Instant | None = None
    error: Any = None


def type_of(happened: Happened) -> str:
    """The event's name."""
    match happened.change:
        case Change.CREATED:
            return "execution.created"
        case Change.DISPATCHED:
            return "execution.dispatched"
        case Change.ATTEMPT_ENDED:
            return "execution.failed"
        case Change.FINAL:
            return f"execution.{State(happened.verdict or 0).name.lower()}"


def is_dead_letter(happened: Happened) -> bool:
    """Whether it used up its attempts."""
    return happened.change is Change.FINAL and happened.verdict == State.DEAD


def event_of(happened: Happened) -> dict[str, Any]:
    """As it is published. Its id is the same however often it is published; payloads and results are not in it: they may be anybody's."""
    kind = type_of(happened)
    execution = execution_text(happened.id)
    event: dict[str, Any] = {
        "id": f"{execution}/{kind.removeprefix('execution.')}/{happened.attempt}",
        "type": kind,
        "time": to_rfc3339(_time(happened)),
        "tenant": happened.tenant,
        "jobId": job_text(happened.job_id),
        "job": happened.job,
        "executionId": execution,
        "trigger": happened.trigger.name.lower(),
        "dueAt": to_rfc3339(happened.due_at),
    }
    match happened.change:
        case Change.CREATED:
            return event
        case Change.DISPATCHED:
            return event | {"attempt": happened.attempt, "fence": happened.fence, "workerId": happened.worker}
        case Change.ATTEMPT_ENDED:
            event |= {"outcome": Outcome(happened.verdict or 0).name, "nextAttemptAt": _shown(happened.retry_at)}
        case Change.FINAL:
            event |= {"state": State(happened.verdict or 0).name}
            if happened.skip_reason is not None:
                event["reason"] = happened.skip_reason.name.lower()
    return event | {
        "attempt": happened.attempt,
        "fence": happened.fence,
        "workerId": happened.worker,
        "startedAt": _shown(happened.started_at),
        "finishedAt": _shown(happened.finished_at),
        "error": happened.error,
    }


def _time(happened: Happened) -> Instant:
    if happened.change is Change.CREATED:
        return happened.created_at
    return happened.at if happened.finished_at is None else happened.finished_at


def _shown(instant: Instant | None) -> str | None:
    return None if instant is None else to_rfc3339(instant)
