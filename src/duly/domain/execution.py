"""Executions and attempts, as values that cross the ports.

What comes in thousands a second is a NamedTuple: as immutable as a frozen dataclass, at a quarter of its price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple
from uuid import UUID

from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant, Micros
from duly.domain.lifecycle import Outcome, SkipReason, State, Trigger
from duly.domain.limits import Gate
from duly.domain.overlap import Overlap

LeaseId = int
WorkerId = int


class NewExecution(NamedTuple):
    """An execution to be written: the immutable header. Payload is JSON text; None means the job version's.

    `scheduled_at` is its nominal time where that is not when it is due; `gates` the limits it passes before it is ready;
    `unique` a key that only one may have, with the end of its window (None: until it is final); `batch` what made it in bulk.
    `within_quota` says that its tenant has quotas for what comes in, which must have room for it.
    `trace` is the context of whoever asked for it, if that is to be carried.
    In an answer, `is_duplicate` says that its key was taken and the id is that of the one who has it.
    """

    id: ExecutionId
    job_id: JobId
    job_version: int
    tenant: int
    route: int
    shard: int
    trigger: Trigger
    due_at: Instant
    rank: int
    payload: str | None = None
    scheduled_at: Instant | None = None
    gates: tuple[Gate, ...] = ()
    unique: tuple[UUID, Instant | None] | None = None
    batch: UUID | None = None
    within_quota: bool = False
    is_duplicate: bool = False
    trace: str | None = None


class Fire(NamedTuple):
    """One target of a schedule, to be written as an execution: it runs, or is recorded with the reason why not.

    `at` is its nominal time and its identity; it is due `delay` later (jitter).
    """

    id: ExecutionId
    job_id: JobId
    at: Instant
    job_version: int
    tenant: int
    route: int
    rank: int
    shard: int
    overlap: Overlap
    skip: SkipReason | None = None
    skip_by: str | None = None
    delay: Micros = 0
    gates: tuple[Gate, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it can be written with thousands of others in one statement."""
        return self.overlap.is_one_or_none and not self.gates and self.skip is not SkipReason.ASKED


class Advance(NamedTuple):
    """A schedule moves from where it was read to its next fire (None: it has no more and its job is complete).

    `skip_at` is the fire that was asked to be skipped, as it was read: if that has changed meanwhile, somebody reads again.
    """

    job_id: JobId
    shard: int
    version: int
    read_at: Instant
    next_at: Instant | None
    skip_at: Instant | None = None


class DueSchedule(NamedTuple):
    """A schedule whose next fire has come."""

    job_id: JobId
    shard: int
    next_fire_at: Instant
    version: int
    skip_at: Instant | None = None
    skip_by: str | None = None


@dataclass(slots=True)
class Claimed:
    """A batch of executions under one lease, in parallel lists: the claim is the hottest path, and rows cost."""

    lease: LeaseId
    ids: list[ExecutionId]
    attempts: list[int]
    failures: list[int]
    job_versions: list[int]
    due_ats: list[Instant]
    holds_place: list[bool]
    payloads: list[Any]
    scheduled_ats: list[Instant]
    # Whether a payload may name secrets, or be sealed or Unreadable: looked at once for all of them.
    marked: bool = True
    # Where somebody traces: the contexts of those that are traced, as text, by their places in the lists.
    traces: dict[int, str] | None = None
    # Whether one of them may have been given a context by whoever submitted it.
    may_be_traced: bool = True

    def part(self, wanted: Sequence[int]) -> Claimed:
        """The same lease with some of its executions, by their places in the lists."""
        lists = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in _OF_ALL}
        chosen = {name: [values[nth] for nth in wanted] for name, values in lists.items()}
        told = None if self.traces is None else {at: self.traces[nth] for at, nth in enumerate(wanted) if nth in self.traces}
        return Claimed(self.lease, marked=self.marked, traces=told, may_be_traced=self.may_be_traced, **chosen)


_OF_ALL = frozenset({"lease", "marked", "traces", "may_be_traced"})


@dataclass(slots=True)
class Finished:
    """One attempt's end, as the worker reports it. `state` SCHEDULED with `retry_at` means: again, later."""

    id: ExecutionId
    lease: LeaseId
    outcome: Outcome
    state: State
    started_at: Instant
    finished_at: Instant
    job_id: JobId
    shard: int
    holds_place: bool
    result: str | None = None
    error: str | None = None
    retry_at: Instant | None = None
    # Of a workflow: what comes after it is handed over to.
    is_step: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """An attempt whose worker is gone, before it is decided what becomes of it."""

    id: ExecutionId
    lease: LeaseId
    worker: WorkerId
    granted_at: Instant
    attempt: int
    failures: int
    losses: int
    cancelled: bool
    job_id: JobId
    job_version: int
    holds_place: bool


class Stop(NamedTuple):
    """A running execution that somebody asked to stop. Past `kill_at` it is no longer asked but ended; None: it is only asked."""

    id: ExecutionId
    kill_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """What an execution keeps over its attempts: its last checkpoint with its number (0: none yet) and its latest progress, as JSON."""

    number: int
    checkpoint: str | None
    progress: str | None
    saved_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of an attempt that ended badly: SCHEDULED at `retry_at`, or final with an error."""

    state: State
    retry_at: Instant | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Execution:
    """An execution as people read it: the header and where it stands now."""

    id: ExecutionId
    job_id: JobId
    job_name: str
    job_version: int
    tenant: int
    state: State
    trigger: Trigger
    due_at: Instant
    created_at: Instant
    attempt: int
    max_attempts: int
    last_outcome: Outcome | None = None
    next_attempt_at: Instant | None = None
    attempt_due_at: Instant | None = None
    fence: LeaseId | None = None
    worker: WorkerId | None = None
    started_at: Instant | None = None
    finished_at: Instant | None = None
    payload: str | None = None
    result: str | None = None
    error: str | None = None
    cancel_asked_at: Instant | None = None
    skip: SkipReason | None = None
    scheduled_at: Instant | None = None
    batch: UUID | None = None
    replayed_as: ExecutionId | None = None
    discarded_at: Instant | None = None
    saved: Saved | None = None
    # Of a step: its run (or its mapped step), its place in the workflow, and which item it is.
    run: ExecutionId | None = None
    step: int | None = None
    step_name: str | None = None
    nth: int | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One ended or running try of an execution."""

    attempt: int
    outcome: Outcome | None
    fence: LeaseId
    worker: WorkerId
    started_at: Instant | None
    finished_at: Instant | None
    retry_at: Instant | None
    error: str | None


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that a handler logged during an attempt."""

    at: Instant
    level: str
    message: str
    fields: dict[str, Any] = field(default_factory=dict)
