"""Runs of workflows, for people: look at the steps, approve, reject, signal, do again, pause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from json import dumps
from typing import TYPE_CHECKING

from duly.domain.access import Actor
from duly.domain.audit import Deed, on_execution
from duly.domain.errors import Conflict, Forbidden, NotFound, Unavailable
from duly.domain.execution import Execution, NewExecution
from duly.domain.ids import ExecutionId, execution_text
from duly.domain.instants import Instant
from duly.domain.lifecycle import State, Trigger, is_final
from duly.domain.redaction import without_credentials
from duly.domain.workflow.advance import Graph, below
from duly.domain.workflow.ids import item_id, step_id
from duly.domain.workflow.step import Step
from duly.domain.workflow.timeline import Bar, critical_path
from duly.ports.clock import Clock
from duly.ports.flows import BY_APPROVAL, Flow, Flows, Signal, Wait
from duly.ports.store import Idempotency
from duly.usecases.conduct.conductor import Conductor
from duly.usecases.executions import Executions, Wanted
from duly.usecases.jobs import Jobs

if TYPE_CHECKING:
    from duly.ports.keys import Keys

AT_ONCE = 1_000
MOST_ITEMS_COUNTED = 100_000


@dataclass(frozen=True, slots=True)
class StepStanding:
    """A step of a run: where its execution stands (None: it is not there yet), whom it waits for, and how far its items are."""

    step: Step
    id: ExecutionId
    execution: Execution | None
    wait: Wait | None = None
    items: tuple[int, int, int] | None = None
    is_critical: bool = False


@dataclass(frozen=True, slots=True)
class RunStanding:
    """A run with all its steps, parents first."""

    execution: Execution
    graph: Graph
    is_paused: bool
    steps: list[StepStanding]


class Workflows:
    """The use cases on runs that consist of steps."""

    def __init__(self, flows: Flows, executions: Executions, jobs: Jobs, conductor: Conductor, keys: Keys, clock: Clock) -> None:
        self._flows = flows
        self._executions = executions
        self._jobs = jobs
        self._conductor = conductor
        self._keys = keys
        self._clock = clock

    async def show(self, actor: Actor, run: ExecutionId) -> RunStanding:
        """A run with its steps. Raises Conflict (DULY-E293) for what has none."""
        execution, graph = await self._run(actor, run)
        there: dict[ExecutionId, Execution] = {}
        after: ExecutionId | None = None
        while page := await self._flows.steps(actor.tenant, run, after, AT_ONCE):
            there |= {one.id: one for one in page}
            after = page[-1].id
        flow = await self._flows.flow(run)
        waits = {wait.id: wait for wait in await self._flows.waits(run)} if flow is not None else {}
        bars = [
            Bar(step.name, step.parents, one.started_at or one.created_at, one.finished_at or self._clock.now())
            for place, step in enumerate(graph.steps)
            if (one := there.get(step_id(run, place))) is not None and one.state is not State.SKIPPED
        ]
        critical = set(critical_path(bars))
        steps: list[StepStanding] = []
        for step in [*graph.order, *graph.undoing]:
            place = graph.place[step.name]
            id = step_id(run, place)
            items = await self._items(run, place, there.get(id)) if step.map is not None and id in there else None
            steps.append(StepStanding(step, id, there.get(id), waits.get(id), items, step.name in critical))
        return RunStanding(execution, graph, flow is not None and flow.is_paused, steps)

    async def _items(self, run: ExecutionId, place: int, group: Execution | None) -> tuple[int, int, int] | None:
        """How many items there are, have succeeded and have failed."""
        flow = await self._flows.flow(step_id(run, place))
        first, last = item_id(run, place, 0), item_id(run, place, MOST_ITEMS_COUNTED)
        ended = await self._flows.ended_between(first, last, MOST_ITEMS_COUNTED)
        succeeded = sum(state is State.SUCCEEDED for _, state in ended)
        return (len(ended) if flow is None or flow.width is None else flow.width), succeeded, len(ended) - succeeded

    async def approve(self, actor: Actor, run: ExecutionId, step: str | None, reason: str | None) -> RunStanding:
        """Say yes to a step that waits for it."""
        flow, found, wait = await self._waiting(actor, run, step)
        said = {"approvedBy": actor.key_id} | ({} if reason is None else {"reason": without_credentials(reason)})
        deed = on_execution(actor, self._clock.now(), "execution.approve", run, None, after={"step": found.name})
        if not await self._conductor.release(wait.id, found, dumps(said), deed=deed):
            raise _waits_no_more(found.name)
        return await self.show(actor, flow.run)

    async def reject(self, actor: Actor, run: ExecutionId, step: str | None, reason: str | None) -> RunStanding:
        """Say no: the step ends as CANCELLED, and what depends on it is skipped."""
        flow, found, wait = await self._waiting(actor, run, step)
        error = {"reason": "rejected", "by": actor.key_id} | ({} if reason is None else {"message": without_credentials(reason)})
        deed = on_execution(actor, self._clock.now(), "execution.reject", run, None, after={"step": found.name})
        if not await self._conductor.refuse(wait.id, error, deed=deed):
            raise _waits_no_more(found.name)
        return await self.show(actor, flow.run)

    async def signal(self, actor: Actor, run: ExecutionId, name: str, payload: str | None) -> bool:
        """Tell a run something from outside; False: it has a signal of that name. It counts also for steps that wait for it later."""
        await self._under_way(actor, run)
        await self._executions.check_size(actor, payload)
        self._executions.check_payload(payload)
        now = self._clock.now()
        deed = on_execution(actor, now, "execution.signal", run, None, after={"signal": name})
        kept = await self._flows.add_signal(actor.tenant, run, Signal(name, payload, now, actor.key_id), deed=deed)
        await self._conductor.hear(run)
        return kept

    async def pause(self, actor: Actor, run: ExecutionId) -> RunStanding:
        """No step begins until it goes on; what runs comes to its end."""
        await self._under_way(actor, run)
        now = self._clock.now()
        await self._flows.pause(run, actor.key_id, now, deed=_paused(actor, now, run, is_paused=True))
        return await self.show(actor, run)

    async def resume(self, actor: Actor, run: ExecutionId) -> RunStanding:
        """Go on."""
        await self._under_way(actor, run)
        now = self._clock.now()
        await self._flows.pause(run, None, now, deed=_paused(actor, now, run, is_paused=False))
        await self._conductor.look_at(run)
        return await self.show(actor, run)

    async def rerun(self, actor: Actor, run: ExecutionId, steps: Sequence[str], idempotency: Idempotency | None = None) -> NewExecution:
        """Do a run that has ended again, as a new one: these steps and all that come after them, or what did not succeed. The rest is
        taken over as it ended, so it must be of the same steps as now."""
        past, graph = await self._run(actor, run)
        if not is_final(past.state):
            raise Conflict("DULY-E212", f"{execution_text(run)} is {past.state.name}.", hint="Only a run that has ended is done again.")
        for name in steps:
            if name not in graph.place:
                raise _no_such_step(name)
        ends = await self._flows.ends([step_id(run, place) for place in range(len(graph.steps))])
        failed = [
            step.name
            for place, step in enumerate(graph.steps)
            if (end := ends.get(step_id(run, place))) is None or end.state is not State.SUCCEEDED
        ]
        job = await self._jobs.show(actor, past.job_id)
        redo = below(graph, steps or failed) | set(failed)
        if job.version.spec.steps != graph.steps:
            # Another graph: nothing of the old one can be taken over by its place.
            redo = {step.name for step in job.version.spec.steps}
        new = (await self._executions.headers(job, [Wanted(payload=past.payload, trigger=Trigger.REPLAY)]))[0]
        await self._flows.seed(actor.tenant, new.id, run, redo)
        deed = on_execution(actor, self._clock.now(), "execution.rerun", run, job.id, executions=[new.id])
        try:
            made = (await self._executions.submit([new], idempotency, deed=deed))[0]
        except Unavailable:
            # It may have been written all the same, and needs its seed then; without a run a seed means nothing.
            raise
        except Exception:
            await self._flows.unseed(new.id)
            raise
        if made.id != new.id:
            await self._flows.unseed(new.id)
        return made

    async def _run(self, actor: Actor, run: ExecutionId) -> tuple[Execution, Graph]:
        execution = await self._executions.show(actor, run)
        plan = await self._conductor.reader.plan(execution.job_version)
        if not plan.graph.steps:
            raise Conflict("DULY-E293", f"{execution_text(run)} has no steps.", field="executionId")
        return execution, plan.graph

    async def _under_way(self, actor: Actor, run: ExecutionId) -> Flow:
        execution, _ = await self._run(actor, run)
        flow = await self._flows.flow(run)
        if flow is None:
            told = f"{execution_text(run)} is {execution.state.name}."
            raise Conflict("DULY-E294", told, field="executionId")
        return flow

    async def _waiting(self, actor: Actor, run: ExecutionId, name: str | None) -> tuple[Flow, Step, Wait]:
        """The step that waits for an approval, if the actor may give it."""
        flow = await self._under_way(actor, run)
        graph = (await self._conductor.reader.plan(flow.job_version)).graph
        if name is not None and name not in graph.place:
            raise _no_such_step(name)
        waits = [wait for wait in await self._flows.waits(run) if wait.reason == BY_APPROVAL and name in (None, wait.name)]
        if len(waits) != 1:
            told = "Several steps wait for an approval: name one." if waits else "No step of it waits for an approval."
            raise Conflict("DULY-E290", told, field="step")
        step = graph.by_name[waits[0].name]
        await self._demand_right(actor, step)
        return flow, step, waits[0]

    async def _demand_right(self, actor: Actor, step: Step) -> None:
        allowed = step.approval.by if step.approval is not None else ()
        if not allowed or actor.key_id in allowed or actor.role.name.lower() in allowed:
            return
        key = await self._keys.key(actor.key_id)
        if key is None or key.tenant != actor.tenant or key.name not in allowed:
            hint = f"It waits for {', '.join(allowed)}."
            raise Forbidden("DULY-E291", f"The step {step.name!r} waits for somebody else's word.", field="step", hint=hint)


def _no_such_step(name: str) -> NotFound:
    return NotFound("DULY-E292", f"The run has no step {name[:64]!r}.", field="step")


def _waits_no_more(name: str) -> Conflict:
    return Conflict("DULY-E290", f"The step {name!r} waits no more: somebody was faster.", field="step")


def _paused(actor: Actor, now: Instant, run: ExecutionId, *, is_paused: bool) -> Deed:
    action = "execution.pause" if is_paused else "execution.resume"
    return on_execution(actor, now, action, run, None, before={"isPaused": not is_paused}, after={"isPaused": is_paused})
