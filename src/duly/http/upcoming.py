"""What will fire, over all jobs of the tenant."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from duly.domain.access import Role
from duly.domain.errors import Invalid
from duly.domain.expected import Expected
from duly.domain.ids import job_text
from duly.domain.instants import DAY, LATEST, SECOND, Instant, minute_text, to_rfc3339
from duly.domain.schedule import explain_fire
from duly.http.cursors import Limit, MomentCursor, from_moment_cursor, to_moment_cursor
from duly.http.filters import FilterText
from duly.http.routing import Call, Reply, route
from duly.usecases.upcoming import Coming, Window
from duly.wire.shapes import Moment, moment
from duly.wire.upcoming import MinuteView, UpcomingFireView, UpcomingView

PER_JOB = 60
# It has an answer for every minute in which something runs.
LONGEST_LOAD = 8 * DAY


class Summary(StrEnum):
    """How fires are counted instead of listed."""

    MINUTE = "minute"
    LOAD = "load"


class Standing(StrEnum):
    """Whose fires."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"


class UpcomingQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which fires to show."""

    since: Annotated[Moment, Meta(description="From this time on; now, when it is left out.")] | None = field(default=None, name="from")
    until: Annotated[Moment, Meta(description="Before this time; a day later, when it is left out.")] | None = None
    per_job: Annotated[int, Meta(ge=1, le=1000, description="At most so many fires of one job.")] = PER_JOB
    summary: Summary | None = None
    pool: Annotated[FilterText, Meta(description="Only of the jobs of this pool.")] | None = None
    state: Annotated[Standing, Meta(description="PAUSED: what paused jobs would fire before their pauses end, and do not.")] = (
        Standing.ACTIVE
    )
    limit: Limit = 50
    cursor: MomentCursor | None = None


@route("GET", "/v1/upcoming", role=Role.VIEWER, answer=UpcomingView, problems=("DULY-E105", "DULY-E112", "DULY-E120"))
async def show_upcoming(call: Call, query: UpcomingQuery) -> Reply:
    """What will fire in a window of time, over all active jobs or what paused ones would, soonest first; or how much, minute by minute"""
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
    paused_at = call.now if query.state is Standing.PAUSED else None
    if query.summary is not None:
        if query.summary is Summary.LOAD and until - since > LONGEST_LOAD:
            raise Invalid("DULY-E105", f"is too far: a load is computed for {LONGEST_LOAD // DAY} days.", field="until")
        if query.cursor is not None:
            raise Invalid("DULY-E106", "does not go with a summary, which has one page.", field="cursor")
        counted = await call.services.upcoming.minutes(call.actor, window, query.pool, paused_at=paused_at)
        counts = counted.minutes
        view = UpcomingView(since=to_rfc3339(since), until=to_rfc3339(counted.until), items=[], minutes=[], capped=0)
        if query.summary is Summary.LOAD:
            spent, view.unknown = await call.services.upcoming.load(call.actor, counted)
            view.minutes = [
                MinuteView(at=minute_text(at), fires=counts.get(at, 0), busy_sec=spent.get(at, 0) / SECOND)
                for at in sorted(counts.keys() | spent.keys())
            ]
        else:
            view.minutes = [MinuteView(at=minute_text(at), fires=count) for at, count in sorted(counts.items())]
        return Reply(view)
    forecast = await call.services.upcoming.fires(call.actor, window, query.per_job, after, query.limit, query.pool, paused_at=paused_at)
    expected = await call.services.upcoming.expected(call.actor, (job.id for _, job in forecast.fires))
    following = None
    if forecast.has_more:
        at, job = forecast.fires[-1]
        following = to_moment_cursor(at, job.id, call.listing)
    return Reply(
        UpcomingView(
            since=to_rfc3339(since),
            until=to_rfc3339(forecast.until),
            items=[_view(at, job, expected.get(job.id)) for at, job in forecast.fires],
            minutes=[],
            capped=forecast.capped,
            next_cursor=following,
        )
    )


def _view(at: Instant, job: Coming, expected: Expected | None) -> UpcomingFireView:
    schedule = job.version.schedule
    return UpcomingFireView(
        at=to_rfc3339(at),
        job_id=job_text(job.id),
        job_name=job.version.spec.name,
        pool=job.version.spec.target.pool,
        is_skipped=job.skip_at == at,
        note=None if schedule is None else explain_fire(schedule, at),
        expected_sec=None if expected is None else expected.p50 / SECOND,
    )


ROUTES = [show_upcoming]
