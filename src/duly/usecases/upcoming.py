"""What will fire: the schedules of all jobs of a tenant, merged in the order of their times.

Bounded in three ways: so many jobs are read, soonest first; so many fires are computed; so many of one job are shown. Where one
of the bounds cuts in, the answer says up to when it is complete.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import UUID

from duly.domain.access import Actor
from duly.domain.busy import Fire, busy
from duly.domain.expected import Expected
from duly.domain.ids import JobId
from duly.domain.instants import DAY, MINUTE, Instant, Micros
from duly.domain.job import JobVersion, Target, Timing
from duly.domain.lifecycle import JobState
from duly.domain.recent import Recent
from duly.domain.schedule import next_fire
from duly.domain.spreading import Move, is_guest, minutes_of, moves_of
from duly.ports.clock import Clock
from duly.ports.figures import Figures
from duly.ports.store import Definitions, JobFilter
from duly.usecases.foreseen import Foreseen
from duly.usecases.turns import Turns

MOST_JOBS = 5_000
# So many are remembered, of all tenants that look ahead; then all are forgotten.
MOST_VERSIONS = 50_000
MOST_FIRES = 20_000
# Counted by the minute: a week of as many daily jobs, and some.
MOST_COUNTED = 50_000
# So often others have their turn while fires are computed.
BREATHE_EVERY = 500
# The clock is asked after so many: of some schedules each fire is a search.
A_FEW = 20


class Coming(NamedTuple):
    """A job that fires, or would if it were not paused."""

    id: JobId
    version: JobVersion
    next_fire_at: Instant | None
    skip_at: Instant | None


@dataclass(frozen=True, slots=True)
class Window:
    """From when (still in it) until when (no longer)."""

    first: Instant
    until: Instant


@dataclass(slots=True)
class Forecast:
    """Fires with their jobs, in order; exact before `until`. `capped`: jobs that have more fires than are shown."""

    until: Instant
    fires: list[tuple[Instant, Coming]] = field(default_factory=list)
    capped: int = 0
    has_more: bool = False


@dataclass(slots=True)
class Counted:
    """How many fires each minute of a window has, of those that have any, and whose they are, in no order; exact before `until`."""

    until: Instant
    fires: list[tuple[JobId, Sequence[Instant]]]
    minutes: dict[Instant, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        minutes = self.minutes
        for _, instants in self.fires:
            for at in instants:
                minute = at - at % MINUTE
                minutes[minute] = minutes.get(minute, 0) + 1


@dataclass(slots=True)
class Spread:
    """Moves of jobs out of crowded minutes, and what each minute of the coming day has before and after them.

    Of jobs that fire at most once an hour; `often` are left out. `is_whole` is False where there are more jobs than are looked at.
    """

    moves: list[tuple[Move, Coming]]
    before: Counter[Instant]
    after: Counter[Instant]
    often: int
    is_whole: bool


class Upcoming:
    """The use case of those who look ahead."""

    def __init__(self, definitions: Definitions, figures: Figures, clock: Clock) -> None:
        self._definitions = definitions
        self._figures = figures
        self._clock = clock
        self._foreseen = Foreseen()
        self._versions: Recent[JobVersion] = Recent()

    async def fires(
        self,
        actor: Actor,
        window: Window,
        per_job: int,
        after: tuple[Instant, UUID] | None,
        limit: int,
        pool: str | None = None,
        *,
        paused_at: Instant | None = None,
    ) -> Forecast:
        """The first `limit` fires of the window past `after`, at most `per_job` of each job; with `pool`, of the jobs of that pool.

        With `paused_at`, what jobs would fire that are paused then.
        """
        if paused_at is not None:
            forecast = await self._held_back(actor, window, pool, paused_at, per_job)
            following = [(at, job) for at, job in forecast.fires if after is None or (at, job.id) > after]
            forecast.fires, forecast.has_more = following[:limit], len(following) > limit
            return forecast
        jobs, until = await self._waiting(actor, window, pool)
        return await self._merge(jobs, window, until, per_job, after, limit)

    async def expected(self, actor: Actor, jobs: Iterable[JobId]) -> dict[UUID, Expected]:
        """How long these jobs mostly take, of those of which enough is known."""
        return await self._figures.expected(actor.tenant, list(dict.fromkeys(jobs)))

    async def minutes(self, actor: Actor, window: Window, pool: str | None = None, *, paused_at: Instant | None = None) -> Counted:
        """How many fires each minute of the window has; with `paused_at`, of jobs that are paused then."""
        if paused_at is not None:
            forecast = await self._held_back(actor, window, pool, paused_at, MOST_COUNTED)
        else:
            jobs, until = await self._waiting(actor, window, pool)
            if (gathered := await self._gathered(jobs, window, until)) is not None:
                return Counted(until, gathered)
            forecast = await self._merge(jobs, window, until, MOST_COUNTED + 1, None, MOST_COUNTED + 1)
        return Counted(forecast.until, [(job.id, (at,)) for at, job in forecast.fires])

    async def load(self, actor: Actor, counted: Counted) -> tuple[dict[Instant, Micros], int]:
        """How long the fires of a window will run in each minute, by what nearly all runs of their jobs take (p95); and of how many
        fires that is not known, because their jobs have hardly run yet."""
        expected = await self.expected(actor, (job for job, _ in counted.fires))
        known = [Fire(at, expected[job].p95) for job, instants in counted.fires if job in expected for at in instants]
        return busy(known, counted.until), sum(map(len, (instants for _, instants in counted.fires))) - len(known)

    async def spread(self, actor: Actor, now: Instant, most: int, pool: str | None = None) -> Spread:
        """How jobs would stand apart that crowd a minute of the coming day. Changes nothing."""
        jobs, known_until = await self._coming(actor, now + DAY, MOST_JOBS)
        found: dict[UUID, tuple[Timing, list[int]]] = {}
        turns = Turns(self._clock)
        for nth, job in enumerate(jobs):
            if pool is None or job.version.spec.target.pool == pool:
                timing = job.version.spec.timing
                found[job.id] = (timing, minutes_of(timing, job.id, now))
            if nth % A_FEW == 0:
                await turns.give_way()
        guests = {id: pair for id, pair in found.items() if is_guest(pair[1])}
        known = {job.id: job for job in jobs}
        moves = moves_of(guests, most)
        moved = {move.job: minutes_of(replace(guests[move.job][0], cron=move.after), move.job, now) for move in moves}
        before = Counter(minute * MINUTE for _, minutes in guests.values() for minute in minutes)
        after = Counter(minute * MINUTE for id, (_, minutes) in guests.items() for minute in moved.get(id, minutes))
        is_whole = known_until >= now + DAY
        return Spread([(move, known[move.job]) for move in moves], before, after, len(found) - len(guests), is_whole)

    async def _coming(self, actor: Actor, before: Instant, limit: int) -> tuple[list[Coming], Instant]:
        """At most so many active jobs that wait for a fire, soonest first, and until when these are all of them. One whose version a
        newer release wrote, and this one cannot read, is left out."""
        found, known_until = await self._definitions.waiting(actor.tenant, before, limit + 1)
        if len(found) > limit:
            # Of those that were not read none fires before this one.
            known_until = min(known_until, found.pop().next_fire_at)
        numbers, now = {one.version for one in found}, self._clock.boottime()
        if len(self._versions) > MOST_VERSIONS:
            self._versions = Recent()
        # Whoever forgets all while we wait for an answer forgets it for those who come later.
        memory = self._versions
        if unknown := memory.unknown(numbers, now):
            memory.learn({number: _lean(version) for number, version in (await self._definitions.versions(unknown)).items()})
        versions = memory.known(numbers)
        return [
            Coming(id, version, next_fire_at, skip_at)
            for id, number, next_fire_at, skip_at in found
            if (version := versions.get(number)) is not None
        ], known_until

    async def _waiting(self, actor: Actor, window: Window, pool: str | None) -> tuple[list[Coming], Instant]:
        """The jobs that fire in a window, and until when these are all of them."""
        jobs, known_until = await self._coming(actor, window.until, MOST_JOBS)
        until = min(window.until, known_until)
        return [job for job in jobs if pool is None or job.version.spec.target.pool == pool], until

    async def _held_back(self, actor: Actor, window: Window, pool: str | None, now: Instant, per_job: int) -> Forecast:
        """What paused jobs would fire in a window and do not, in order. Where there is too much, complete up to where it had to end.

        Paused jobs are read in no order of time: of more than are read nothing is known.
        """
        wanted = JobFilter(actor.tenant, state=JobState.PAUSED, pool=pool, limit=MOST_JOBS + 1, now=now)
        jobs = await self._definitions.jobs(wanted)
        forecast = Forecast(window.until if len(jobs) <= MOST_JOBS else window.first)
        first = max(window.first, now + 1)
        for nth, job in enumerate(jobs):
            if nth % BREATHE_EVERY == 0:
                await asyncio.sleep(0)
            schedule = job.version.schedule
            if schedule is None:
                continue
            until = forecast.until if job.paused_until is None else min(job.paused_until, forecast.until)
            own: list[Instant] = []
            while len(own) <= per_job:
                most = min(BREATHE_EVERY, per_job + 1 - len(own))
                some = self._foreseen.between(schedule, own[-1] + 1 if own else first, until, most)
                own += some
                if len(some) < most:
                    break
                if len(forecast.fires) + len(own) > MOST_COUNTED:
                    forecast.until = min(forecast.until, own[-1])
                    break
                await asyncio.sleep(0)
            forecast.capped += len(own) > per_job
            held = Coming(job.id, job.version, job.next_fire_at, job.skip_at)
            forecast.fires += [(at, held) for at in own[:per_job]]
        forecast.fires = sorted(((at, job) for at, job in forecast.fires if at < forecast.until), key=lambda fire: (fire[0], fire[1].id))
        return forecast

    async def _gathered(self, jobs: list[Coming], window: Window, until: Instant) -> list[tuple[JobId, Sequence[Instant]]] | None:
        """All fires of a window, job by job; None when there are too many to gather so."""
        found: list[tuple[JobId, Sequence[Instant]]] = []
        count = 0
        turns = Turns(self._clock)
        for nth, job in enumerate(jobs):
            first, schedule = _first(job, window.first), job.version.schedule
            if first is None or first >= until:
                continue
            own = [first]
            while schedule is not None:
                some = self._foreseen.between(schedule, own[-1] + 1, until, BREATHE_EVERY)
                own += some
                if count + len(own) > MOST_COUNTED:
                    return None
                if len(some) < BREATHE_EVERY:
                    break
                await asyncio.sleep(0)
            count += len(own)
            found.append((job.id, own))
            if nth % A_FEW == 0:
                await turns.give_way()
        return found

    async def _merge(
        self, jobs: list[Coming], window: Window, until: Instant, per_job: int, after: tuple[Instant, UUID] | None, limit: int
    ) -> Forecast:
        """The first fires of a window, in the order of their times."""
        forecast = Forecast(until)
        # Their places stand for their ids: numbers are compared much faster.
        jobs.sort(key=lambda job: job.id.int)
        shown = [0] * len(jobs)
        turns = Turns(self._clock)
        heap: list[tuple[Instant, int]] = []
        for nth, job in enumerate(jobs):
            if (first := _first(job, window.first)) is not None and first < forecast.until:
                heap.append((first, nth))
            if nth % A_FEW == 0:
                await turns.give_way()
        heapq.heapify(heap)
        tracks: dict[int, list[Any]] = {}
        for at, nth in heap:
            schedule = jobs[nth].version.schedule
            if schedule is not None:
                tracks[nth] = [schedule, *self._foreseen.track(schedule, at)]
        computed, most = 0, max(MOST_FIRES, limit - 1)
        while heap:
            at, nth = heap[0]
            if len(forecast.fires) == limit:
                forecast.has_more = True
                break
            if computed >= most:
                forecast.until = min(forecast.until, at)
                forecast.fires = [fire for fire in forecast.fires if fire[0] < at]
                break
            if after is None or (at, jobs[nth].id) > after:
                forecast.fires.append((at, jobs[nth]))
            shown[nth] += 1
            computed += 1
            walked = tracks.get(nth)
            following = None
            if walked is not None:
                following = self._foreseen.following(*walked)
                walked[2] += 1
            if following is None or following >= forecast.until:
                heapq.heappop(heap)
            elif shown[nth] >= per_job:
                forecast.capped += 1
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (following, nth))
            if computed % A_FEW == 0:
                await turns.give_way()
        return forecast


def _lean(version: JobVersion) -> JobVersion:
    """What is kept of a version: when it fires, and how it is called. What it runs with may be large, and secret."""
    spec = version.spec
    return replace(version, spec=replace(spec, payload=None, steps=(), target=Target(pool=spec.target.pool, handler=spec.target.handler)))


def _first(job: Coming, first: Instant) -> Instant | None:
    """The job's first fire at or after an instant. The one it waits for comes first, whatever its schedule says."""
    if job.next_fire_at is None or job.next_fire_at >= first:
        return job.next_fire_at
    schedule = job.version.schedule
    return None if schedule is None else next_fire(schedule, first - 1)
