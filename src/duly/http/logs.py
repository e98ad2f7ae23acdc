"""What executions have logged: read, followed, and looked through across a job's recent executions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from duly.domain.access import Role
from duly.domain.ids import ExecutionId, JobId
from duly.domain.lifecycle import is_final
from duly.domain.logs import LogFilter
from duly.http.cursors import LogCursor, MomentCursor, from_event_id, from_log_cursor, from_moment_cursor, to_moment_cursor
from duly.http.routing import Call, Reply, Stream, route
from duly.wire.executions import FoundLineView, LevelName, LogLineView, found_line_view, log_view
from duly.wire.shapes import NO_NUL, Moment, Page, moment

TAIL_EVERY = 0.5
# A comment that often keeps proxies from cutting a quiet stream.
BREATHE_EVERY = 30
TAIL_LINES = 500

Least = Annotated[LevelName, Meta(description="Lines of this level or higher.")]
Contains = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="Lines with this text in them or in their fields, whatever the case of its letters (of those that ASCII has).",
        extra_json_schema=NO_NUL,
    ),
]
AttemptNumber = Annotated[int, Meta(ge=1, le=32_767)]
Lines = Annotated[int, Meta(ge=1, le=1000)]

_encoder = msgspec.json.Encoder()


class LogQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which log lines of an execution to read."""

    attempt: AttemptNumber | None = None
    level: Least | None = None
    contains: Contains | None = None
    limit: Lines = 200
    cursor: LogCursor | None = None

    @property
    def wanted(self) -> LogFilter:
        """The lines that are meant."""
        return LogFilter(self.attempt, None if self.level is None else self.level.value, self.contains)


class JobLogQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which log lines of a job's executions to read."""

    level: Least | None = None
    contains: Contains | None = None
    since: Annotated[Moment, Meta(description="Of executions that were asked for, or due, then or later.")] | None = None
    limit: Lines = 200
    cursor: MomentCursor | None = None


@route(
    "GET",
    "/v1/executions/{executionId}/logs",
    role=Role.VIEWER,
    answer=Page[LogLineView],
    problems=("DULY-E112", "DULY-E205", "DULY-E413"),
    streams=True,
)
async def list_logs(call: Call, execution_id: ExecutionId, query: LogQuery) -> Reply | Stream:
    """Read an execution's log lines, or follow them with `Accept: text/event-stream`"""
    cursor = query.cursor
    if b"text/event-stream" in call.headers.get(b"accept", b""):
        sent = call.headers.get(b"last-event-id")
        after = from_log_cursor(cursor) if sent is None else from_event_id(sent)
        await call.services.executions.show(call.actor, execution_id)
        return Stream(_tail(call, execution_id, query.wanted, after))
    found, reached = await call.services.logs.of_execution(call.actor, execution_id, query.wanted, from_log_cursor(cursor), query.limit)
    items = [log_view(line.attempt, line.line) for line in found]
    return Reply(Page(items=items, next_cursor=None if reached is None else str(reached)))


@route(
    "GET",
    "/v1/jobs/{jobId}/logs",
    role=Role.VIEWER,
    answer=Page[FoundLineView],
    problems=("DULY-E105", "DULY-E112", "DULY-E120", "DULY-E204"),
)
async def list_job_logs(call: Call, job_id: JobId, query: JobLogQuery) -> Reply:
    """Look through what a job's executions logged, newest first; a page may have fewer than `limit`, even none, and still a next one"""
    place = from_moment_cursor(query.cursor, call.listing)
    found, reached = await call.services.logs.of_job(
        call.actor,
        job_id,
        LogFilter(None, None if query.level is None else query.level.value, query.contains),
        moment(query.since, "since"),
        None if place is None else (place[1], place[0]),
        query.limit,
    )
    cursor = None if reached is None else to_moment_cursor(reached[1], reached[0], call.listing)
    return Reply(Page(items=[found_line_view(line.execution, line.attempt, line.line) for line in found], next_cursor=cursor))


async def _tail(call: Call, execution_id: ExecutionId, wanted: LogFilter, after: int) -> AsyncIterator[bytes]:
    """Lines as they come, then an `end` event once the execution is final and all is sent. A revoked key ends it too."""
    was_final = False
    quiet = 0
    while await call.is_still_known():
        lines, reached = await call.services.logs.of_execution(call.actor, execution_id, wanted, after, TAIL_LINES)
        for line in lines:
            after = line.sequence
            yield b"id: %d\nevent: log\ndata: %b\n\n" % (line.sequence, _encoder.encode(log_view(line.attempt, line.line)))
        if reached is not None:
            after = reached
            continue
        execution = await call.services.executions.show(call.actor, execution_id)
        # Only lines that were read after it was final are surely the last ones.
        if was_final:
            yield b"event: end\ndata: %b\n\n" % _encoder.encode({"state": execution.state.name})
            return
        was_final = is_final(execution.state)
        if was_final:
            continue
        quiet = 0 if lines else quiet + 1
        if quiet % BREATHE_EVERY == BREATHE_EVERY - 1:
            yield b": still here\n\n"
        await call.sleep(TAIL_EVERY)


ROUTES = [list_logs, list_job_logs]
