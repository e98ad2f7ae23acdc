"""Why: an execution stands where it stands, a job did not run."""

from __future__ import annotations

from msgspec import Struct

from duly.domain.access import Role
from duly.domain.ids import ExecutionId, JobId
from duly.http.routing import Call, Reply, route
from duly.wire.shapes import Moment, moment
from duly.wire.why import WhyView, why_view


class WhyQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which time is asked about; now when none is given."""

    at: Moment | None = None


@route("GET", "/v1/executions/{executionId}/why", role=Role.VIEWER, answer=WhyView, problems=("DULY-E205",))
async def why_execution(call: Call, execution_id: ExecutionId) -> Reply:
    """Why an execution stands where it stands"""
    return Reply(why_view(await call.services.why.execution(call.actor, execution_id)))


@route("GET", "/v1/jobs/{jobId}/why", role=Role.VIEWER, answer=WhyView, problems=("DULY-E105", "DULY-E204"))
async def why_job(call: Call, job_id: JobId, query: WhyQuery) -> Reply:
    """Why a job does not run now, did not run at a time, or will not"""
    return Reply(why_view(await call.services.why.job(call.actor, job_id, moment(query.at, "at"))))


ROUTES = [why_execution, why_job]
