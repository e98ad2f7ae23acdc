"""Makes steps. Their ids are computed: to make one twice is nobody's harm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from json import dumps
from typing import Any, NamedTuple, TypeVar

from duly.domain.errors import TooLarge
from duly.domain.execution import NewExecution
from duly.domain.ids import ExecutionId, execution_text
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.lifecycle import State, Trigger
from duly.domain.limits import Gate
from duly.domain.shards import shard_of
from duly.domain.target import HEAD_STARTS
from duly.domain.tenants import NO_QUOTAS, Quotas, check_payload, tenant_gates
from duly.domain.workflow.advance import Because, End
from duly.domain.workflow.check import WIDEST_MAP
from duly.domain.workflow.ids import item_ids, map_gate, step_id
from duly.domain.workflow.inputs import payload_for
from duly.domain.workflow.step import Step
from duly.ports.clock import Clock
from duly.ports.flows import BY_APPROVAL, BY_SIGNAL, Flow, Flows, NewStep, StepVersion
from duly.ports.store import Definitions
from duly.ports.transport import Transport
from duly.usecases.conduct.reader import Plan, Reader

T = TypeVar("T")

# A flow that nobody has touched for so long may have lost a hand-over.
FIRST_LOOK: Micros = 2 * SECOND
# Steps that are made, and looked at, in one statement.
AT_ONCE = 2_000
# Items of a mapped step are small and alike: more of them, as long as their payloads together are not too long.
ITEMS_AT_ONCE = 10_000
LONGEST_ITEMS = 8 * 1024 * 1024


class Made(NamedTuple):
    """How many steps are new, and which had ended before they began: nobody else will hand over from those."""

    new: int
    over: list[ExecutionId]


class Maker:
    """Writes through the ports what was decided."""

    def __init__(self, flows: Flows, definitions: Definitions, reader: Reader, transport: Transport, clock: Clock) -> None:
        self._flows = flows
        self._definitions = definitions
        self._reader = reader
        self._transport = transport
        self._clock = clock

    async def make(self, flow: Flow, plan: Plan, steps: Sequence[Step], ends: Mapping[str, End], payload: str | None) -> Made:
        """Make these steps if they are not there, and tell the workers."""
        now = self._clock.now()
        quotas = await self._reader.quotas(flow.tenant)
        made: list[NewStep] = []
        mapped: list[tuple[Step, list[Any]]] = []
        for step in steps:
            place = plan.graph.place[step.name]
            id = step_id(flow.run, place)
            if step.map is not None:
                items = ends[step.map].result if step.map in ends else None
                header = self._header(flow, plan, step, place, id, None, now)
                if not isinstance(items, list) or len(items) > WIDEST_MAP:
                    told = f"the result of {step.map} is no list, or one with more than {WIDEST_MAP:,} items"
                    made.append(NewStep(header, flow.run, place, ended=(State.DEAD, None, _error(told))))
                    continue
                if quotas.max_payload_bytes is not None:
                    # All items or none: an item that is too long is found before the first is made.
                    passed_on = self._reader.passed_on(flow, plan, step, ends)
                    too_long = next(filter(None, (_too_long(quotas, payload_for(step, payload, item, passed_on)) for item in items)), None)
                    if too_long is not None:
                        made.append(NewStep(header, flow.run, place, ended=(State.DEAD, None, too_long)))
                        continue
                mapped.append((step, items))
                made.append(NewStep(header, flow.run, place, width=len(items), depth=flow.depth, flow_version=flow.job_version))
            else:
                if step.workflow is not None:
                    one = await self._inner_run(flow, plan, step, place, id, payload, ends, now)
                else:
                    one = self._plain(flow, plan, step, place, id, payload, ends, now)
                # What it takes over as it is was within the quota when it came.
                made.append(_within(quotas, one) if step.inputs else one)
        gates = () if quotas is NO_QUOTAS else tenant_gates(flow.tenant, quotas)
        routes: set[int] = set()
        new = 0
        for part in parts_of([_gated(step, gates) for step in made]):
            added = await self._flows.add(part, now, now + FIRST_LOOK)
            routes |= added.routes
            new += added.new
        for step, items in mapped:
            await self._items(flow, plan, step, items, payload, ends, gates, now)
        if routes:
            await self._transport.announce(sorted(routes))
        later = min((step.execution.due_at for step in made if step.execution.due_at > now), default=None)
        if later is not None:
            await self._transport.announce_due(later)
        return Made(new, [step.execution.id for step in made if step.ended is not None])

    def _plain(
        self,
        flow: Flow,
        plan: Plan,
        step: Step,
        place: int,
        id: ExecutionId,
        payload: str | None,
        ends: Mapping[str, End],
        now: Instant,
    ) -> NewStep:
        given = payload_for(step, payload, None, self._reader.passed_on(flow, plan, step, ends))
        header = self._header(flow, plan, step, place, id, given, now)
        if step.delay is not None:
            header = header._replace(due_at=now + step.delay, rank=header.rank + step.delay)
        held = step.approval or step.signal
        if held is None:
            return NewStep(header, flow.run, place)
        reason, name = (BY_APPROVAL, step.name) if step.approval is not None else (BY_SIGNAL, step.signal.name if step.signal else "")
        return NewStep(header, flow.run, place, waits=reason, name=name, until=None if held.timeout is None else now + held.timeout)

    async def _inner_run(
        self,
        flow: Flow,
        plan: Plan,
        step: Step,
        place: int,
        id: ExecutionId,
        payload: str | None,
        ends: Mapping[str, End],
        now: Instant,
    ) -> NewStep:
        """A run of another workflow, of its present version. One that is not there fails the step at once."""
        assert step.workflow is not None
        job = await self._definitions.job_named(flow.tenant, step.workflow)
        if job is None or not job.version.spec.steps:
            header = self._header(flow, plan, step, place, id, None, now)
            return NewStep(header, flow.run, place, ended=(State.DEAD, None, _error(f"there is no workflow {step.workflow!r}")))
        given = payload_for(step, payload, None, self._reader.passed_on(flow, plan, step, ends))
        header = NewExecution(
            id,
            job.id,
            job.version.number,
            flow.tenant,
            job.version.route,
            shard_of(job.id),
            Trigger.STEP,
            now,
            now - HEAD_STARTS[step.priority or job.version.spec.priority],
            given if given is not None else step.payload,
        )
        return NewStep(header, flow.run, place)

    async def _items(
        self,
        flow: Flow,
        plan: Plan,
        step: Step,
        items: Sequence[Any],
        payload: str | None,
        ends: Mapping[str, End],
        gates: tuple[Gate, ...],
        now: Instant,
    ) -> None:
        place = plan.graph.place[step.name]
        group = step_id(flow.run, place)
        passed_on = self._reader.passed_on(flow, plan, step, ends)
        if step.max_parallel is not None:
            about = dumps({"limit": "map", "step": step.name, "run": execution_text(flow.run)})
            gates = (map_gate(group, step.max_parallel, about), *gates)
        template = self._header(flow, plan, step, place, group, None, now)._replace(gates=gates)
        ids = item_ids(flow.run, place, 0, len(items))
        made: list[NewStep] = []
        length = 0
        for nth, (id, item) in enumerate(zip(ids, items, strict=True)):
            given = payload_for(step, payload, item, passed_on)
            made.append(NewStep(template._replace(id=id, payload=given), group, place, nth))
            length += len(given or "")
            if len(made) == ITEMS_AT_ONCE or length >= LONGEST_ITEMS or nth + 1 == len(items):
                added = await self._flows.add(made, now, now + FIRST_LOOK)
                made, length = [], 0
                if added.routes:
                    # The first of them are run while the rest are made.
                    await self._transport.announce(sorted(added.routes))

    async def skip(self, flow: Flow, plan: Plan, skipped: Mapping[str, Because]) -> None:
        now = self._clock.now()
        steps: list[NewStep] = []
        for name, because in skipped.items():
            place = plan.graph.place[name]
            header = self._header(flow, plan, plan.graph.by_name[name], place, step_id(flow.run, place), None, now)
            steps.append(NewStep(header, flow.run, place, skipped=because.value))
        for part in parts_of(steps):
            await self._flows.add(part, now, now + FIRST_LOOK)

    def _header(
        self,
        flow: Flow,
        plan: Plan,
        step: Step,
        place: int,
        id: ExecutionId,
        payload: str | None,
        now: Instant,
    ) -> NewExecution:
        version = plan.steps.get(place)
        if version is None:
            # A step that runs another workflow and is skipped, or cannot: it stands under its own workflow.
            version = StepVersion(plan.version.job_id, plan.version.number, plan.version.route)
        head_start = HEAD_STARTS[step.priority or plan.version.spec.priority]
        return NewExecution(
            id,
            version.job_id,
            version.number,
            flow.tenant,
            version.route,
            shard_of(version.job_id),
            Trigger.STEP,
            now,
            now - head_start,
            payload,
        )

    async def take_over(self, flow: Flow, plan: Plan, former: ExecutionId, redo: frozenset[str]) -> None:
        """Steps that another run has done already: as they ended there."""
        wanted = [step for step in plan.graph.order if step.name not in redo and step.name in plan.graph.place]
        olds = {step_id(former, plan.graph.place[step.name]): step for step in wanted}
        ends, results = await self._flows.ends(list(olds)), await self._flows.results(list(olds))
        now = self._clock.now()
        steps: list[NewStep] = []
        for id, step in olds.items():
            end = ends.get(id)
            if end is not None and end.state is State.SUCCEEDED:
                place = plan.graph.place[step.name]
                header = self._header(flow, plan, step, place, step_id(flow.run, place), None, now)
                steps.append(NewStep(header, flow.run, place, ended=(State.SUCCEEDED, results.get(id), None)))
        for part in parts_of(steps):
            await self._flows.add(part, now, now + FIRST_LOOK)


def _within(quotas: Quotas, step: NewStep) -> NewStep:
    """A step that was given more than the tenant may send has failed before it began."""
    too_long = None if step.ended is not None else _too_long(quotas, step.execution.payload)
    if too_long is None:
        return step
    return NewStep(step.execution._replace(payload=None), step.run, step.place, ended=(State.DEAD, None, too_long))


def _too_long(quotas: Quotas, payload: str | None) -> str | None:
    try:
        check_payload(quotas, payload)
    except TooLarge as error:
        return _error(f"{error.code}: its payload {error.message}")
    return None


def _gated(step: NewStep, gates: tuple[Gate, ...]) -> NewStep:
    """What a worker will run passes the gates of its tenant."""
    if not gates or step.skipped is not None or step.ended is not None or step.width is not None:
        return step
    return replace(step, execution=step.execution._replace(gates=gates))


def _error(told: str) -> str:
    return dumps({"type": "WorkflowError", "message": told})


def parts_of(items: Sequence[T]) -> list[Sequence[T]]:
    """As many at once as fit into one statement."""
    return [items[at : at + AT_ONCE] for at in range(0, len(items), AT_ONCE)]
