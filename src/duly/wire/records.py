"""Finished executions for analysis, on the wire."""

from __future__ import annotations

from duly.domain.ids import execution_text, job_text, parse_execution_id, parse_job_id
from duly.domain.instants import from_rfc3339, to_rfc3339
from duly.domain.lifecycle import SkipReason, State, Trigger
from duly.domain.records import Record
from duly.wire.executions import StateName
from duly.wire.shapes import View, shown


class RecordView(View, kw_only=True):
    """A finished execution, flat: what is measured of it, without its payload and result."""

    execution_id: str
    tenant: str
    job_id: str
    job_name: str
    job_version: int
    step: str | None
    pool: str
    handler: str
    trigger: str
    state: StateName
    skip_reason: str | None
    attempts: int
    failed: int
    timed_out: int
    lost: int
    released: int
    scheduled_at: str
    due_at: str
    created_at: str
    first_started_at: str | None
    attempt_due_at: str | None
    started_at: str | None
    finished_at: str
    error_type: str | None
    error_message: str | None


class RecordsView(View, kw_only=True):
    """A stretch of history: how many of its executions have ended and how many have not, and `nextCursor` while there is more of it."""

    items: list[RecordView]
    finished: int
    unfinished: int
    next_cursor: str | None


def record_view(record: Record) -> RecordView:
    """A record as the API answers it."""
    return RecordView(
        execution_id=execution_text(record.id),
        tenant=record.tenant,
        job_id=job_text(record.job_id),
        job_name=record.job,
        job_version=record.version,
        step=record.step,
        pool=record.pool,
        handler=record.handler,
        trigger=record.trigger.name.lower(),
        state=StateName[record.state.name],
        skip_reason=None if record.skip_reason is None else record.skip_reason.name.lower(),
        attempts=record.attempts,
        failed=record.failed,
        timed_out=record.timed_out,
        lost=record.lost,
        released=record.released,
        scheduled_at=to_rfc3339(record.scheduled_at),
        due_at=to_rfc3339(record.due_at),
        created_at=to_rfc3339(record.created_at),
        first_started_at=shown(record.first_started_at),
        attempt_due_at=shown(record.attempt_due_at),
        started_at=shown(record.started_at),
        finished_at=to_rfc3339(record.finished_at),
        error_type=record.error_type,
        error_message=record.error_message,
    )


def record_of(view: RecordView) -> Record:
    """The record that an answer of the API tells of."""

    def time(text: str | None) -> int | None:
        return None if text is None else from_rfc3339(text)

    return Record(
        id=parse_execution_id(view.execution_id),
        tenant=view.tenant,
        job_id=parse_job_id(view.job_id),
        job=view.job_name,
        version=view.job_version,
        step=view.step,
        pool=view.pool,
        handler=view.handler,
        trigger=Trigger[view.trigger.upper()],
        state=State[view.state.name],
        skip_reason=None if view.skip_reason is None else SkipReason[view.skip_reason.upper()],
        attempts=view.attempts,
        failed=view.failed,
        timed_out=view.timed_out,
        lost=view.lost,
        released=view.released,
        scheduled_at=from_rfc3339(view.scheduled_at),
        due_at=from_rfc3339(view.due_at),
        created_at=from_rfc3339(view.created_at),
        first_started_at=time(view.first_started_at),
        attempt_due_at=time(view.attempt_due_at),
        started_at=time(view.started_at),
        finished_at=from_rfc3339(view.finished_at),
        error_type=view.error_type,
        error_message=view.error_message,
    )
