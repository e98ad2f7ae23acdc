"""A finished execution as analysts see it: one flat row, the same in ClickHouse, in a Parquet file and over the API.

Payloads, results and log lines are not in it: they may be anybody's. What is measured is decided here, once.
"""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant
from duly.domain.lifecycle import SkipReason, State, Trigger

LONGEST_MESSAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One finished execution. `attempts` is the number of the last one; 0: it never started."""

    id: ExecutionId
    tenant: str
    job_id: JobId
    job: str
    version: int
    pool: str
    handler: str
    trigger: Trigger
    state: State
    attempts: int
    scheduled_at: Instant
    due_at: Instant
    created_at: Instant
    finished_at: Instant
    started_at: Instant | None = None
    # When the first attempt began, and when the last one was due.
    first_started_at: Instant | None = None
    attempt_due_at: Instant | None = None
    step: str | None = None
    skip_reason: SkipReason | None = None
    # Attempts by how they ended.
    failed: int = 0
    timed_out: int = 0
    lost: int = 0
    released: int = 0
    # Of the end, or of the last attempt that did not succeed.
    error_type: str | None = None
    error_message: str | None = None

    @property
    def lateness_ms(self) -> float | None:
        """How long after its time the first attempt began."""
        began = self.started_at if self.first_started_at is None else self.first_started_at
        return None if began is None else (began - self.due_at) / 1000

    @property
    def wait_ms(self) -> float | None:
        """How long the last attempt was ready, or kept from being so, before a worker began it."""
        due = self.due_at if self.attempt_due_at is None else self.attempt_due_at
        return None if self.started_at is None else (self.started_at - due) / 1000

    @property
    def run_ms(self) -> float | None:
        """How long the last attempt ran."""
        return None if self.started_at is None else (self.finished_at - self.started_at) / 1000


def message_of(text: str | None) -> str | None:
    """The first line of an error's message, cut to what a group of failures can be told by."""
    return None if text is None else text.partition("\n")[0][:LONGEST_MESSAGE]
