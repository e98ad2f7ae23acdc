"""Backfill: which targets of a past range are run, and which are left as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from duly.domain.errors import Invalid
from duly.domain.instants import Instant
from duly.domain.lifecycle import State, is_final
from duly.domain.schedule import Schedule, fires

MOST_TARGETS = 10_000


class Rerun(StrEnum):
    """Which targets that have a run already get another: `none` only those that never ran, `failed` also those that came to no success."""

    NONE = "none"
    FAILED = "failed"
    ALL = "all"


_RUN_AGAIN: dict[Rerun, frozenset[State]] = {
    Rerun.NONE: frozenset({State.SKIPPED}),
    Rerun.FAILED: frozenset({State.SKIPPED, State.DEAD, State.CANCELLED}),
    Rerun.ALL: frozenset({State.SKIPPED, State.DEAD, State.CANCELLED, State.SUCCEEDED}),
}


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """The targets of the range, oldest first: those that are run, and those that are left with the state they have."""

    run: tuple[Instant, ...]
    left: tuple[tuple[Instant, State], ...]


def targets_between(schedule: Schedule | None, first: Instant, last: Instant) -> list[Instant]:
    """Every target in [first, last]. Raises Invalid when there is no schedule, or more of them than one backfill takes."""
    if schedule is None:
        raise Invalid("DULY-E106", "The job has no schedule, so there is nothing to fill in.", field="jobId")
    if last < first:
        raise Invalid("DULY-E105", "ends before it starts.", field="to", hint="Put `to` at or after `from`.")
    found = fires(schedule, first - 1, last, MOST_TARGETS + 1)
    if len(found) > MOST_TARGETS:
        raise Invalid("DULY-E106", f"The range has more than {MOST_TARGETS:,} fires.", field="to", hint="Fill it in piece by piece.")
    return found


def plan_backfill(targets: Sequence[Instant], stands: Mapping[Instant, Sequence[State]], rerun: Rerun) -> BackfillPlan:
    """What is run. `stands` are the states of a target's runs; one that has not ended is never run beside."""
    run: list[Instant] = []
    left: list[tuple[Instant, State]] = []
    again = _RUN_AGAIN[rerun]
    for at in targets:
        states = stands.get(at, ())
        kept = [state for state in states if not is_final(state)] or [state for state in states if state not in again]
        # A later success makes up for an earlier failure, unless everything is run again.
        if State.SUCCEEDED in states and rerun is not Rerun.ALL:
            kept = [State.SUCCEEDED]
        if kept:
            left.append((at, kept[0]))
        else:
            run.append(at)
    return BackfillPlan(tuple(run), tuple(left))
