"""How long a job's executions take: a sketch that is small, can be merged, and forgets.

Durations are counted in buckets whose bounds grow by a tenth, so a quantile is right to within five per cent whatever the scale,
and two sketches are merged by adding their counts. Counts fade with an age of two weeks: a job that became slower is
expected to be slow after some days, not after as many runs as it ever had.

Who counts follows the ids of executions, which carry when they were *due*, in four passes. An end belongs to exactly one of
them, by how long after its time it came, and the pass looks when that long has gone by. So each end is counted once, nothing is
remembered of what has not ended yet, and a run of a day is counted a day later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import exp, floor, log
from uuid import UUID

from duly.domain.ids import instant_of
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND, Instant, Micros

GROWTH = 1.1
AGE: Micros = 14 * DAY
# Whatever has faded to less is forgotten.
FAINT = 0.01
# The first bucket ends here: nobody plans by what is shorter.
SHORTEST: Micros = 1000
LAST_BUCKET = 256
# With fewer runs nothing is expected.
ENOUGH = 5.0

# How long after its time an execution's end is looked for. What ends later still is not counted.
LAGS: tuple[Micros, ...] = (2 * MINUTE, HOUR, 25 * HOUR, 8 * DAY)
# An end is written a moment after it came.
SETTLES: Micros = 10 * SECOND

_STEP = log(GROWTH)


@dataclass(slots=True)
class Sketch:
    """Counts by bucket, as of `at`."""

    at: Instant = 0
    counts: dict[int, float] = field(default_factory=dict)

    def add(self, durations: Iterable[Micros], now: Instant) -> None:
        """Count these runs."""
        self._fade(now)
        for duration in durations:
            place = bucket_of(duration)
            self.counts[place] = self.counts.get(place, 0.0) + 1.0

    def merge(self, other: Sketch) -> None:
        """Count what the other has counted, both as of the later of their times."""
        self._fade(other.at)
        faded = exp((other.at - self.at) / AGE)
        for place, count in other.counts.items():
            self.counts[place] = self.counts.get(place, 0.0) + count * faded

    def expected(self) -> Expected | None:
        """What a run takes; None while there were too few. Fading changes all counts alike: it does not matter when it is asked."""
        runs = sum(self.counts.values())
        return None if runs < ENOUGH else Expected(self._quantile(0.5, runs), self._quantile(0.95, runs), round(runs))

    def _quantile(self, part: float, runs: float) -> Micros:
        left = part * runs
        for place in sorted(self.counts):
            left -= self.counts[place]
            if left <= 1e-9:
                return middle_of(place)
        return middle_of(max(self.counts))

    def _fade(self, now: Instant) -> None:
        if now <= self.at:
            return
        if self.counts:
            left = exp((self.at - now) / AGE)
            self.counts = {place: count * left for place, count in self.counts.items() if count * left >= FAINT}
        self.at = now


@dataclass(frozen=True, slots=True)
class Expected:
    """Half of the runs take no longer than `p50`, nineteen of twenty no longer than `p95`; `runs` is how many that was learnt from."""

    p50: Micros
    p95: Micros
    runs: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A success as it is counted."""

    id: UUID
    job_id: UUID
    tenant: int
    started_at: Instant
    finished_at: Instant


def bucket_of(duration: Micros) -> int:
    """Where a duration is counted."""
    return 0 if duration <= SHORTEST else min(LAST_BUCKET, 1 + floor(log(duration / SHORTEST) / _STEP))


def middle_of(place: int) -> Micros:
    """What a bucket stands for: no duration in it is further off than a twentieth."""
    return SHORTEST if place == 0 else round(SHORTEST * GROWTH ** (place - 0.5))


def pass_of(id: UUID, finished_at: Instant) -> int | None:
    """Which pass counts this end; None: it came too late for all of them."""
    after = finished_at - instant_of(id)
    return next((nth for nth, lag in enumerate(LAGS) if after <= lag - SETTLES), None)


def earliest_end(nth: int, first: Instant) -> Instant:
    """No execution due at `first` or later, that this pass counts, has ended before or at this instant."""
    return -1 if nth == 0 else first + LAGS[nth - 1] - SETTLES


def sketches(ends: Iterable[Ended], nth: int, now: Instant) -> dict[UUID, tuple[int, Sketch]]:
    """What a pass counts of these ends: by job, with its tenant."""
    runs: dict[UUID, tuple[int, list[Micros]]] = {}
    for end in ends:
        if pass_of(end.id, end.finished_at) == nth:
            runs.setdefault(end.job_id, (end.tenant, []))[1].append(max(end.finished_at - end.started_at, 0))
    found: dict[UUID, tuple[int, Sketch]] = {}
    for job_id, (tenant, durations) in runs.items():
        sketch = Sketch()
        sketch.add(durations, now)
        found[job_id] = tenant, sketch
    return found
