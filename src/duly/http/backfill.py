"""Backfill: run what a schedule named in the past."""

from __future__ import annotations

from duly.domain.access import Role
from duly.domain.ids import JobId, batch_text
from duly.domain.instants import to_rfc3339
from duly.http.enqueue import QUOTAS
from duly.http.problems import SECRET_PROBLEMS
from duly.http.routing import Call, Reply, route
from duly.usecases.backfill import BackfillAsk
from duly.wire.backfill import BackfillShape, BackfillView, LeftView
from duly.wire.executions import StateName
from duly.wire.shapes import json_text, moment

SHOWN = 100


@route(
    "POST",
    "/v1/jobs/{jobId}/backfill",
    role=Role.OPERATOR,
    answer=BackfillView,
    idempotent=True,
    problems=("DULY-E105", "DULY-E204", "DULY-E210", *QUOTAS, *SECRET_PROBLEMS),
    examples={
        "dryRun": {"from": "2026-01-01T00:00:00Z", "to": "2026-01-07T00:00:00Z", "dryRun": True},
        "atARate": {"from": "2026-01-01T00:00:00Z", "to": "2026-01-07T00:00:00Z", "ratePerSec": 0.5, "maxConcurrent": 2, "rerun": "failed"},
    },
)
async def backfill_job(call: Call, job_id: JobId, body: BackfillShape) -> Reply:
    """Run what a job's schedule named in a past range and what did not run then; abort it like any batch"""
    first, last = moment(body.first, "from"), moment(body.last, "to")
    assert first is not None
    assert last is not None
    ask = BackfillAsk(
        first=first,
        last=last,
        rerun=body.rerun,
        dry_run=body.dry_run,
        rate=body.rate_per_sec,
        max_concurrent=body.max_concurrent,
        payload=json_text(body.payload, "payload"),
        priority=body.priority,
    )
    report = await call.services.backfills.start(call.actor, job_id, ask, call.idempotency)
    plan = report.plan
    return Reply(
        BackfillView(
            batch_id=None if report.batch is None else batch_text(report.batch),
            targets=len(plan.run) + len(plan.left),
            run=len(plan.run),
            left=len(plan.left),
            first_runs=[to_rfc3339(at) for at in plan.run[:SHOWN]],
            first_left=[LeftView(at=to_rfc3339(at), state=StateName[state.name]) for at, state in plan.left[:SHOWN]],
        )
    )


ROUTES = [backfill_job]
