"""Reads what the parents of a step came to: whole, also where it was too long to be passed on."""

from __future__ import annotations

from json import dumps
from typing import Any

from duly.domain.execution import LeaseId, WorkerId
from duly.domain.ids import ExecutionId, execution_text
from duly.domain.lifecycle import State
from duly.domain.workflow.advance import leaves
from duly.domain.workflow.ids import item_ids, step_id
from duly.domain.workflow.inputs import reference_in
from duly.ports.flows import Flow, Flows
from duly.ports.parents import Parent
from duly.usecases.conduct.maker import parts_of
from duly.usecases.conduct.reader import Reader, decoded

# Characters of one result. A longer list of items is left with them: nobody should hold it in memory.
LARGEST_READ = 64 << 20
# Whatever is longer is no reference, and need not be looked into.
LONGEST_REFERENCE = 200


class StepParents:
    """See ports/parents.py. Straight on the store: that the caller holds the step is its own promise."""

    def __init__(self, flows: Flows, reader: Reader) -> None:
        self._flows = flows
        self._reader = reader

    async def results(self, worker: WorkerId, lease: LeaseId, id: ExecutionId) -> list[Parent]:
        placed = await self._flows.placed([id])
        if not placed:
            return []
        flow: Flow | None = placed[0].flow
        if placed[0].nth is not None:
            # An item stands in its mapped step, and that in the run.
            run = (await self._flows.header(placed[0].flow.run)).run
            flow = None if run is None else await self._flows.flow(run)
        if flow is None:
            return []
        graph = (await self._reader.plan(flow.job_version)).graph
        ids = {step_id(flow.run, graph.place[name]): name for name in graph.steps[placed[0].place].parents}
        ends = await self._flows.ends(list(ids))
        succeeded = [id for id, end in ends.items() if end.state is State.SUCCEEDED]
        texts = await self._flows.results(succeeded)
        return [Parent(ids[id], id, await self._whole(id, texts.get(id))) for id in ids if id in texts]

    async def _whole(self, id: ExecutionId, text: str | None) -> str | None:
        """What stands in the place of a long result, as that result."""
        if text is None or len(text) > LONGEST_REFERENCE:
            return text
        value = decoded(text)
        if reference_in(value) != execution_text(id):
            return text
        whole = await self._of_items(id, value["items"]) if "items" in value else await self._of_run(id)
        return text if whole is None else whole

    async def _of_items(self, group: ExecutionId, width: Any) -> str | None:
        header = await self._flows.header(group)
        if header.run is None or header.place is None or not isinstance(width, int):
            return None
        texts: list[str] = []
        size = 0
        for part in parts_of(item_ids(header.run, header.place, 0, width)):
            results = await self._flows.results(part)
            texts += [results.get(id) or "null" for id in part]
            size += sum(map(len, texts[-len(part) :]))
            if size > LARGEST_READ:
                return None
        return f"[{','.join(texts)}]"

    async def _of_run(self, run: ExecutionId) -> str | None:
        """A run within the run: what the steps came to that nothing comes after, by their names."""
        version = await self._flows.version_of(run)
        if version is None:
            return None
        graph = (await self._reader.plan(version)).graph
        ids = {step_id(run, graph.place[name]): name for name in leaves(graph)}
        texts = await self._flows.results(list(ids))
        found = [(ids[id], await self._whole(id, text)) for id, text in texts.items() if text is not None]
        whole = "{" + ",".join(f"{dumps(name)}:{text}" for name, text in found) + "}"
        return whole if len(whole) <= LARGEST_READ else None
