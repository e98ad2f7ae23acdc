"""Dead letters: by their causes, one by one, discarded, retried."""

from __future__ import annotations

from msgspec import Struct

from duly.domain.access import Role
from duly.domain.ids import ExecutionId, execution_text, job_text, parse_job_id
from duly.http.cursors import Cursor, Limit, from_cursor, to_cursor
from duly.http.enqueue import QUOTAS
from duly.http.routing import Call, Reply, route
from duly.usecases.dead_letters import cause_of_letter
from duly.wire.bulk import CauseText, DeadGroupView, DeadLettersView, DeadLetterView, JobIdText
from duly.wire.executions import ExecutionView, execution_view
from duly.wire.shapes import NothingShape, Page, shown


class GroupQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which groups to show."""

    job_id: JobIdText | None = None
    cause: CauseText | None = None


class LetterQuery(GroupQuery, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which letters to list."""

    limit: Limit = 50
    cursor: Cursor | None = None


@route("GET", "/v1/dead-letters", role=Role.VIEWER, answer=DeadLettersView, problems=("DULY-E111",))
async def list_dead_letters(call: Call, query: GroupQuery) -> Reply:
    """Open dead letters, grouped by job and cause, largest group first"""
    job_id = None if query.job_id is None else parse_job_id(query.job_id)
    found = await call.services.dead_letters.groups(call.actor, job_id, query.cause)
    views = [
        DeadGroupView(
            cause=group.cause.key,
            job_id=job_text(group.job_id),
            job_name=group.job_name,
            type=group.cause.type,
            message=group.cause.message,
            count=group.count,
            first=shown(group.first) or "",
            last=shown(group.last) or "",
            sample=execution_text(group.sample),
        )
        for group in found.groups
    ]
    return Reply(DeadLettersView(items=views, letters=found.letters, complete=found.complete))


@route("GET", "/v1/dead-letters/open", role=Role.VIEWER, answer=Page[DeadLetterView], problems=("DULY-E111", "DULY-E112", "DULY-E120"))
async def list_open_letters(call: Call, query: LetterQuery) -> Reply:
    """Open dead letters one by one, newest first; a page may have fewer than `limit`, even none, and still a next one"""
    job_id = None if query.job_id is None else parse_job_id(query.job_id)
    before = from_cursor(query.cursor, call.listing)
    page, following = await call.services.dead_letters.find(call.actor, job_id, query.cause, before, query.limit)
    views = [
        DeadLetterView(
            execution_id=execution_text(letter.id),
            job_id=job_text(letter.job_id),
            job_name=letter.job_name,
            cause=cause_of_letter(letter).key,
            died_at=shown(letter.died_at) or "",
            attempts=letter.attempts,
            error=letter.error,
        )
        for letter in page
    ]
    return Reply(Page(items=views, next_cursor=None if following is None else to_cursor(following, call.listing)))


@route(
    "POST",
    "/v1/executions/{executionId}/discard",
    role=Role.OPERATOR,
    answer=ExecutionView,
    problems=("DULY-E205", "DULY-E232"),
    body_optional=True,
)
async def discard_execution(call: Call, execution_id: ExecutionId, body: NothingShape) -> Reply:
    """Put a dead letter away; its history stays"""
    return Reply(execution_view(await call.services.dead_letters.discard(call.actor, execution_id)))


@route(
    "POST",
    "/v1/executions/{executionId}/retry",
    role=Role.OPERATOR,
    answer=ExecutionView,
    problems=("DULY-E204", "DULY-E205", "DULY-E207", "DULY-E210", "DULY-E231", *QUOTAS),
    body_optional=True,
    idempotent=True,
)
async def retry_execution(call: Call, execution_id: ExecutionId, body: NothingShape) -> Reply:
    """Let a retry that waits run now, or replay a dead letter; answers the execution that runs"""
    return Reply(execution_view(await call.services.dead_letters.retry(call.actor, execution_id, call.idempotency)))


ROUTES = [list_dead_letters, list_open_letters, discard_execution, retry_execution]
