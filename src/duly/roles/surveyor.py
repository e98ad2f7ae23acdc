"""The surveyor: learns how long jobs take, from what has ended, beside the hot path.

It follows the ids of executions in four passes (domain/expected.py says why). A pass and the sketches that follow from it move in one
transaction, where the pass still stands as it was read: whatever ends a surveyor, the next one goes on there, and nothing is counted twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from duly.domain.expected import LAGS, earliest_end, sketches
from duly.domain.ids import id_floor, instant_of
from duly.domain.instants import DAY, Instant, Micros
from duly.ports.figures import Figures
from duly.roles.loop import Step


@dataclass(frozen=True, slots=True)
class SurveyorSettings:
    """How many executions a pass looks at in a step, how often it looks, and how far back it begins. It never falls further behind than
    that: it leaves some out then, and what it has is a sample."""

    batch: int = 2000
    every: float = 10.0
    soon: float = 0.5
    furthest: Micros = DAY


class Surveyor:
    """Any number may run: of two that count the same, the store takes one."""

    name = "surveyor"

    def __init__(self, figures: Figures, settings: SurveyorSettings) -> None:
        self._figures = figures
        self._settings = settings

    async def step(self, now: Instant) -> Step:
        """Look at one batch in each pass."""
        counted = 0
        is_behind = False
        for nth, lag in enumerate(LAGS):
            reached = await self._figures.counted_to(nth)
            until = id_floor(now - lag)
            after = id_floor(now - lag - self._settings.furthest) if reached is None else reached
            if after >= until:
                continue
            ends, last = await self._figures.ends(after, until, earliest_end(nth, instant_of(after)), self._settings.batch)
            found = sketches(ends, nth, now)
            # Past the last that was looked at, or all that there can be before `until`.
            if await self._figures.count(nth, reached, self._following(last, until), found, now):
                counted += len(ends)
                is_behind = is_behind or last is not None
        return Step(self._settings.soon if is_behind else self._settings.every, {"looked_at": counted})

    def _following(self, last: UUID | None, until: UUID) -> UUID:
        return _before(until) if last is None else max(last, id_floor(instant_of(until) - self._settings.furthest))


def _before(id: UUID) -> UUID:
    return UUID(int=id.int - 1)
