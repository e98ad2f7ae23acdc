"""What a schedule owes: fires whose time has come and that no dispatcher has written yet.

Usually that is a matter of milliseconds; after an outage, of hours. Before a change of the job could hide them they are
settled: fired as the version says under which they were due, or recorded as not wanted by whoever pauses or cancels it. It is the
dispatcher's own transaction, under the shard's current epoch, so it does not matter who comes first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from duly.domain import decide
from duly.domain.execution import DueSchedule
from duly.domain.instants import Instant
from duly.domain.job import Job
from duly.domain.lifecycle import JobState
from duly.domain.schedule import OneTimeSchedule, plain_of
from duly.domain.shards import shard_of
from duly.ports.store import Leases, Schedules
from duly.ports.transport import Transport
from duly.ports.wall import behind_wall
from duly.usecases.quotas import Directory


class Overdue:
    """Settles what the schedule of a job owes."""

    def __init__(self, schedules: Schedules, leases: Leases, quotas: Directory, transport: Transport) -> None:
        self._quotas = quotas
        self._schedules = schedules
        self._leases = leases
        self._transport = transport

    async def settle(self, job: Job, now: Instant, again: Callable[[], Awaitable[Job]], unwanted_by: str | None = None) -> Job:
        """Leave nothing due up to now; `again` reads the job anew. Answers the job as it stands afterwards."""
        while (due := _due(job, now)) is not None:
            firing = decide.fires([due], {due.version: job.version}, now, await self._quotas.all(job.version.tenant))
            if unwanted_by is not None:
                firing = decide.unwanted(firing, unwanted_by)
            epochs = {lease.shard: lease.epoch for lease in await self._leases.shards() if lease.shard == due.shard}
            with behind_wall(None):  # the dispatcher's transaction, whoever was faster
                report = await self._schedules.fire(firing, epochs, now)
            if report.fired > report.skipped:
                await self._transport.announce([job.version.route])
            if report.stopped:
                await self._transport.announce_cancel()
            # Moved by us, or by whoever was faster.
            job = await again()
        return job


def _due(job: Job, now: Instant) -> DueSchedule | None:
    if job.state is not JobState.ACTIVE or job.version.schedule is None or job.next_fire_at is None or job.next_fire_at > now:
        return None
    return DueSchedule(job.id, shard_of(job.id), job.next_fire_at, job.version.number, job.skip_at, job.skip_by)


def fires_once(job: Job) -> bool:
    """Whether its only fire waits for it, whatever happens to the job meanwhile."""
    return job.version.schedule is not None and isinstance(plain_of(job.version.schedule), OneTimeSchedule)
