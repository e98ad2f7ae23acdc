"""Log lines: of one execution, and across the recent executions of a job."""

from __future__ import annotations

from uuid import UUID

from duly.domain.access import Actor
from duly.domain.ids import ExecutionId, JobId, id_floor
from duly.domain.instants import Instant
from duly.domain.logs import LogFilter
from duly.ports import logs
from duly.ports.logs import FoundLine, Place
from duly.usecases.executions import Executions
from duly.usecases.jobs import Jobs

# Looks in one call: a search that finds little ends with what it has found, and a place to go on from.
MOST_LOOKS = 5


class Logs:
    """The use case of those who read logs."""

    def __init__(self, store: logs.Logs, executions: Executions, jobs: Jobs) -> None:
        self._store = store
        self._executions = executions
        self._jobs = jobs

    async def of_execution(
        self, actor: Actor, id: ExecutionId, wanted: LogFilter, after: int, limit: int
    ) -> tuple[list[FoundLine], int | None]:
        """In order, past the sequence number `after`, and where to go on; None: that is all for now. Raises NotFound as `show`."""
        await self._executions.show(actor, id)
        found: list[FoundLine] = []
        reached: int | None = after
        for _ in range(MOST_LOOKS):
            lines, reached = await self._store.of_execution(actor.tenant, id, wanted, reached or 0, limit - len(found))
            found += lines
            if reached is None or len(found) == limit:
                break
        return found, reached

    async def of_job(
        self, actor: Actor, job: JobId, wanted: LogFilter, since: Instant | None, after: Place | None, limit: int
    ) -> tuple[list[FoundLine], Place | None]:
        """Newest execution first, each in order, and where to go on; None: that is all. Raises NotFound as `Jobs.show`."""
        await self._jobs.show(actor, job)
        oldest = UUID(int=0) if since is None else id_floor(since)
        return await self._store.of_job(actor.tenant, job, wanted, after, oldest, limit)
