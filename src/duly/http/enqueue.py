"""Enqueueing: new executions of a job, one by one or many at once, now or later."""

from __future__ import annotations

from collections.abc import Sequence

from duly.domain.access import Role
from duly.domain.errors import DulyError, Invalid
from duly.domain.execution import Execution, NewExecution
from duly.domain.ids import ExecutionId, JobId, execution_text, job_text
from duly.domain.instants import SECOND, Instant
from duly.domain.lifecycle import Trigger
from duly.http.limits import LARGEST_BATCH
from duly.http.problems import SECRET_PROBLEMS
from duly.http.routing import Call, Reply, route
from duly.usecases.executions import Wanted
from duly.wire.executions import EnqueueBatchShape, EnqueuedView, EnqueueShape, RunShape, StateName
from duly.wire.shapes import Page, json_text, moment, shown

# What a tenant's quotas refuse.
QUOTAS = ("DULY-E402", "DULY-E403", "DULY-E404", "DULY-E406")
PROBLEMS = ("DULY-E105", "DULY-E117", "DULY-E204", "DULY-E207", "DULY-E210", *QUOTAS, *SECRET_PROBLEMS)
LOCATION = {"Location": "Where the execution is."}
# So many are looked up at once.
LOOKED_AT = 1_000


@route(
    "POST",
    "/v1/jobs/{jobId}/executions",
    role=Role.OPERATOR,
    status=201,
    answer=EnqueuedView,
    problems=PROBLEMS,
    body_optional=True,
    idempotent=True,
    response_headers=LOCATION,
    examples={
        "now": {"payload": {"region": "eu"}},
        "later": {"delaySec": 300},
        "at": {"runAt": "2030-01-01T09:00:00Z", "priority": "HIGH"},
    },
)
async def enqueue_execution(call: Call, job_id: JobId, body: EnqueueShape) -> Reply:
    """Enqueue an execution of a job: now, at a time, or after a delay"""
    return await _enqueue_one(call, job_id, _wanted(body))


@route(
    "POST",
    "/v1/jobs/{jobId}/executions:batch",
    role=Role.OPERATOR,
    status=201,
    answer=Page[EnqueuedView],
    problems=PROBLEMS,
    limit=LARGEST_BATCH,
    idempotent=True,
    examples={"two": {"executions": [{"payload": {"n": 1}}, {"payload": {"n": 2}, "delaySec": 60}]}},
)
async def enqueue_executions(call: Call, job_id: JobId, body: EnqueueBatchShape) -> Reply:
    """Enqueue many executions of a job in one transaction: all of them, or none"""
    wanted = _all_wanted(body.executions)
    new = await call.services.executions.enqueue(call.actor, job_id, wanted, call.idempotency)
    unsure = [item.id for item in new if _may_stand_elsewhere(call, item)]
    stands: dict[ExecutionId, Execution] = {}
    for first in range(0, len(unsure), LOOKED_AT):
        found = await call.services.search.by_ids(call.actor, unsure[first : first + LOOKED_AT])
        stands |= {execution.id: execution for execution in found}
    now = call.services.clock.now()
    return Reply(Page(items=[_standing_view(item, stands[item.id]) if item.id in stands else enqueued_view(item, now) for item in new]))


@route(
    "POST",
    "/v1/jobs/{jobId}/run",
    role=Role.OPERATOR,
    status=201,
    answer=EnqueuedView,
    problems=("DULY-E117", "DULY-E204", "DULY-E207", "DULY-E210", *QUOTAS, *SECRET_PROBLEMS),
    body_optional=True,
    idempotent=True,
    response_headers=LOCATION,
    examples={"other": {"payload": {"dryRun": True}}},
)
async def run_job(call: Call, job_id: JobId, body: RunShape) -> Reply:
    """Run a job now, whatever its schedule says"""
    return await _enqueue_one(call, job_id, Wanted(json_text(body.payload, "payload"), priority=body.priority, trigger=Trigger.MANUAL))


async def _enqueue_one(call: Call, job_id: JobId, wanted: Wanted) -> Reply:
    new = (await call.services.executions.enqueue(call.actor, job_id, [wanted], call.idempotency))[0]
    return await enqueued(call, new)


async def enqueued(call: Call, new: NewExecution) -> Reply:
    """The answer to who enqueued one execution."""
    if _may_stand_elsewhere(call, new):
        view = _standing_view(new, await call.services.executions.show(call.actor, new.id))
    else:
        view = enqueued_view(new, call.services.clock.now())
    return Reply(view, headers=[(b"location", f"/v1/executions/{view.execution_id}".encode())])


def _may_stand_elsewhere(call: Call, new: NewExecution) -> bool:
    """Whether it may be the one that an earlier call made, or wait at a limit: then the answer says where it stands."""
    return call.idempotency is not None or bool(new.gates) or new.unique is not None


def _standing_view(new: NewExecution, stands: Execution) -> EnqueuedView:
    return _view(new, stands.due_at, StateName[stands.state.name])


def enqueued_view(new: NewExecution, now: Instant) -> EnqueuedView:
    """A fresh execution as it is acknowledged."""
    return _view(new, new.due_at, StateName.PENDING if new.due_at <= now else StateName.SCHEDULED)


def _view(new: NewExecution, due_at: Instant, state: StateName) -> EnqueuedView:
    return EnqueuedView(
        execution_id=execution_text(new.id),
        job_id=job_text(new.job_id),
        state=state,
        scheduled_at=shown(due_at) or "",
        duplicate=new.is_duplicate,
    )


def _all_wanted(shapes: Sequence[EnqueueShape]) -> list[Wanted]:
    wanted: list[Wanted] = []
    try:
        for shape in shapes:
            wanted.append(_wanted(shape))
    except DulyError as error:
        error.field = f"executions[{len(wanted)}].{error.field}"
        raise
    return wanted


def _wanted(shape: EnqueueShape) -> Wanted:
    if shape.run_at is not None and shape.delay_sec is not None:
        raise Invalid(
            "DULY-E106", "runAt and delaySec contradict one another.", field="delaySec", hint="Send one of them, or neither for now."
        )
    return Wanted(
        payload=json_text(shape.payload, "payload"),
        run_at=moment(shape.run_at, "runAt"),
        delay=None if shape.delay_sec is None else round(shape.delay_sec * SECOND),
        priority=shape.priority,
    )


ROUTES = [enqueue_execution, enqueue_executions, run_job]
