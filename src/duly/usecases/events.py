"""What changes, for those who follow it: a look at the store every moment, shared by all who follow the same tenant.

No write is made for it, so that nothing pays for it when nobody looks. Jobs carry the time of their last change. Of executions
a look covers the newest, those that run, and those that were seen alive before; what changes elsewhere (an old execution that
starts and ends between two looks, more of them than a look covers) is not told one by one. An event is a hint: who follows
reads the lists for the truth, and reads them again when it is told that there was more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from duly.domain.access import Actor
from duly.domain.errors import TooMany
from duly.domain.execution import Execution
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import MINUTE, SECOND, Instant, Micros
from duly.domain.job import Job
from duly.domain.lifecycle import State, is_final
from duly.ports.clock import Clock
from duly.ports.search import Search
from duly.ports.store import Definitions

NEWEST = 300
RUNNING = 200
REMEMBERED = 300
MOST_JOBS = 500
# A look serves everybody who comes within that time.
FRESH_FOR: Micros = SECOND // 4
# What a transaction wrote with an older time and committed late is still told.
SLACK: Micros = 5 * SECOND
# Who was away for longer is told to read everything again.
LONGEST_AWAY: Micros = 10 * MINUTE
# So many changes are told one by one after a look.
MOST_TOLD = 100
# So many streams one key may have open on a node.
MOST_STREAMS = 50


@dataclass(slots=True)
class Look:
    """What a look has seen: jobs that have changed lately, and executions by their ids. `window` are the newest, in order."""

    at: Instant
    jobs: list[Job]
    executions: dict[ExecutionId, Execution]
    window: list[ExecutionId]


@dataclass(slots=True)
class Told:
    """What is new to a follower: jobs and executions, oldest first. `more`: read the lists again, not all of it is here."""

    at: Instant
    jobs: list[Job] = field(default_factory=list)
    executions: list[Execution] = field(default_factory=list)
    more: bool = False


class Changes:
    """Looks at the store for those who follow a tenant."""

    def __init__(self, definitions: Definitions, search: Search, clock: Clock) -> None:
        self._definitions = definitions
        self._search = search
        self._clock = clock
        self._watches: dict[int, _Watch] = {}
        self._streams: Counter[str] = Counter()

    @contextmanager
    def seat(self, actor: Actor) -> Iterator[None]:
        """A place for one open stream of a key, of events or of a log. Raises TooMany when it has as many as it may have.

        Taken before the stream begins: of many that come at once no more are let in.
        """
        if self._streams[actor.key_id] >= MOST_STREAMS:
            raise TooMany("DULY-E413", f"The key has {MOST_STREAMS} open streams.", hint="Share one between tabs.", retry_after=5.0)
        self._streams[actor.key_id] += 1
        try:
            yield
        finally:
            self._streams[actor.key_id] -= 1
            if not self._streams[actor.key_id]:
                del self._streams[actor.key_id]

    def follow(self, actor: Actor, since: Instant | None) -> Follower:
        """Follow the tenant's changes, from now on or from an earlier moment."""
        return Follower(self, actor.tenant, since)

    async def look(self, tenant: int) -> Look:
        """The tenant's changes as they are now, or were a moment ago."""
        now = self._clock.boottime()
        for other in [other for other, watch in self._watches.items() if not 0 <= now - watch.asked_at < MINUTE]:
            del self._watches[other]
        watch = self._watches.setdefault(tenant, _Watch(asked_at=now))
        watch.asked_at = now
        async with watch.lock:
            if watch.last is None or not 0 <= self._clock.boottime() - watch.looked_at < FRESH_FOR:
                watch.looked_at = self._clock.boottime()
                watch.last = await self._look(tenant, watch)
            return watch.last

    async def jobs_since(self, tenant: int, since: Instant) -> list[Job]:
        """Jobs that have changed since, newest first."""
        return await self._definitions.changed_jobs(tenant, since, MOST_JOBS)

    async def _look(self, tenant: int, watch: _Watch) -> Look:
        now = self._clock.now()
        window, running = await self._search.newest(tenant, NEWEST, RUNNING)
        ids = list(dict.fromkeys([*window, *running, *watch.alive]))
        found = {execution.id: execution for execution in await self._search.by_ids(tenant, ids)}
        watch.alive = [id for id, execution in found.items() if not is_final(execution.state)][:REMEMBERED]
        return Look(now, await self.jobs_since(tenant, now - 2 * SLACK), found, window)


@dataclass(slots=True)
class _Watch:
    asked_at: Micros
    looked_at: Micros = 0
    last: Look | None = None
    alive: list[ExecutionId] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Follower:
    """One who follows: knows what it was told. Something may be told twice, after a reconnection."""

    def __init__(self, changes: Changes, tenant: int, since: Instant | None) -> None:
        self._changes = changes
        self._tenant = tenant
        self._since = since
        self._last: Look | None = None
        self._jobs: dict[JobId, tuple[object, ...]] = {}
        self._executions: dict[ExecutionId, tuple[object, ...]] = {}

    async def news(self) -> Told:
        """What has changed since the last time it was asked."""
        look = await self._changes.look(self._tenant)
        if look is self._last:
            return Told(look.at)
        told = Told(look.at)
        jobs, since = look.jobs, None if self._last is None else self._last.at - SLACK
        if self._last is None and self._since is not None:
            since = self._since - SLACK
            told.more = not 0 <= look.at - self._since <= LONGEST_AWAY
            if not told.more:
                jobs = await self._changes.jobs_since(self._tenant, since)
                told.more = len(jobs) == MOST_JOBS
        self._tell_jobs(told, jobs, since)
        self._tell_executions(told, look, since)
        if len(told.executions) > MOST_TOLD:
            told.more, told.executions = True, told.executions[-MOST_TOLD:]
        self._last = look
        return told

    def _tell_jobs(self, told: Told, jobs: list[Job], since: Instant | None) -> None:
        for job in reversed(jobs):
            stands = (job.version.version, job.standing(told.at), job.paused_until)
            if self._jobs.get(job.id) != stands and since is not None:
                told.jobs.append(job)
            self._jobs[job.id] = stands
        # What has not changed for long need not be known: it is told when it changes.
        recent = {job.id for job in jobs}
        self._jobs = {id: stands for id, stands in self._jobs.items() if id in recent}

    def _tell_executions(self, told: Told, look: Look, since: Instant | None) -> None:
        before = self._executions
        self._executions = {id: _stands(execution) for id, execution in look.executions.items()}
        if since is None:
            return
        for id in sorted(look.executions, key=lambda id: id.int):
            execution = look.executions[id]
            is_news = before[id] != self._executions[id] if id in before else changed_at(execution) >= since
            if is_news:
                told.executions.append(execution)
        if self._last is not None and len(look.window) == NEWEST and look.window[-1] not in before:
            # All of the newest are new: there may have been more than these.
            told.more = True


def changed_at(execution: Execution) -> Instant:
    """When an execution last changed, as far as that is known; one that waits for a retry has changed just now."""
    if execution.state is State.SCHEDULED and execution.attempt > 1:
        return execution.next_attempt_at or execution.created_at
    return max(execution.created_at, execution.started_at or 0, execution.finished_at or 0)


def _stands(execution: Execution) -> tuple[object, ...]:
    return execution.state, execution.attempt, execution.cancel_asked_at, execution.next_attempt_at
