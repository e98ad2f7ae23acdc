"""Crowded minutes: how jobs would stand apart, and the moves carried out."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from duly.domain.access import Role
from duly.domain.errors import Conflict, Invalid, NotFound
from duly.domain.ids import job_text, parse_job_id
from duly.domain.instants import to_rfc3339
from duly.http.filters import FilterText
from duly.http.routing import Call, Reply, route
from duly.wire.upcoming import (
    MoveView,
    RefusedMoveView,
    RescheduledView,
    RescheduleShape,
    SpreadMinuteView,
    SpreadView,
)

MOST = 10


class SpreadQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """How crowded a minute may be."""

    most: Annotated[int, Meta(ge=1, le=10_000, description="How many of these jobs a minute may have.")] = MOST
    pool: Annotated[FilterText, Meta(description="Only of the jobs of this pool.")] | None = None


@route("GET", "/v1/schedules/spread", role=Role.VIEWER, answer=SpreadView)
async def show_spread(call: Call, query: SpreadQuery) -> Reply:
    """Which jobs would have to move so that no minute of the coming day is crowded, with the day before and after; changes nothing"""
    now = call.services.clock.now()
    found = await call.services.upcoming.spread(call.actor, now, query.most, query.pool)
    return Reply(
        SpreadView(
            since=to_rfc3339(now),
            most=query.most,
            moves=[
                MoveView(
                    job_id=job_text(job.id),
                    job_name=job.version.spec.name,
                    pool=job.version.spec.target.pool,
                    before=move.before,
                    after=move.after,
                    source=job.version.spec.source,
                )
                for move, job in found.moves
            ],
            minutes=[
                SpreadMinuteView(at=to_rfc3339(at), before=found.before[at], after=found.after[at])
                for at in sorted(found.before | found.after)
            ],
            often=found.often,
            is_whole=found.is_whole,
        )
    )


@route(
    "POST",
    "/v1/jobs:reschedule",
    role=Role.ADMIN,
    answer=RescheduledView,
    examples={"two": {"moves": [{"jobId": "job_0198c2d5a4e87f3b9c1d2e3f4a5b6c7d", "before": "0 0 * * *", "after": "H 0 * * *"}]}},
)
async def reschedule_jobs(call: Call, body: RescheduleShape) -> Reply:
    """Give jobs other cron expressions, each only if it still has the one before; a job that is declared in code is moved there"""
    answer = RescheduledView(done=[], refused=[])
    for move in body.moves:
        try:
            await call.services.jobs.reschedule(call.actor, parse_job_id(move.job_id), move.before, move.after)
        except (Conflict, Invalid, NotFound) as error:
            answer.refused.append(RefusedMoveView(job_id=move.job_id, code=error.code, detail=error.message))
        else:
            answer.done.append(move.job_id)
    return Reply(answer)


ROUTES = [show_spread, reschedule_jobs]
