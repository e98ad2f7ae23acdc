"""Executions: list, show, cancel, replay."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from duly.domain.access import Role
from duly.domain.ids import ExecutionId, JobId, parse_batch_id, parse_job_id, parse_worker_id
from duly.domain.lifecycle import Outcome, State, Trigger, is_final
from duly.http import enqueue
from duly.http.cursors import Cursor, Limit, from_cursor, to_cursor
from duly.http.enqueue import QUOTAS
from duly.http.filters import FilterText, PayloadQuery, WorkerIdText
from duly.http.problems import SECRET_PROBLEMS
from duly.http.routing import Call, Reply, route
from duly.ports.search import ExecutionSearch
from duly.usecases.search import payload_matches
from duly.wire.bulk import BatchIdText, JobIdText
from duly.wire.executions import (
    AttemptView,
    EnqueuedView,
    ExecutionView,
    OutcomeName,
    ReplayShape,
    StateName,
    attempt_view,
    execution_view,
)
from duly.wire.shapes import Moment, NothingShape, Page, json_text, moment

BAD_FILTER = ("DULY-E105", "DULY-E111", "DULY-E112", "DULY-E119", "DULY-E120", "DULY-E145")


class TriggerName(StrEnum):
    """What made an execution, as it is shown."""

    SCHEDULE = "schedule"
    ENQUEUE = "enqueue"
    MANUAL = "manual"
    BACKFILL = "backfill"
    REPLAY = "replay"
    STEP = "step"


class ExecutionQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which executions of a job to list: those for which all that is given holds."""

    state: StateName | None = None
    trigger: TriggerName | None = None
    pool: FilterText | None = None
    handler: FilterText | None = None
    since: Annotated[Moment, Meta(description="scheduledAt is this time or later.")] | None = None
    until: Annotated[Moment, Meta(description="scheduledAt is before this time.")] | None = None
    last_outcome: OutcomeName | None = None
    batch_id: BatchIdText | None = None
    worker_id: WorkerIdText | None = None
    payload: PayloadQuery = {}
    limit: Limit = 50
    cursor: Cursor | None = None


class AnyExecutionQuery(ExecutionQuery, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which executions to list."""

    job_id: JobIdText | None = None
    job_name: FilterText | None = None


@route("GET", "/v1/executions", role=Role.VIEWER, answer=Page[ExecutionView], problems=BAD_FILTER)
async def list_executions(call: Call, query: AnyExecutionQuery) -> Reply:
    """List executions, newest first; a page may have fewer than `limit`, even none, and still a next one"""
    return await _list(call, query, None if query.job_id is None else parse_job_id(query.job_id), query.job_name)


@route("GET", "/v1/jobs/{jobId}/executions", role=Role.VIEWER, answer=Page[ExecutionView], problems=(*BAD_FILTER, "DULY-E204"))
async def list_job_executions(call: Call, job_id: JobId, query: ExecutionQuery) -> Reply:
    """List the executions of a job, newest first; a page may have fewer than `limit`, even none, and still a next one"""
    await call.services.jobs.show(call.actor, job_id)
    return await _list(call, query, job_id)


@route("GET", "/v1/executions/{executionId}", role=Role.VIEWER, answer=ExecutionView, problems=("DULY-E205",))
async def show_execution(call: Call, execution_id: ExecutionId) -> Reply:
    """Show an execution: where it stands, its result or error"""
    return Reply(execution_view(await call.services.executions.show(call.actor, execution_id)))


@route("GET", "/v1/executions/{executionId}/attempts", role=Role.VIEWER, answer=Page[AttemptView], problems=("DULY-E205",))
async def list_attempts(call: Call, execution_id: ExecutionId) -> Reply:
    """List the attempts of an execution, first to last"""
    found = await call.services.executions.attempts(call.actor, execution_id)
    return Reply(Page(items=[attempt_view(attempt) for attempt in found]))


@route(
    "POST",
    "/v1/executions/{executionId}/cancel",
    role=Role.OPERATOR,
    answer=ExecutionView,
    also={202: "It is running: its worker is told, and it stops soon."},
    problems=("DULY-E205", "DULY-E211"),
    body_optional=True,
)
async def cancel_execution(call: Call, execution_id: ExecutionId, body: NothingShape) -> Reply:
    """Cancel an execution: at once when it waits, soon when it runs"""
    execution = await call.services.executions.cancel(call.actor, execution_id)
    return Reply(execution_view(execution), status=200 if is_final(execution.state) else 202)


@route(
    "POST",
    "/v1/executions/{executionId}/replay",
    role=Role.OPERATOR,
    status=201,
    answer=EnqueuedView,
    problems=("DULY-E117", "DULY-E204", "DULY-E205", "DULY-E207", "DULY-E210", "DULY-E212", *QUOTAS, *SECRET_PROBLEMS),
    body_optional=True,
    idempotent=True,
    response_headers=enqueue.LOCATION,
    examples={"other": {"payload": {"dryRun": True}}},
)
async def replay_execution(call: Call, execution_id: ExecutionId, body: ReplayShape) -> Reply:
    """Run a final execution again, as a new one; a dead letter is settled by it"""
    new = await call.services.dead_letters.replay(call.actor, execution_id, json_text(body.payload, "payload"), call.idempotency)
    return await enqueue.enqueued(call, new)


async def _list(call: Call, query: ExecutionQuery, job_id: JobId | None, job_name: str | None = None) -> Reply:
    wanted = ExecutionSearch(
        tenant=call.actor.tenant,
        job_id=job_id,
        job_name=job_name,
        state=None if query.state is None else State[query.state.name],
        trigger=None if query.trigger is None else Trigger[query.trigger.name],
        pool=query.pool,
        handler=query.handler,
        since=moment(query.since, "since"),
        until=moment(query.until, "until"),
        last_outcome=None if query.last_outcome is None else Outcome[query.last_outcome.name],
        batch=None if query.batch_id is None else parse_batch_id(query.batch_id),
        worker=None if query.worker_id is None else parse_worker_id(query.worker_id),
        payload=payload_matches(query.payload),
    )
    page, reached = await call.services.search.find(wanted, from_cursor(query.cursor, call.listing), query.limit)
    cursor = None if reached is None else to_cursor(reached, call.listing)
    return Reply(Page(items=[execution_view(execution) for execution in page], next_cursor=cursor))


ROUTES = [
    list_executions,
    list_job_executions,
    show_execution,
    list_attempts,
    cancel_execution,
    replay_execution,
    *enqueue.ROUTES,
]
