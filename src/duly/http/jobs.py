"""Jobs: create, list, show, change, pause, resume, skip a fire, cancel."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from duly.domain.access import Role
from duly.domain.ids import JobId, job_text
from duly.domain.job import Job, JobType
from duly.domain.lifecycle import JobState
from duly.http.cursors import Cursor, Limit, from_cursor, to_cursor
from duly.http.etags import IF_MATCH, IF_NONE_MATCH, PUT_IF, UNCHANGED, etag, expected_of_change, expected_version, tagged
from duly.http.filters import FilterText
from duly.http.limits import LARGEST_BATCH
from duly.http.problems import SECRET_PROBLEMS
from duly.http.routing import Call, Reply, route
from duly.ports.store import ExecutionFilter, JobFilter
from duly.usecases.jobs import next_fires
from duly.usecases.preview import words_of
from duly.wire.executions import execution_view
from duly.wire.jobs import (
    JobBatchShape,
    JobDetailView,
    JobShape,
    JobStateName,
    JobView,
    PauseShape,
    SkipShape,
    expected_view,
    job_fields,
    job_view,
)
from duly.wire.shapes import Moment, NothingShape, Page, moment, shown

STEP_PROBLEMS = tuple(f"DULY-E15{nth}" for nth in range(7))
SCHEDULE_PROBLEMS = (
    "DULY-E101",
    "DULY-E102",
    "DULY-E103",
    "DULY-E104",
    "DULY-E105",
    "DULY-E114",
    "DULY-E134",
    "DULY-E209",
    "DULY-E251",
    *STEP_PROBLEMS,
)
QUOTAS = ("DULY-E401", "DULY-E404", "DULY-E406")
ALERT_PROBLEMS = ("DULY-E160", "DULY-E255", "DULY-E260")
SHOWN_FIRES = 5
SHOWN_EXECUTIONS = 5

JOB_EXAMPLES = {
    "cron": {
        "name": "daily-invoices",
        "schedule": "0 3 * * *",
        "timezone": "Europe/Berlin",
        "target": {"pool": "default", "handler": "duly.echo"},
        "payload": {"tenant": "acme"},
        "retryPolicy": {"maxAttempts": 5},
    },
    "onDemand": {"name": "send-mail", "target": {"handler": "duly.echo"}},
    "webhook": {"intervalSec": 900, "target": {"http": {"url": "https://example.com/hooks/nightly"}}},
}


class JobQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which jobs to list."""

    name: FilterText | None = None
    state: JobStateName | None = None
    search: FilterText | None = None
    pool: FilterText | None = None
    handler: FilterText | None = None
    type: JobType | None = None
    next_fire_after: Annotated[Moment, Meta(description="nextFireAt is this time or later.")] | None = None
    next_fire_before: Annotated[Moment, Meta(description="nextFireAt is before this time.")] | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


@route(
    "POST",
    "/v1/jobs",
    role=Role.ADMIN,
    status=201,
    answer=JobView,
    problems=(*SCHEDULE_PROBLEMS, *QUOTAS, *SECRET_PROBLEMS, *ALERT_PROBLEMS, "DULY-E207", "DULY-E208"),
    idempotent=True,
    response_headers={"Location": "Where the job is.", "ETag": "The job's version, for If-Match."},
    examples=JOB_EXAMPLES,
)
async def create_job(call: Call, body: JobShape) -> Reply:
    """Create a job"""
    job = (await call.services.jobs.create(call.actor, [body], call.idempotency))[0]
    return Reply(_view(call, job), headers=[(b"location", f"/v1/jobs/{job_text(job.id)}".encode()), etag(job.version.version)])


@route(
    "POST",
    "/v1/jobs:batch",
    role=Role.ADMIN,
    status=201,
    answer=Page[JobView],
    problems=(*SCHEDULE_PROBLEMS, *QUOTAS, *SECRET_PROBLEMS, *ALERT_PROBLEMS, "DULY-E207", "DULY-E208"),
    limit=LARGEST_BATCH,
    idempotent=True,
    examples={
        "two": {"jobs": [{"name": "first", "target": {"handler": "duly.echo"}}, {"name": "second", "target": {"handler": "duly.echo"}}]}
    },
)
async def create_jobs(call: Call, body: JobBatchShape) -> Reply:
    """Create many jobs in one transaction: all of them, or none"""
    created = await call.services.jobs.create(call.actor, body.jobs, call.idempotency)
    return Reply(Page(items=[_view(call, job) for job in created]))


@route("GET", "/v1/jobs", role=Role.VIEWER, answer=Page[JobView], problems=("DULY-E105", "DULY-E112", "DULY-E120"))
async def list_jobs(call: Call, query: JobQuery) -> Reply:
    """List jobs, newest first; a page may have fewer than `limit`, even none, and still a next one"""
    page, following = await call.services.jobs.page(
        JobFilter(
            tenant=call.actor.tenant,
            name=query.name,
            state=None if query.state is None else JobState[query.state.name],
            search=query.search,
            handler=query.handler,
            pool=query.pool,
            type=query.type,
            next_fire_after=moment(query.next_fire_after, "nextFireAfter"),
            next_fire_before=moment(query.next_fire_before, "nextFireBefore"),
            before=from_cursor(query.cursor, call.listing),
            limit=query.limit,
        )
    )
    cursor = None if following is None else to_cursor(following, call.listing)
    return Reply(Page(items=[_view(call, job) for job in page], next_cursor=cursor))


@route(
    "GET",
    "/v1/jobs/{jobId}",
    role=Role.VIEWER,
    answer=JobDetailView,
    also=UNCHANGED,
    problems=("DULY-E204",),
    request_headers=IF_NONE_MATCH,
    response_headers={"ETag": "What was answered, for If-None-Match and If-Match."},
)
async def show_job(call: Call, job_id: JobId) -> Reply:
    """Show a job with its next fires and latest executions"""
    job = await call.services.jobs.show(call.actor, job_id)
    latest = await call.services.executions.find(ExecutionFilter(tenant=call.actor.tenant, job_id=job_id, limit=SHOWN_EXECUTIONS))
    now = call.services.clock.now()
    view = JobDetailView(
        **job_fields(job, words_of(job.version.spec.timing, job.id), now),
        next_fires=[shown(at) or "" for at in next_fires(job, SHOWN_FIRES)],
        latest_executions=[execution_view(execution) for execution in latest],
        expected_duration=expected_view((await call.services.upcoming.expected(call.actor, [job.id])).get(job.id)),
    )
    return tagged(call, view, job.version.version)


@route(
    "PUT",
    "/v1/jobs/{jobId}",
    role=Role.ADMIN,
    answer=JobView,
    problems=(*SCHEDULE_PROBLEMS, *QUOTAS, *SECRET_PROBLEMS, *ALERT_PROBLEMS, "DULY-E204", "DULY-E208", "DULY-E210"),
    request_headers=PUT_IF,
    response_headers={"ETag": "The job's new version, for If-Match."},
    examples=JOB_EXAMPLES,
)
async def change_job(call: Call, job_id: JobId, body: JobShape) -> Reply:
    """Give a job a new version"""
    job = await call.services.jobs.change(call.actor, job_id, body, expected_of_change(call))
    return Reply(_view(call, job), headers=[etag(job.version.version)])


@route(
    "DELETE",
    "/v1/jobs/{jobId}",
    role=Role.ADMIN,
    answer=JobView,
    problems=("DULY-E204", "DULY-E209"),
    request_headers=IF_MATCH,
)
async def cancel_job(call: Call, job_id: JobId) -> Reply:
    """Cancel a job and its future fires; its history stays, and what runs goes on"""
    return Reply(_view(call, await call.services.jobs.cancel(call.actor, job_id, expected_version(call))))


@route(
    "POST",
    "/v1/jobs/{jobId}/pause",
    role=Role.OPERATOR,
    answer=JobView,
    problems=("DULY-E105", "DULY-E204", "DULY-E209", "DULY-E210"),
    body_optional=True,
    request_headers=IF_MATCH,
    examples={"forGood": {"reason": "the disks are full"}, "untilMonday": {"until": "2026-12-28T07:00:00Z"}},
)
async def pause_job(call: Call, job_id: JobId, body: PauseShape) -> Reply:
    """Pause a job: no fire until it is resumed, or until a time"""
    until = moment(body.until, "until")
    return Reply(_view(call, await call.services.jobs.pause(call.actor, job_id, body.reason, until, expected_version(call))))


@route(
    "POST",
    "/v1/jobs/{jobId}/resume",
    role=Role.OPERATOR,
    answer=JobView,
    problems=("DULY-E204", "DULY-E209", "DULY-E210"),
    body_optional=True,
    request_headers=IF_MATCH,
)
async def resume_job(call: Call, job_id: JobId, body: NothingShape) -> Reply:
    """Resume a paused job: it fires again from now on"""
    return Reply(_view(call, await call.services.jobs.resume(call.actor, job_id, expected_version(call))))


@route(
    "POST",
    "/v1/jobs/{jobId}/skip",
    role=Role.OPERATOR,
    answer=JobView,
    problems=("DULY-E105", "DULY-E136", "DULY-E204", "DULY-E209", "DULY-E210", "DULY-E253"),
    body_optional=True,
    request_headers=IF_MATCH,
    examples={"next": {}, "thatOne": {"at": "2026-12-24T03:00:00Z"}},
)
async def skip_fire(call: Call, job_id: JobId, body: SkipShape) -> Reply:
    """Skip one fire: the next one, or the one at a time; it is recorded as skipped when that time comes"""
    return Reply(_view(call, await call.services.jobs.skip(call.actor, job_id, moment(body.at, "at"), expected_version(call))))


@route(
    "POST",
    "/v1/jobs/{jobId}/unskip",
    role=Role.OPERATOR,
    answer=JobView,
    problems=("DULY-E204", "DULY-E209"),
    body_optional=True,
    request_headers=IF_MATCH,
)
async def unskip_fire(call: Call, job_id: JobId, body: NothingShape) -> Reply:
    """Take a skip back"""
    return Reply(_view(call, await call.services.jobs.unskip(call.actor, job_id, expected_version(call))))


def _view(call: Call, job: Job) -> JobView:
    return job_view(job, words_of(job.version.spec.timing, job.id), call.services.clock.now())


ROUTES = [create_job, create_jobs, list_jobs, show_job, change_job, cancel_job, pause_job, resume_job, skip_fire, unskip_fire]
