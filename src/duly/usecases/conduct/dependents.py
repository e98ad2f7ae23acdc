"""Tells jobs that wait for another one that it has succeeded: a hint, so that they need not wait for their own next look.

It costs a look at a small table a second, and nothing while nobody waits.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from duly.domain.errors import Unavailable
from duly.domain.ids import JobId
from duly.domain.instants import SECOND, Micros
from duly.ports.awaited import AwaitedJobs
from duly.ports.clock import Clock
from duly.ports.transport import Transport

log = logging.getLogger("duly.dependencies")

LOOK_EVERY: Micros = SECOND


class Dependents:
    """Of one process. What it knows may be a second old: who has come since looks for itself."""

    def __init__(self, awaited: AwaitedJobs, transport: Transport, clock: Clock) -> None:
        self._awaited = awaited
        self._transport = transport
        self._clock = clock
        self._jobs: frozenset[JobId] = frozenset()
        self._look_at: Micros = 0

    @property
    def wants_to_hear(self) -> bool:
        """Whether somebody waits for a job, or it is time to look whether anybody does."""
        return bool(self._jobs) or self._clock.boottime() >= self._look_at

    def may_wait_for(self, jobs: Iterable[JobId]) -> bool:
        """Whether there is anything to tell, or to look at."""
        return self._clock.boottime() >= self._look_at or not self._jobs.isdisjoint(jobs)

    async def tell(self, jobs: Iterable[JobId]) -> None:
        """These have succeeded, and it is committed. Never raises because the store is away: the dispatchers look as well."""
        try:
            if self._clock.boottime() >= self._look_at:
                self._look_at = self._clock.boottime() + LOOK_EVERY
                self._jobs = await self._awaited.jobs()
            met = self._jobs.intersection(jobs)
            routes = await self._awaited.succeeded(met, self._clock.now()) if met else set()
        except Unavailable as error:
            log.warning("who waits for a job is left to the dispatchers: %s", error)
            return
        if routes:
            await self._transport.announce(sorted(routes))
