"""What happened, minute by minute: how executions ended, how late they began, how many ran at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from duly.domain.ids import JobId
from duly.domain.instants import MINUTE, Instant, Micros
from duly.domain.lifecycle import State


@dataclass(slots=True)
class Minute:
    """What ended in a minute and how, how late began what began in it, and how much time was run in it, by all together."""

    at: Instant
    ended: dict[State, int] = field(default_factory=dict)
    lateness: list[Micros] = field(default_factory=list)
    busy: Micros = 0

    def lateness_at(self, share: float) -> Micros | None:
        """The smallest lateness that this share of what began did not exceed; None when nothing began."""
        return nearest_rank(self.lateness, share)


class Change(NamedTuple):
    """What was done to jobs within a minute: how many there were, and one of them; its name is None when it is gone."""

    at: Instant
    action: str
    jobs: int
    job_id: JobId
    name: str | None


def nearest_rank(values: Sequence[Micros], share: float) -> Micros | None:
    """The percentile by nearest rank; None of nothing."""
    if not values:
        return None
    return sorted(values)[max(0, -(-round(share * 10_000) * len(values) // 10_000) - 1)]


def minutes(ended: Iterable[tuple[Instant, Instant | None, Instant, State, bool]], since: Instant, until: Instant) -> list[Minute]:
    """Every minute of the window, those in which nothing happened too.

    A retry is late by its own time, which is not known here: only first attempts count for lateness.
    """
    first = since - since % MINUTE
    found = [Minute(at) for at in range(first, until, MINUTE)]

    def of(at: Instant) -> Minute | None:
        nth = (at - first) // MINUTE
        return found[nth] if 0 <= nth < len(found) else None

    for due_at, started_at, finished_at, state, is_first in ended:
        minute = of(finished_at)
        if minute is not None:
            minute.ended[state] = minute.ended.get(state, 0) + 1
        if started_at is None:
            continue
        began = of(started_at)
        if began is not None and is_first:
            began.lateness.append(max(0, started_at - due_at))
        at = max(started_at, first)
        while at < min(finished_at, until):
            end = min(at - at % MINUTE + MINUTE, finished_at)
            slot = of(at)
            if slot is not None:
                slot.busy += end - at
            at = end
    return found
