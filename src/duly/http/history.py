"""What was and what comes: the last minutes in figures, a job's next fires, its runs side by side, and its versions."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from msgspec import Meta, Struct

from duly.domain.access import Role
from duly.domain.grid import MOST_RUNS
from duly.domain.history import minutes, nearest_rank
from duly.domain.ids import JobId
from duly.domain.instants import MINUTE, to_rfc3339
from duly.http.routing import Call, Reply, route
from duly.usecases.jobs import next_fires
from duly.usecases.preview import fire_view, words_of
from duly.wire.grid import GridView, grid_view
from duly.wire.history import HistoryView, change_view, milliseconds, minute_view
from duly.wire.jobs import JobView, job_view
from duly.wire.schedules import JobFireView
from duly.wire.shapes import Page

MOST_VERSIONS = 50


class HistoryQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """How far to look back."""

    minutes: Annotated[int, Meta(ge=1, le=1440, description="So many minutes, up to now.")] = 60


class FiresQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """How many fires to show."""

    count: Annotated[int, Meta(ge=1, le=100)] = 10


class GridQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """How many runs to show."""

    runs: Annotated[int, Meta(ge=1, le=MOST_RUNS, description="Of so many of the newest; those that have not begun are left out.")] = 60


@route("GET", "/v1/stats/history", role=Role.VIEWER, answer=HistoryView)
async def show_history(call: Call, query: HistoryQuery) -> Reply:
    """The last minutes, one by one: how executions ended, how late they began, how many ran; and when jobs were changed or paused"""
    now = call.now
    asked = now - query.minutes * MINUTE
    since, ended = await call.services.fleet.ended(call.actor, asked)
    changes = await call.services.fleet.changes(call.actor, asked)
    late = [max(0, each.started_at - each.due_at) for each in ended if each.is_first and each.started_at is not None]
    return Reply(
        HistoryView(
            since=to_rfc3339(since),
            until=to_rfc3339(now),
            minutes=[minute_view(minute) for minute in minutes(ended, since, now)],
            changes=[change_view(change) for change in changes],
            lateness_p95_ms=milliseconds(nearest_rank(late, 0.95)),
        )
    )


@route("GET", "/v1/jobs/{jobId}/fires", role=Role.VIEWER, answer=Page[JobFireView], problems=("DULY-E204",))
async def list_fires(call: Call, job_id: JobId, query: FiresQuery) -> Reply:
    """A job's next fires, in its own zone too, with what the clocks, calendars and jitter do to each"""
    job = await call.services.jobs.show(call.actor, job_id)
    return Reply(Page(items=[fire_view(job, at) for at in next_fires(job, query.count)]))


@route("GET", "/v1/jobs/{jobId}/grid", role=Role.VIEWER, answer=GridView, problems=("DULY-E204",))
async def show_grid(call: Call, job_id: JobId, query: GridQuery) -> Reply:
    """A job's newest runs side by side: how long each took, how late it was, and how its steps or its attempts went"""
    job = await call.services.jobs.show(call.actor, job_id)
    return Reply(grid_view(await call.services.grids.show(call.actor, job, query.runs)))


@route("GET", "/v1/jobs/{jobId}/versions", role=Role.VIEWER, answer=Page[JobView], problems=("DULY-E204",))
async def list_versions(call: Call, job_id: JobId) -> Reply:
    """A job as each of its newest versions had it, newest first; `updatedAt` is when a version was made"""
    job = await call.services.jobs.show(call.actor, job_id)
    numbers = await call.services.search.version_numbers(call.actor, job_id, MOST_VERSIONS)
    versions = await call.services.jobs.versions(numbers)
    views = [job_view(replace(job, version=version), words_of(version.spec.timing, job.id), call.now) for version in versions]
    return Reply(Page(items=views))


ROUTES = [show_history, list_fires, show_grid, list_versions]
