"""The run grid of a job, for people who look for what goes wrong again and again."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from duly.domain import grid
from duly.domain.access import Actor
from duly.domain.grid import Grid, Run, have_ended, most_runs
from duly.domain.ids import ExecutionId
from duly.domain.instants import MINUTE, Micros
from duly.domain.job import Job
from duly.domain.lifecycle import State, is_final
from duly.domain.recent import Recent
from duly.ports.clock import Clock
from duly.ports.grid import Grids
from duly.usecases.conduct.conductor import Conductor

# A step may still be made of a run that was cancelled at that moment: what ended before so long is not touched any more.
SETTLED: Micros = MINUTE
MOST_KEPT = 20_000
# So many more are looked at, so often, for runs that have begun.
LOOKED_AT = 500
MOST_LOOKS = 10


class RunGrids:
    """Runs side by side with their steps or tries."""

    def __init__(self, grids: Grids, conductor: Conductor, clock: Clock) -> None:
        self._grids = grids
        self._conductor = conductor
        self._clock = clock
        # The steps of runs that have ended, by the numbers of their ids: they never change, and pages ask for them again and again.
        self._ended: Recent[str] = Recent()

    async def show(self, actor: Actor, job: Job, limit: int) -> Grid:
        """The job's newest runs in which anything was tried, with their steps where the job has some."""
        runs = await self._begun(actor, job, most_runs(limit, len(job.version.spec.steps)))
        if not job.version.spec.steps:
            tried = [run.id for run in runs if run.attempt > 1 or run.state is not State.SUCCEEDED]
            return grid.of_attempts(runs, await self._grids.tries(tried))
        orders: dict[int, dict[str, int]] = {}
        for definition in dict.fromkeys(run.definition for run in runs):
            orders[definition] = await self._order(definition)
        return grid.of_steps(runs, await self._steps(runs), orders)

    async def _begun(self, actor: Actor, job: Job, most: int) -> list[Run]:
        """Past what waits for its time, or was skipped, though not without end."""
        runs: list[Run] = []
        before: ExecutionId | None = None
        wanted = most
        for _ in range(MOST_LOOKS):
            newest = await self._grids.runs(actor.tenant, job.id, wanted, before)
            runs += [run for run in newest if _may_have_begun(run)]
            if len(runs) >= most or len(newest) < wanted:
                break
            before, wanted = newest[-1].id, LOOKED_AT
        return runs[:most]

    async def _order(self, definition: int) -> dict[str, int]:
        """The steps of a definition in their order, with their places; none of one that a newer release has written."""
        try:
            graph = (await self._conductor.reader.plan(definition)).graph
        except KeyError:
            return {}
        return {step.name: graph.place[step.name] for step in (*graph.order, *graph.undoing)}

    async def _steps(self, runs: Sequence[Run]) -> dict[ExecutionId, str]:
        numbers = {run.id.int for run in runs}
        missing = self._ended.unknown(numbers, self._clock.boottime())
        found = await self._grids.steps([UUID(int=number) for number in missing])
        known = {UUID(int=number): text for number, text in self._ended.known(numbers).items()} | found
        if len(self._ended) > MOST_KEPT:
            self._ended = Recent()
        settled = self._clock.now() - SETTLED
        ended = [run for run in runs if run.id in found and run.finished_at is not None and run.finished_at < settled]
        self._ended.learn({run.id.int: found[run.id] for run in ended if have_ended(found[run.id])})
        return known


def _may_have_begun(run: Run) -> bool:
    """What waits for a retry has; what was cancelled may have."""
    return run.attempt > 1 or run.state is State.RUNNING or (is_final(run.state) and run.state is not State.SKIPPED)
