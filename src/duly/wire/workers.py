"""The worker protocol on the wire: what a worker sends and what it is answered. Durations only, so that its clock may be wrong."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, UnsetType

from duly.wire.executions import StateName
from duly.wire.shapes import NO_NUL, Label, LabelValue, Name, PoolName, Shape, View, held_to, pattern

LARGEST_RESULT = 1 << 20
MOST_LEASED = 1000
LONGEST_WAIT = 30

WorkerNumber = Annotated[str, Meta(min_length=1, max_length=18, extra_json_schema=pattern("^[0-9]{1,18}$"), examples=["17"])]
RunId = Annotated[str, Meta(extra_json_schema=pattern("^run_[0-9a-f]{32}$"), examples=["run_0198c2d5a4e87f3b9c1d2e3f4a5b6c7d"])]
Fence = Annotated[int, Meta(ge=0, le=9_007_199_254_740_991, description="The leaseId under which the execution was answered.")]
Took = Annotated[float, Meta(ge=0, le=315_360_000)]
Ttl = Annotated[float, Meta(ge=1, le=3600, description="How long the worker lives without a heartbeat; the server's own otherwise.")]
# A decade of milliseconds: whatever a wall clock may show.
Skew = Annotated[float, Meta(ge=-315_576_000_000, le=315_576_000_000)]
Note = Annotated[str, Meta(max_length=256, extra_json_schema=NO_NUL)]
Error = Annotated[
    dict[str, Any],
    Meta(
        max_length=32,
        description="Why: `type` and `message`, and what else is worth keeping, such as `detail`.",
        examples=[{"type": "ValueError", "message": "no such table: orders"}],
    ),
]
Kinds = Annotated[
    list[Annotated[str, Meta(max_length=256, extra_json_schema=NO_NUL)]],
    Meta(max_length=64, description="The names that the job's retry rules look for; the error's `type` when there are none."),
]
Level = Annotated[str, Meta(min_length=1, max_length=16, examples=["info"], **held_to("^[A-Za-z]+$"))]
HandlerName = Annotated[str, Meta(min_length=1, max_length=128, **held_to("^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"))]


class RegisterShape(Shape, kw_only=True):
    """What a worker says of itself. Every start is a new worker."""

    name: Name
    handlers: Annotated[list[Name], Meta(min_length=1, max_length=10_000, examples=[["duly.echo", "resize"]])]
    pool: PoolName = "default"
    labels: Annotated[dict[Label, LabelValue], Meta(max_length=64)] = {}
    slots: Annotated[int, Meta(ge=1, le=100_000)] = 1
    host: Note = ""
    pid: Annotated[int, Meta(ge=0, le=2_147_483_647)] = 0
    version: Note = ""
    ttl_sec: Ttl | None = None
    clock_skew_ms: Skew | None = None


class RegisteredView(View, kw_only=True):
    """The worker's number, and how it stays alive."""

    worker_id: str
    ttl_sec: float
    heartbeat_sec: float
    trusted_for_sec: float
    store_now: str


class RoomShape(Shape, kw_only=True):
    """Handlers that need more than a slot, a child process for example, and how many of them all could begin now."""

    handlers: Annotated[list[HandlerName], Meta(min_length=1, max_length=10_000, examples=[["resize"]])]
    max: Annotated[int, Meta(ge=0, le=MOST_LEASED)]


class LeaseShape(Shape, kw_only=True):
    """How much to take and how long to wait for it. `known` are the leases that the worker has: any other one is answered again.
    `rooms` bound handlers that could only wait for a place: other workers may have one."""

    max: Annotated[int, Meta(ge=1, le=MOST_LEASED)] = 1
    wait_sec: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0
    known: Annotated[list[Fence], Meta(max_length=10_000)] = []
    definitions: bool = False
    rooms: Annotated[list[RoomShape], Meta(max_length=100)] = []


class CheckpointView(View, kw_only=True):
    """What the execution saved last, in whichever attempt."""

    number: int
    data: Any


class LeasedView(View, kw_only=True):
    """One execution to run now."""

    execution_id: str
    job_id: str
    job_name: str
    job_version: int
    handler: str
    tenant: str
    attempt: int
    max_attempts: int
    failures: int
    scheduled_at: str
    due_at: str
    timeout_sec: float | None
    payload: Any
    idempotency_key: str
    losses: int = 0
    checkpoint: CheckpointView | None = None
    traceparent: str | None = None


class LeaseView(View, kw_only=True):
    """A batch under one lease; `leaseId` is the fence of everything that is reported about it."""

    lease_id: int
    executions: list[LeasedView]
    definitions: dict[str, Any] | None = None


class HeartbeatShape(Shape, kw_only=True):
    """I am alive. With `waitSec` the answer waits for a stop that is not among those `heard` already. `clockSkewMs` says how far the
    worker's clock is ahead of `storeNow`, when that has changed."""

    ttl_sec: Ttl | None = None
    wait_sec: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0
    heard: Annotated[list[RunId], Meta(max_length=10_000)] = []
    clock_skew_ms: Skew | None = None


class StopView(View, kw_only=True):
    """Somebody asked this execution to stop. With `killInSec` it is to be killed if it still runs by then."""

    execution_id: str
    kill_in_sec: float | None = None


class HeartbeatView(View, kw_only=True):
    """What to stop, and for how long (counted from before the request) the worker may trust its leases."""

    stop: list[StopView]
    trusted_for_sec: float
    store_now: str


class DrainShape(Shape, kw_only=True):
    """No more leases. With `retire` what is still held is given back at no cost, and the worker is gone."""

    retire: bool = False


class DrainView(View, kw_only=True):
    """How many executions were given back."""

    released: int
    retired: bool


class FencedShape(Shape, kw_only=True):
    """Who writes, and under which lease."""

    worker_id: WorkerNumber
    fence: Fence


class CompleteShape(FencedShape, kw_only=True):
    """The attempt succeeded."""

    result: Raw | UnsetType = UNSET
    took_sec: Took | None = None
    ago_sec: Took = 0


class BadEnd(StrEnum):
    """How an attempt can end that did not succeed."""

    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"


class FailShape(FencedShape, kw_only=True):
    """The attempt failed. The job's policy decides whether it is tried again, unless `retry` is false."""

    error: Error | None = None
    kinds: Kinds = []
    outcome: BadEnd = BadEnd.FAILED
    retry: bool = True
    retry_after_sec: Took | None = None
    took_sec: Took | None = None
    ago_sec: Took = 0


class ReleaseShape(FencedShape, kw_only=True):
    """The attempt is given back at no cost; another worker may start it at once, or after a while."""

    retry_after_sec: Took | None = None


class End(StrEnum):
    """How an attempt can end. WORKER_LOST: the process that ran it died, and the worker lives on."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"
    RELEASED = "RELEASED"
    WORKER_LOST = "WORKER_LOST"


class ResultShape(Shape, kw_only=True):
    """The end of one attempt among many."""

    execution_id: RunId
    fence: Fence
    outcome: End
    result: Raw | UnsetType = UNSET
    error: Error | None = None
    kinds: Kinds = []
    retry: bool = True
    retry_after_sec: Took | None = None
    took_sec: Took | None = None
    ago_sec: Took = 0


class LineShape(Shape, kw_only=True):
    """One line that the handler logged."""

    message: Annotated[str, Meta(max_length=16_384, extra_json_schema=NO_NUL)]
    level: Level = "info"
    fields: dict[str, Any] = {}
    ago_sec: Took = 0


Lines = Annotated[list[LineShape], Meta(min_length=1, max_length=2000)]


class LogShape(FencedShape, kw_only=True):
    """Lines of one attempt."""

    lines: Lines


class LinesShape(Shape, kw_only=True):
    """Lines of one attempt among many."""

    execution_id: RunId
    fence: Fence
    lines: Lines


class CheckpointShape(FencedShape, kw_only=True):
    """What the next attempt starts with, should this one not end well. Numbers grow over all attempts."""

    number: Annotated[int, Meta(ge=1, le=2_147_483_647)]
    data: Raw


class CheckpointedView(View, kw_only=True):
    """The checkpoint is kept."""

    number: int


class ProgressShape(FencedShape, kw_only=True):
    """How far the attempt has come, for people."""

    progress: Raw


class OneProgressShape(Shape, kw_only=True):
    """How far one attempt among many has come."""

    execution_id: RunId
    fence: Fence
    progress: Raw


class NothingView(View, kw_only=True):
    """It is done; there is nothing to say about it."""


class ReportShape(Shape, kw_only=True):
    """Many at once: lines and progress are kept first, then the ends are written."""

    results: Annotated[list[ResultShape], Meta(max_length=MOST_LEASED)] = []
    logs: Annotated[list[LinesShape], Meta(max_length=MOST_LEASED)] = []
    progress: Annotated[list[OneProgressShape], Meta(max_length=MOST_LEASED)] = []


class EndedView(View, kw_only=True):
    """Where the execution stands now."""

    execution_id: str
    state: StateName
    next_attempt_at: str | None = None


class ResultView(View, kw_only=True):
    """Where the execution stands now, or with `code` why the report was refused."""

    execution_id: str
    state: StateName | None = None
    next_attempt_at: str | None = None
    code: str | None = None


class ReportView(View, kw_only=True):
    """One answer per result, in order, and how many lines were kept."""

    results: list[ResultView]
    lines_kept: int
    lines_dropped: int = 0


class KeptView(View, kw_only=True):
    """How many lines were kept, and how many were not because the attempt has logged too much."""

    lines_kept: int
    lines_dropped: int = 0
