"""The auditor: compares what should have fired with what is on record, again and again.

A round goes over all jobs, some at a time, and looks at the fires that came due since the last one. Every so often a round looks at
everything of the last hours once more, for what has vanished since. What is missing is kept, looked for again in every step, and resolved
when it is there after all: a dispatcher that came back late, a catch-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from duly.domain.fire_audit import Life, Missed, owed
from duly.domain.ids import JobId
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND, Instant, Micros
from duly.ports.fire_audit import FireAudit, Found, Round
from duly.roles.loop import Step

# It rests so many times as long as it works: what it looks at is over, and those that fire and run are not to wait for it.
RESTS = 4.0


@dataclass(frozen=True, slots=True)
class AuditorSettings:
    """`grace`: so long after its time a fire may still come. `again`: so far back all is looked at once more, every `again_every`."""

    grace: Micros = 60 * SECOND
    every: float = 15.0
    soon: float = 0.05
    ttl: Micros = 2 * MINUTE
    jobs: int = 500
    fires: int = 2000
    again: Micros = 20 * HOUR
    again_every: Micros = HOUR
    looked_for: int = 1000
    keep: Micros = 30 * DAY


class Auditor:
    """Any number may run: the store lets one at a time audit, and another takes over when that one is gone."""

    name = "auditor"

    def __init__(self, auditor: str, audit: FireAudit, settings: AuditorSettings) -> None:
        self._auditor = auditor
        self._audit = audit
        self._settings = settings

    async def step(self, now: Instant) -> Step:
        """Look at some jobs of the round, and at what was missing before."""
        settings = self._settings
        round = await self._audit.take(self._auditor, now, settings.ttl)
        if round is None:
            return Step(settings.every, {"looked_at": 0, "missed": 0, "resolved": 0})
        if not round.is_under_way:
            round = self._begun(round, now)
        lives, last = await self._audit.lives(round.after, round.first, settings.jobs)
        missed, looked_at, following = await self._look(lives, round, now)
        if following is None:
            following = replace(round, after=last, at=None) if last is not None else self._ended(round)
        resolved = await self._come_to_light()
        following = replace(following, looked_at=following.looked_at + looked_at)
        await self._audit.found(self._auditor, following, Found(missed, resolved), now)
        did = {"looked_at": looked_at, "missed": len(missed), "resolved": len(resolved)}
        return Step(settings.soon if following.is_under_way else settings.every, did, RESTS)

    def _begun(self, round: Round, now: Instant) -> Round:
        """A new round: up to what must be on record by now, from where the last one ended, or from further back."""
        due = now - self._settings.grace
        if round.begun_at == 0:
            # What was before is not known as it was.
            round = replace(round, begun_at=due, audited_to=due)
        first, last = round.audited_to, max(round.audited_to, due)
        if now < round.again_at:
            return replace(round, first=first, last=last)
        first = max(min(first, now - self._settings.again), round.begun_at)
        return replace(round, first=first, last=last, again_at=now + self._settings.again_every)

    def _ended(self, round: Round) -> Round:
        return replace(round, after=None, at=None, audited_to=round.last)

    async def _look(self, lives: Sequence[Life], round: Round, now: Instant) -> tuple[list[Missed], int, Round | None]:
        """What is missing of these jobs; where to go on, if they have more fires than one step looks at."""
        fires, following = self._owed(lives, round)
        tenants = {life.job_id: life.tenant for life in lives}
        # Asked for together: a question for each of five hundred jobs would be most of the work.
        flaws = await self._audit.flaws(fires) if fires else {}
        missed = [Missed(job_id, at, tenants[job_id], flaw, now) for (job_id, at), flaw in flaws.items()]
        return missed, len(fires), following

    def _owed(self, lives: Sequence[Life], round: Round) -> tuple[list[tuple[JobId, Instant]], Round | None]:
        """The fires of these jobs, as many as one step looks at; and where to go on, if there are more."""
        fires: list[tuple[JobId, Instant]] = []
        before: JobId | None = round.after
        for life in lives:
            left = self._settings.fires - len(fires)
            first = round.first if round.at is None or life is not lives[0] else round.at
            targets, reached = owed(life, first, round.last, max(left, 1))
            fires += [(life.job_id, at) for at in targets]
            if reached < round.last:
                return fires, replace(round, after=before, at=reached)
            before = life.job_id
            if len(fires) >= self._settings.fires:
                return fires, replace(round, after=before, at=None)
        return fires, None

    async def _come_to_light(self) -> list[tuple[JobId, Instant]]:
        """What was missing and is there now."""
        known = [(item.job_id, item.at) for item in await self._audit.open_ones(self._settings.looked_for)]
        flaws = await self._audit.flaws(known) if known else {}
        return [fire for fire in known if fire not in flaws]
