"""Why: where an execution stands, and what a job did or will do at a time."""

from __future__ import annotations

from dataclasses import replace

from duly.domain.access import DEFAULT_TENANT_NUMBER, Actor
from duly.domain.errors import NotFound
from duly.domain.ids import ExecutionId, JobId, execution_text, fire_id, job_text
from duly.domain.instants import Instant, Micros
from duly.domain.lifecycle import is_final
from duly.domain.why.answers import Answer
from duly.domain.why.errors import error_of
from duly.domain.why.execution import why_execution
from duly.domain.why.facts import ExecutionFacts, JobFacts
from duly.domain.why.fires import job_reasons, why_fire
from duly.ports.clock import Clock
from duly.ports.store import ExecutionFilter, Insights, ReadyQueue
from duly.ports.tenants import Tenants
from duly.ports.wall import behind_wall
from duly.ports.why import Facts

# A depth of one says that a tenant has work; how much does not matter for its share.
HAS_WORK = 1
# Among the newest runs of a job, those that have not ended are worth a word.
LATEST = 20


class Why:
    """The use cases of whoever asks why. `keep` is how long history is kept."""

    def __init__(self, facts: Facts, insights: Insights, ready: ReadyQueue, tenants: Tenants, clock: Clock, keep: Micros) -> None:
        self._facts = facts
        self._insights = insights
        self._ready = ready
        self._tenants = tenants
        self._clock = clock
        self._keep = keep

    async def execution(self, actor: Actor, id: ExecutionId) -> Answer:
        """Why this execution stands where it stands."""
        answer = await self._of_execution(actor, id)
        if answer is None:
            raise NotFound("DULY-E205", f"There is no execution {execution_text(id)}.", field="executionId")
        return answer

    async def job(self, actor: Actor, id: JobId, at: Instant | None) -> Answer:
        """Why the job does not run now; with a time, why it did not run then, or will not."""
        return await self._now(actor, id) if at is None else await self._at(actor, id, at)

    async def _now(self, actor: Actor, id: JobId) -> Answer:
        job = await self._facts.of_job(actor.tenant, id)
        if job is None:
            raise _no_job(id)
        now = self._clock.now()
        reasons = job_reasons(job, now, await self._name(job))
        for execution in await self._insights.executions(ExecutionFilter(actor.tenant, job_id=id, limit=LATEST)):
            if not is_final(execution.state):
                live = await self._of_execution(actor, execution.id)
                return Answer([*(live.reasons if live is not None else ()), *reasons])
        return Answer(reasons)

    async def _at(self, actor: Actor, id: JobId, at: Instant) -> Answer:
        recorded = await self._of_execution(actor, fire_id(id, at))
        now = self._clock.now()
        facts = await self._facts.of_fire(actor.tenant, id, at, now, now - self._keep)
        if facts is None:
            raise _no_job(id)
        if recorded is not None:
            return recorded
        keys = [key for key in (facts.job.paused_by, facts.job.skip_by) if key is not None]
        return why_fire(replace(facts, people=await self._facts.names(keys)))

    async def _of_execution(self, actor: Actor, id: ExecutionId) -> Answer | None:
        facts = await self._facts.of_execution(actor.tenant, id, self._clock.now())
        if facts is None:
            return None
        if facts.queue is not None:
            with behind_wall(None):  # its share depends on who else has work; of them it is told no more than that
                work = await self._ready.work([facts.version.route], HAS_WORK)
                is_shared = (await self._tenants.bounded()).newest > DEFAULT_TENANT_NUMBER
            facts = replace(facts, queue=replace(facts.queue, work=tuple(work), is_shared=is_shared))
        return why_execution(replace(facts, people=await self._facts.names(_keys_of(facts))))

    async def _name(self, job: JobFacts) -> str | None:
        if job.paused_by is None:
            return None
        return (await self._facts.names([job.paused_by])).get(job.paused_by, job.paused_by)


def _keys_of(facts: ExecutionFacts) -> list[str]:
    """Whose names the answer may need."""
    told = error_of(facts.execution.error).get("by")
    wished = None if facts.wish is None else facts.wish.by
    settled = None if facts.settlement is None else facts.settlement.by
    return [key for key in {told, wished, settled, facts.job.skip_by} if isinstance(key, str)]


def _no_job(id: JobId) -> NotFound:
    return NotFound("DULY-E204", f"There is no job {job_text(id)}.", field="jobId")
