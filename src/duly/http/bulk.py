"""Many executions at once, and the batches that come of it."""

from __future__ import annotations

from uuid import UUID

from duly.domain.access import Role
from duly.domain.errors import Invalid
from duly.domain.ids import batch_text, execution_text, parse_batch_id
from duly.http.limits import LARGEST_BATCH
from duly.http.problems import SECRET_PROBLEMS
from duly.http.routing import Call, Reply, route
from duly.usecases.bulk import BatchReport, BulkAsk, BulkReport
from duly.wire.bulk import BatchView, BulkShape, BulkView, MatchShape, match_of
from duly.wire.shapes import NothingShape, json_text, shown


@route(
    "POST",
    "/v1/executions:bulk",
    role=Role.OPERATOR,
    answer=BulkView,
    idempotent=True,
    problems=(
        *("DULY-E105", "DULY-E111", "DULY-E133", "DULY-E233", "DULY-E234", "DULY-E235", "DULY-E236", "DULY-E402", "DULY-E403", "DULY-E404"),
        *SECRET_PROBLEMS,
    ),
    limit=LARGEST_BATCH,
    examples={
        "dryRun": {"action": "replay", "match": {"state": "DEAD"}, "dryRun": True},
        "atARate": {"action": "replay", "match": {"cause": "8f14e45fceea167a"}, "ratePerSec": 10, "canary": 5},
        "theRest": {"batchId": "batch_0198c2d5a4e87f3b9c1d2e3f4a5b6c7d", "continue": True},
    },
)
async def act_in_bulk(call: Call, body: BulkShape) -> Reply:
    """Cancel, retry, replay or discard all executions that match; or go on with a batch"""
    if body.go_on:
        return await _go_on(call, body)
    if body.action is None:
        raise Invalid("DULY-E106", "is missing.", field="action", hint="One of cancel, retry, replay and discard.")
    if body.match is None and not body.everything:
        raise Invalid("DULY-E133", "is missing.", field="match", hint='If everything is meant, say so: "everything": true.')
    if body.batch_id is not None:
        raise Invalid("DULY-E106", 'goes with "continue".', field="batchId", hint='"match": {"batchId": …} means what a batch has made.')
    ask = BulkAsk(
        action=body.action,
        match=match_of(body.match or MatchShape()),
        everything=body.everything,
        dry_run=body.dry_run,
        rate=body.rate_per_sec,
        canary=body.canary,
        limit=body.limit,
        payload=json_text(body.payload, "payload"),
    )
    return Reply(_view(await call.services.bulk.start(call.actor, ask, call.idempotency)))


async def _go_on(call: Call, body: BulkShape) -> Reply:
    if body.batch_id is None:
        raise Invalid("DULY-E106", "is missing.", field="batchId", hint="The batch to go on with.")
    given = [name for name in ("action", "match", "rate_per_sec", "canary") if getattr(body, name) is not None]
    if given or body.everything or body.dry_run:
        raise Invalid(
            "DULY-E106", "A batch that goes on does what it was started with.", field="continue", hint="Send batchId and limit only."
        )
    id = parse_batch_id(body.batch_id)
    report = await call.services.bulk.go_on(call.actor, id, anyway=body.go_on == "anyway", limit=body.limit, idempotency=call.idempotency)
    return Reply(_view(report))


@route("GET", "/v1/batches/{batchId}", role=Role.VIEWER, answer=BatchView, problems=("DULY-E233",))
async def show_batch(call: Call, batch_id: UUID) -> Reply:
    """A bulk action, and where the executions that it made stand"""
    return Reply(_batch_view(await call.services.bulk.show(call.actor, batch_id)))


@route("POST", "/v1/batches/{batchId}/abort", role=Role.OPERATOR, answer=BatchView, problems=("DULY-E233",), body_optional=True)
async def abort_batch(call: Call, batch_id: UUID, body: NothingShape) -> Reply:
    """Cancel what a batch has made and what has not started; what runs goes on"""
    return Reply(_batch_view(await call.services.bulk.abort(call.actor, batch_id)))


def _view(report: BulkReport) -> BulkView:
    return BulkView(
        batch_id=None if report.batch is None else batch_text(report.batch),
        action=report.action,
        matched=report.matched,
        done=report.done,
        skipped=report.skipped,
        remaining=report.remaining,
        sample=[execution_text(id) for id in report.sample],
    )


def _batch_view(report: BatchReport) -> BatchView:
    batch = report.batch
    return BatchView(
        batch_id=batch_text(batch.id),
        kind=batch.kind,
        asked_at=shown(batch.asked_at) or "",
        asked_by=batch.asked_by,
        total=batch.total,
        aborted_at=shown(batch.about.get("abortedAt")),
        executions={state.name: count for state, count in sorted(report.counts.items())},
    )


ROUTES = [act_in_bulk, show_batch, abort_batch]
