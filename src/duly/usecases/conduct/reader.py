"""What is known of a run: its workflow, the ends and results of its steps, its payload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from json import dumps, loads
from typing import Any

from duly.domain.ids import execution_text
from duly.domain.job import JobVersion
from duly.domain.lifecycle import State
from duly.domain.recent import Recent
from duly.domain.tenants import Quotas
from duly.domain.workflow.advance import Because, End, Graph
from duly.domain.workflow.conditions import names_in, parse_condition
from duly.domain.workflow.ids import step_id
from duly.domain.workflow.inputs import LARGEST_COPY, REFERENCE, source_of
from duly.domain.workflow.step import Step
from duly.ports.clock import Clock
from duly.ports.flows import Flow, Flows, StepVersion
from duly.ports.versions import Versions
from duly.usecases.quotas import Directory


@dataclass(frozen=True, slots=True)
class Plan:
    """A workflow's version, ready to be conducted."""

    version: JobVersion
    graph: Graph
    steps: Mapping[int, StepVersion]


class Reader:
    """Reads through the ports; workflows are kept, since a version never changes."""

    def __init__(self, flows: Flows, definitions: Versions, quotas: Directory, clock: Clock) -> None:
        self._flows = flows
        self._definitions = definitions
        self._quotas = quotas
        self._clock = clock
        self._plans: Recent[Plan] = Recent()

    async def plan(self, number: int) -> Plan:
        """The workflow of this version. They never change."""
        now = self._clock.boottime()
        if self._plans.unknown({number}, now):
            version = (await self._definitions.versions([number]))[number]
            steps = await self._flows.step_versions(number)
            self._plans.learn({number: Plan(version, Graph(version.spec.steps), steps)})
        return self._plans.known({number})[number]

    async def ends(self, flow: Flow, graph: Graph, names: Iterable[str]) -> dict[str, End]:
        """How those of these steps ended that have."""
        ids = {step_id(flow.run, graph.place[name]): name for name in names}
        found = await self._flows.ends(list(ids))
        return {ids[id]: end_of(one.state, one.error) for id, one in found.items() if one.state is not None}

    async def fill_in(self, flow: Flow, graph: Graph, names: Iterable[str], ends: dict[str, End]) -> None:
        """Put in the results that conditions, maps and inputs of these steps look at. `ends` of parents that were read have none yet."""
        wanted: set[str] = set()
        for name in names:
            step = graph.by_name[name]
            wanted |= {source_of(source)[0] for source in step.inputs.values()}
            wanted |= names_in(parse_condition(step.when)) if step.when is not None else set()
            wanted |= {step.map} if step.map is not None else set()
        ids = {
            step_id(flow.run, graph.place[name]): name
            for name in wanted
            if name in ends and ends[name].result is None and ends[name].state is State.SUCCEEDED
        }
        if ids:
            for id, text in (await self._flows.results(list(ids))).items():
                ends[ids[id]] = End(ends[ids[id]].state, ends[ids[id]].because, decoded(text))

    def passed_on(self, flow: Flow, plan: Plan, step: Step, ends: Mapping[str, End]) -> dict[str, Any]:
        """The results that its inputs take; a long one by reference."""
        passed: dict[str, Any] = {}
        for source in step.inputs.values():
            name, path = source_of(source)
            if name in ends and name not in passed:
                value = ends[name].result
                if not path and isinstance(value, list | dict | str) and len(dumps(value)) > LARGEST_COPY:
                    value = {REFERENCE: execution_text(step_id(flow.run, plan.graph.place[name]))}
                passed[name] = value
        return passed

    async def payload(self, flow: Flow, plan: Plan, names: Iterable[str]) -> str | None:
        """The run's payload, if one of these steps looks at it."""
        steps = [plan.graph.by_name[name] for name in names]
        if not any(_needs_payload(step) for step in [*steps, *plan.graph.undoing]):
            return None
        own = (await self._flows.header(flow.run)).payload
        return plan.version.spec.payload if own is None else own

    async def quotas(self, tenant: int) -> Quotas:
        """What the tenant may use."""
        return await self._quotas.of(tenant)


def _needs_payload(step: Step) -> bool:
    if step.when is not None and "payload" in names_in(parse_condition(step.when)):
        return True
    if step.inputs:
        return any(source_of(source)[0] == "payload" for source in step.inputs.values())
    return step.map is None and step.payload is None


def end_of(state: State, error: str | None) -> End:
    """An end as it is read: of a skipped step with the reason."""
    because = None
    if state is State.SKIPPED and error is not None:
        reason = loads(error).get("reason")
        because = Because(reason) if reason in set(Because) else None
    return End(state, because)


def decoded(text: str | None) -> Any:
    """JSON text as a value."""
    return None if text is None else loads(text)
