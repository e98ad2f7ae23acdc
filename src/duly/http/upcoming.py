"""What will fire, over all jobs of the tenant."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from duly.domain.access import Role
from duly.domain.errors import Invalid
from duly.domain.ids import job_text
from duly.domain.instants import DAY, LATEST, Instant, to_rfc3339
from duly.domain.job import Job
from duly.domain.schedule import explain_fire
from duly.http.cursors import Limit, MomentCursor, from_moment_cursor, to_moment_cursor
from duly.http.routing import Call, Reply, route
from duly.usecases.upcoming import Window
from duly.wire.shapes import Moment, moment
from duly.wire.upcoming import MinuteView, UpcomingFireView, UpcomingView

PER_JOB = 60


class Summary(StrEnum):
    """How fires are counted instead of listed."""

    MINUTE = "minute"


class UpcomingQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which fires to show."""

    since: Annotated[Moment, Meta(description="From this time on; now, when it is left out.")] | None = field(default=None, name="from")
    until: Annotated[Moment, Meta(description="Before this time; a day later, when it is left out.")] | None = None
    per_job: Annotated[int, Meta(ge=1, le=1000, description="At most so many fires of one job.")] = PER_JOB
    summary: Summary | None = None
    limit: Limit = 50
    cursor: MomentCursor | None = None


@route("GET", "/v1/upcoming", role=Role.VIEWER, answer=UpcomingView, problems=("DULY-E105", "DULY-E112", "DULY-E120"))
async def show_upcoming(call: Call, query: UpcomingQuery) -> Reply:
    """What will fire in a window of time, over all active jobs, soonest first; or how much, minute by minute"""
    # A list whose window begins now begins where its first page did.
    after = from_moment_cursor(query.cursor, call.listing)
    since = moment(query.since, "from")
    if since is None:
        since = call.services.clock.now() if after is None else min(after[0], call.services.clock.now())
    until = moment(query.until, "until")
    until = min(since + DAY, LATEST) if until is None else until
    if until <= since:
        raise Invalid("DULY-E105", "lies before the beginning of the window.", field="until")
    window = Window(since, until)
    if query.summary is Summary.MINUTE:
        if query.cursor is not None:
            raise Invalid("DULY-E106", "does not go with a summary, which has one page.", field="cursor")
        forecast, counts = await call.services.upcoming.minutes(call.actor, window)
        minutes = [MinuteView(at=to_rfc3339(at), fires=count) for at, count in sorted(counts.items())]
        return Reply(UpcomingView(since=to_rfc3339(since), until=to_rfc3339(forecast.until), items=[], minutes=minutes, capped=0))
    forecast = await call.services.upcoming.fires(call.actor, window, query.per_job, after, query.limit)
    following = None
    if forecast.has_more:
        at, job = forecast.fires[-1]
        following = to_moment_cursor(at, job.id, call.listing)
    return Reply(
        UpcomingView(
            since=to_rfc3339(since),
            until=to_rfc3339(forecast.until),
            items=[_view(at, job) for at, job in forecast.fires],
            minutes=[],
            capped=forecast.capped,
            next_cursor=following,
        )
    )


def _view(at: Instant, job: Job) -> UpcomingFireView:
    schedule = job.version.schedule
    return UpcomingFireView(
        at=to_rfc3339(at),
        job_id=job_text(job.id),
        job_name=job.version.spec.name,
        pool=job.version.spec.target.pool,
        is_skipped=job.skip_at == at,
        note=None if schedule is None else explain_fire(schedule, at),
    )


ROUTES = [show_upcoming]
