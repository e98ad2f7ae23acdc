"""The store's ports through which executions end: each does what the store's own does, and then hands over what was a step.

Whoever runs plain jobs pays a look at a flag for it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from duly.domain.audit import Deed
from duly.domain.execution import Finished, LeaseId, Lost, Verdict, WorkerId
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant, Micros
from duly.domain.job import JobVersion
from duly.domain.lifecycle import Outcome, State, is_final
from duly.domain.workflow.ids import group_of
from duly.ports.desk import Desk, Ended, Held
from duly.ports.store import Cancels, Losses, LossReport, Outcomes, Store
from duly.usecases.conduct.beside import Beside
from duly.usecases.conduct.conductor import Conductor
from duly.usecases.conduct.dependents import Dependents
from duly.usecases.conduct.parents import StepParents


def conducted(store: Store, conductor: Conductor, beside: Beside | None = None, dependents: Dependents | None = None) -> Store:
    """The store, with workflows that go on by themselves: before a report is answered, or `beside` it. `dependents` hear what succeeds."""
    return replace(
        store,
        outcomes=cast(Outcomes, HandingOutcomes(store.outcomes, conductor, beside, dependents)),
        losses=cast(Losses, HandingLosses(store.losses, conductor)),
        cancels=cast(Cancels, HandingCancels(store.cancels, store, conductor)),
        desk=cast(Desk, HandingDesk(store.desk, conductor, beside, dependents)),
        parents=StepParents(store.flows, conductor.reader),
    )


class _Around:
    """What ends nothing goes through."""

    def __init__(self, inner: Any, conductor: Conductor, beside: Beside | None = None, dependents: Dependents | None = None) -> None:
        self._inner = inner
        self._conductor = conductor
        self._beside = beside
        self._dependents = dependents

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def _hand_over(self, ids: Sequence[ExecutionId], known: Mapping[ExecutionId, Finished] | None = None) -> None:
        if self._beside is None:
            await self._conductor.hand_over(ids, known)
            return
        steps = [id for id in ids if group_of(id) is None]
        if steps:
            await self._beside.follow(self._conductor.hand_over(steps, known))
        for group, id in {group: id for id in ids if (group := group_of(id)) is not None}.items():
            await self._beside.follow_items(group, partial(self._conductor.hand_over, [id]))

    async def _follow(self, what: Coroutine[Any, Any, None]) -> None:
        await (what if self._beside is None else self._beside.follow(what))

    async def _tell_dependents(self, finished: Sequence[Finished]) -> None:
        if self._dependents is not None and self._dependents.wants_to_hear:
            succeeded = {item.job_id for item in finished if item.outcome is Outcome.SUCCEEDED}
            if succeeded and self._dependents.may_wait_for(succeeded):
                await self._follow(self._dependents.tell(succeeded))


class HandingOutcomes(_Around):
    """Where workers report."""

    async def finish(self, worker: WorkerId, finished: Sequence[Finished], closing: Sequence[LeaseId], now: Instant) -> set[ExecutionId]:
        refused: set[ExecutionId] = await self._inner.finish(worker, finished, closing, now)
        steps = [item for item in finished if item.is_step and item.id not in refused]
        if steps:
            # A success that was accepted is as it was reported. Of all others the store says what became of them.
            known = {item.id: item for item in steps if item.outcome is Outcome.SUCCEEDED}
            await self._hand_over([item.id for item in steps], known)
        # What was refused may be among them: they look, and find that nothing has succeeded.
        await self._tell_dependents(finished)
        return refused


class HandingDesk(_Around):
    """Where workers report over HTTP."""

    async def settle(self, worker: WorkerId, finished: Sequence[Finished], held: Sequence[Held], now: Instant) -> dict[Held, Ended]:
        ended: dict[Held, Ended] = await self._inner.settle(worker, finished, held, now)
        ids = [item.id for item in finished if item.is_step]
        if ids:
            # What stands may be another's report of the same attempt: the store says how it ended.
            await self._hand_over(ids)
        await self._tell_dependents(finished)
        return ended


class HandingLosses(_Around):
    """What the sweeper ends."""

    async def lose(self, decide: Callable[[Lost, JobVersion], Verdict], now: Instant, limit: int) -> LossReport:
        ended: list[ExecutionId] = []

        def deciding(lost: Lost, version: JobVersion) -> Verdict:
            verdict = decide(lost, version)
            if version.spec.step is not None and is_final(verdict.state):
                ended.append(lost.id)
            return verdict

        report: LossReport = await self._inner.lose(deciding, now, limit)
        if ended:
            await self._conductor.hand_over(ended)
        return report


class HandingCancels(_Around):
    """What is cancelled: a run with all its steps, and of a step that which comes after it."""

    def __init__(self, inner: Cancels, store: Store, conductor: Conductor) -> None:
        super().__init__(inner, conductor)
        self._store = store

    async def cancel(
        self,
        tenant: int,
        ids: Sequence[ExecutionId],
        by: str,
        now: Instant,
        kill_after: Micros | None = None,
        *,
        deed: Deed | None = None,
    ) -> dict[ExecutionId, State]:
        stands: dict[ExecutionId, State] = await self._inner.cancel(tenant, ids, by, now, kill_after, deed=deed)
        stopped = [id for id, state in stands.items() if state is State.CANCELLED]
        if stopped:
            await self._conductor.hand_over(stopped)
        under_way = [id for id, state in stands.items() if state is State.RUNNING and await self._store.flows.flow(id) is not None]
        for run in under_way:
            await self._conductor.look_at(run)
            if await self._store.flows.flow(run) is None:
                stands[run] = State.CANCELLED
        return stands
