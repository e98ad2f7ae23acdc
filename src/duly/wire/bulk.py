"""Dead letters, bulk actions and batches on the wire."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, UnsetType, field

from duly.domain.bulk import BulkAction, Match
from duly.domain.ids import parse_batch_id, parse_execution_id, parse_job_id
from duly.domain.lifecycle import State
from duly.wire.executions import StateName
from duly.wire.shapes import Moment, Shape, View, moment, pattern

JobIdText = Annotated[str, Meta(extra_json_schema=pattern("^job_[0-9a-f]{32}$"))]
ExecutionIdText = Annotated[str, Meta(extra_json_schema=pattern("^run_[0-9a-f]{32}$"))]
BatchIdText = Annotated[str, Meta(extra_json_schema=pattern("^batch_[0-9a-f]{32}$"))]
# `\Z`, because `$` takes a newline; the document says it as others write it.
CauseText = Annotated[
    str,
    Meta(min_length=1, max_length=64, pattern=r"^[0-9a-f]+\Z", description="A group's `cause`.", extra_json_schema=pattern("^[0-9a-f]+$")),
]
Rate = Annotated[float, Meta(gt=0, le=100_000)]
Count = Annotated[int, Meta(ge=1, le=10_000)]


class MatchShape(Shape, kw_only=True):
    """Which executions are meant: those for which all that is given holds."""

    job_id: JobIdText | None = None
    state: StateName | None = None
    cause: CauseText | None = None
    created_before: Moment | None = None
    created_after: Moment | None = None
    batch_id: BatchIdText | None = None
    ids: Annotated[list[ExecutionIdText], Meta(max_length=10_000)] | None = None


class BulkShape(Shape, kw_only=True):
    """A bulk action, or the rest of one: then `batchId` and `continue` say all."""

    action: BulkAction | None = None
    match: MatchShape | None = None
    everything: bool = False
    dry_run: bool = False
    rate_per_sec: Rate | None = None
    canary: Count | None = None
    limit: Count | None = None
    payload: Raw | UnsetType = UNSET
    batch_id: BatchIdText | None = None
    go_on: bool | Literal["anyway"] = field(default=False, name="continue")


class BulkView(View, kw_only=True):
    """What a call has done; `batchId` is null after a dry run. `remaining` are left for a call that continues."""

    batch_id: str | None
    action: BulkAction
    matched: int
    done: int
    skipped: int
    remaining: int
    sample: list[str]


class BatchView(View, kw_only=True):
    """A bulk action, and where the executions that it made stand."""

    batch_id: str
    kind: str
    asked_at: str
    asked_by: str
    total: int
    aborted_at: str | None
    executions: dict[str, int]


class DeadGroupView(View, kw_only=True):
    """Open dead letters of one job that died of the same; `message` is the error without what differs from run to run."""

    cause: str
    job_id: str
    job_name: str
    type: str | None
    message: str
    count: int
    first: str
    last: str
    sample: str


class DeadLettersView(View, kw_only=True):
    """The groups, largest first, and how many letters they have in all. `complete` false: there are more than were counted."""

    items: list[DeadGroupView]
    letters: int
    complete: bool


class DeadLetterView(View, kw_only=True):
    """One open dead letter."""

    execution_id: str
    job_id: str
    job_name: str
    cause: str
    died_at: str
    attempts: int
    error: Any


def match_of(shape: MatchShape) -> Match:
    """Which executions are meant. Raises Invalid for malformed ids and times."""
    return Match(
        job_id=None if shape.job_id is None else parse_job_id(shape.job_id),
        state=None if shape.state is None else State[shape.state.name],
        cause=shape.cause,
        created_before=moment(shape.created_before, "match.createdBefore"),
        created_after=moment(shape.created_after, "match.createdAfter"),
        batch=None if shape.batch_id is None else parse_batch_id(shape.batch_id),
        ids=None if shape.ids is None else tuple(parse_execution_id(text) for text in shape.ids),
    )
