"""A world with workflows: the store hands over, and a conductor begins what is ready."""

from __future__ import annotations

from typing import Any

from duly.adapters.sql.bell import Bell
from duly.domain.execution import Claimed, Finished
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant, Micros
from duly.domain.job import Job, Target
from duly.domain.lifecycle import Outcome, State
from duly.domain.target import WORKFLOW_HANDLER
from duly.domain.workflow.ids import item_id, step_id
from duly.domain.workflow.step import Step
from duly.usecases.conduct.conductor import Conductor
from duly.usecases.conduct.handing import conducted
from duly.usecases.quotas import Directory
from tests.conformance.world import World


class HandClock:
    """The world's clock, as roles and use cases read it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> Instant:
        return self._world.now

    def boottime(self) -> Micros:
        return self._world.now


class Works:
    """A world whose store is conducted; `plain` is the store below, which forgets to hand over."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.plain = world.store
        clock = HandClock(world)
        self.conductor = Conductor(
            self.plain.flows, self.plain.definitions, self.plain.cancels, Directory(self.plain.tenants, clock), Bell(), clock
        )
        world.store = conducted(self.plain, self.conductor)

    async def workflow(self, *steps: Step, name: str | None = None, **changes: Any) -> Job:
        changes.setdefault("handler", WORKFLOW_HANDLER)
        return await self.world.job(name, steps=tuple(steps), **changes)

    async def begin(self, job: Job, payload: str | None = None) -> ExecutionId:
        run = (await self.world.enqueue(job, payload=payload))[0]
        await self.conduct()
        return run

    async def conduct(self) -> None:
        await self.conductor.begin(self.world.now, 100)

    async def look(self) -> None:
        """Long enough after everything: every flow is looked at."""
        self.world.turn(120_000_000)
        await self.conductor.look(self.world.now, 1000)

    async def state(self, run: ExecutionId, job: Job, step: str, nth: int | None = None) -> State | None:
        place = [one.name for one in job.version.spec.steps].index(step)
        id = step_id(run, place) if nth is None else item_id(run, place, nth)
        found = (await self.plain.flows.ends([id])).get(id)
        return None if found is None else (found.state or State.RUNNING)

    async def states(self, run: ExecutionId, job: Job) -> dict[str, State | None]:
        return {step.name: await self.state(run, job, step.name) for step in job.version.spec.steps}

    async def take(self, quota: int = 1000) -> tuple[int, Claimed | None]:
        worker = await self.world.worker()
        routes = [route.number for route in await self.plain.ready.routes() if route.handler != WORKFLOW_HANDLER]
        work = await self.plain.ready.work(routes, 10)
        from duly.domain.fairness import Ask

        asks = [Ask(item.route, item.tenant, quota) for item in work]
        return worker, await self.plain.ready.claim(worker, asks, self.world.now) if asks else None

    async def reports(
        self, claimed: Claimed, outcome: Outcome, result: str | None, only: list[ExecutionId] | None = None
    ) -> list[Finished]:
        ended = await self.world.ended(claimed, outcome, only, is_step=True)
        for item in ended:
            if outcome is Outcome.SUCCEEDED:
                item.result = result
            else:
                item.state, item.retry_at = State.DEAD, None
        return ended

    async def run_ready(self, outcome: Outcome = Outcome.SUCCEEDED, result: str | None = None, *, lost: bool = False) -> list[ExecutionId]:
        """A worker runs what is ready. `lost`: it dies right after the commit, before it could hand over."""
        worker, claimed = await self.take()
        if claimed is None:
            return []
        outcomes = self.plain.outcomes if lost else self.world.store.outcomes
        assert await outcomes.finish(worker, await self.reports(claimed, outcome, result), [claimed.lease], self.world.now) == set()
        return claimed.ids

    async def drain(self, result: str | None = None) -> int:
        """Until nothing is ready."""
        count = 0
        while ids := await self.run_ready(result=result):
            count += len(ids)
        return count


def step(name: str, *after: str, **changes: Any) -> Step:
    """A step that a worker of the tests runs."""
    return Step(**({"name": name, "after": after, "target": Target(handler="work")} | changes))
