"""Runs of workflows: their steps, approvals, signals, and doing them again."""

from __future__ import annotations

from json import loads

from duly.domain.access import Role
from duly.domain.ids import ExecutionId, execution_text, parse_worker_id
from duly.domain.lifecycle import State
from duly.http import enqueue
from duly.http.enqueue import QUOTAS
from duly.http.problems import SECRET_PROBLEMS
from duly.http.routing import Call, Reply, route
from duly.ports.desk import Held
from duly.ports.flows import BY_APPROVAL
from duly.usecases.workflows import RunStanding, StepStanding
from duly.wire.executions import EnqueuedView, StateName
from duly.wire.shapes import NothingShape, json_text, shown, shown_json
from duly.wire.workers import FencedShape
from duly.wire.workflows import DecisionShape, ItemsView, ParentsView, ParentView, RerunShape, SignalShape, StepsView, StepView

_OF_A_RUN = ("DULY-E205", "DULY-E293")


@route("GET", "/v1/executions/{executionId}/steps", role=Role.VIEWER, answer=StepsView, problems=_OF_A_RUN)
async def list_steps(call: Call, execution_id: ExecutionId) -> Reply:
    """A run of a workflow with its steps"""
    return Reply(_view(await call.services.workflows.show(call.actor, execution_id)))


@route(
    "POST",
    "/v1/executions/{executionId}/parents",
    role=Role.WORKER,
    answer=ParentsView,
    problems=("DULY-E205", "DULY-E221", "DULY-E223", "DULY-E304", "DULY-E305"),
)
async def list_parents(call: Call, execution_id: ExecutionId, body: FencedShape) -> Reply:
    """What the steps came to that a step comes after, for the worker that holds it"""
    held: Held = (body.fence, execution_id)
    parents = await call.services.workers.parents(call.actor, parse_worker_id(body.worker_id), held)
    shown_parents = [ParentView(name=one.name, execution_id=execution_text(one.id), result=shown_json(one.result)) for one in parents]
    return Reply(ParentsView(parents=shown_parents))


@route(
    "POST",
    "/v1/executions/{executionId}/approve",
    role=Role.OPERATOR,
    answer=StepsView,
    problems=(*_OF_A_RUN, "DULY-E290", "DULY-E291", "DULY-E292", "DULY-E294"),
    body_optional=True,
    examples={"step": {"step": "publish", "reason": "figures checked"}},
)
async def approve_step(call: Call, execution_id: ExecutionId, body: DecisionShape) -> Reply:
    """Say yes to a step that waits for an approval"""
    return Reply(_view(await call.services.workflows.approve(call.actor, execution_id, body.step, body.reason)))


@route(
    "POST",
    "/v1/executions/{executionId}/reject",
    role=Role.OPERATOR,
    answer=StepsView,
    problems=(*_OF_A_RUN, "DULY-E290", "DULY-E291", "DULY-E292", "DULY-E294"),
    body_optional=True,
)
async def reject_step(call: Call, execution_id: ExecutionId, body: DecisionShape) -> Reply:
    """Say no to a step that waits for an approval"""
    return Reply(_view(await call.services.workflows.reject(call.actor, execution_id, body.step, body.reason)))


@route(
    "POST",
    "/v1/executions/{executionId}/signal",
    role=Role.OPERATOR,
    answer=StepsView,
    problems=(*_OF_A_RUN, "DULY-E294", "DULY-E404", *SECRET_PROBLEMS),
    examples={"paid": {"name": "payment", "payload": {"amount": 5}}},
)
async def signal_run(call: Call, execution_id: ExecutionId, body: SignalShape) -> Reply:
    """Tell a run something from outside; the first signal of a name counts"""
    await call.services.workflows.signal(call.actor, execution_id, body.name, json_text(body.payload, "payload"))
    return Reply(_view(await call.services.workflows.show(call.actor, execution_id)))


@route(
    "POST",
    "/v1/executions/{executionId}/rerun",
    role=Role.OPERATOR,
    status=201,
    answer=EnqueuedView,
    problems=(*_OF_A_RUN, "DULY-E204", "DULY-E207", "DULY-E212", "DULY-E292", *QUOTAS, *SECRET_PROBLEMS),
    body_optional=True,
    idempotent=True,
    response_headers=enqueue.LOCATION,
    examples={"from": {"fromSteps": ["load"]}},
)
async def rerun(call: Call, execution_id: ExecutionId, body: RerunShape) -> Reply:
    """Do a run again from some steps on, or what failed of it; the rest is taken over"""
    new = await call.services.workflows.rerun(call.actor, execution_id, body.from_steps, call.idempotency)
    return await enqueue.enqueued(call, new)


@route(
    "POST",
    "/v1/executions/{executionId}/pause",
    role=Role.OPERATOR,
    answer=StepsView,
    problems=(*_OF_A_RUN, "DULY-E294"),
    body_optional=True,
)
async def pause_run(call: Call, execution_id: ExecutionId, body: NothingShape) -> Reply:
    """Begin no step of a run until it is resumed"""
    return Reply(_view(await call.services.workflows.pause(call.actor, execution_id)))


@route(
    "POST",
    "/v1/executions/{executionId}/resume",
    role=Role.OPERATOR,
    answer=StepsView,
    problems=(*_OF_A_RUN, "DULY-E294"),
    body_optional=True,
)
async def resume_run(call: Call, execution_id: ExecutionId, body: NothingShape) -> Reply:
    """Let a paused run go on"""
    return Reply(_view(await call.services.workflows.resume(call.actor, execution_id)))


def _view(run: RunStanding) -> StepsView:
    return StepsView(
        execution_id=execution_text(run.execution.id),
        job_name=run.execution.job_name,
        state=StateName[run.execution.state.name],
        is_paused=run.is_paused,
        steps=[_step(one) for one in run.steps],
    )


def _step(one: StepStanding) -> StepView:
    execution, step = one.execution, one.step
    view = StepView(
        name=step.name,
        depends_on=list(step.parents),
        trigger=step.rule,
        state=None if execution is None else StateName[execution.state.name],
        execution_id=execution_text(one.id),
        compensates=step.compensates,
        is_critical=one.is_critical,
    )
    if execution is None:
        return view
    view.created_at = shown(execution.created_at)
    view.started_at = shown(execution.started_at)
    view.finished_at = shown(execution.finished_at)
    view.attempt = execution.attempt
    view.result = shown_json(execution.result)
    view.error = None if execution.state is State.SKIPPED else shown_json(execution.error)
    if execution.state is State.SKIPPED and execution.error is not None:
        view.skip_reason = loads(execution.error).get("reason")
    if one.wait is not None:
        view.waits_for = "approval" if one.wait.reason == BY_APPROVAL else f"signal {one.wait.name}"
        view.waits_until = shown(one.wait.until)
    if one.items is not None:
        view.items = ItemsView(total=one.items[0], succeeded=one.items[1], failed=one.items[2])
    return view


ROUTES = [list_steps, list_parents, approve_step, reject_step, signal_run, rerun, pause_run, resume_run]
