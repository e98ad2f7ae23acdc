"""The states of an execution, the outcomes of an attempt, and every edge between them.

    SCHEDULED ──due──▶ PENDING ──claim──▶ RUNNING ──success──▶ SUCCEEDED
        ▲                 ▲  │               │ ├────failure, budget used──▶ DEAD
        │                 │  └──cancel──▶ CANCELLED ◀──cancelled──┤
        └──────retry, loss, release, snooze──────────┘
    BLOCKED ──free──▶ PENDING                      fire suppressed by a policy ──▶ SKIPPED
    SCHEDULED ──due, a limit is full──▶ BLOCKED ──a place came free before its time──▶ SCHEDULED
    BLOCKED ──somebody decided──▶ SUCCEEDED, DEAD, CANCELLED        PENDING ──a step that only waited──▶ SUCCEEDED

The numbers are the codes in the store; the lists are closed.
"""

from __future__ import annotations

from enum import IntEnum


class State(IntEnum):
    """Where an execution stands; the last four are final."""

    SCHEDULED = 0
    BLOCKED = 1
    PENDING = 2
    RUNNING = 3
    SUCCEEDED = 4
    DEAD = 5
    CANCELLED = 6
    SKIPPED = 7


class Outcome(IntEnum):
    """How one attempt ended."""

    SUCCEEDED = 1
    FAILED = 2
    TIMED_OUT = 3
    WORKER_LOST = 4
    CANCELLED = 5
    RELEASED = 6


class Trigger(IntEnum):
    """What made the execution."""

    SCHEDULE = 0
    ENQUEUE = 1
    MANUAL = 2
    BACKFILL = 3
    REPLAY = 4
    STEP = 5


class SkipReason(IntEnum):
    """Why a fire was recorded and not run."""

    OVERLAP = 1
    MISFIRE = 2
    ASKED = 3
    STEP = 4
    DEPENDENCY = 5


class JobState(IntEnum):
    """Where a job stands."""

    ACTIVE = 0
    PAUSED = 1
    COMPLETED = 2
    CANCELLED = 3


FINAL = frozenset({State.SUCCEEDED, State.DEAD, State.CANCELLED, State.SKIPPED})

TRANSITIONS: dict[State, frozenset[State]] = {
    State.SCHEDULED: frozenset({State.BLOCKED, State.PENDING, State.CANCELLED}),
    State.BLOCKED: frozenset({State.SCHEDULED, State.PENDING, State.SUCCEEDED, State.DEAD, State.CANCELLED, State.SKIPPED}),
    State.PENDING: frozenset({State.RUNNING, State.SUCCEEDED, State.CANCELLED}),
    State.RUNNING: frozenset({State.SUCCEEDED, State.DEAD, State.CANCELLED, State.SCHEDULED}),
    State.SUCCEEDED: frozenset(),
    State.DEAD: frozenset(),
    State.CANCELLED: frozenset(),
    State.SKIPPED: frozenset(),
}

# Attempts that count against the budget of `max_attempts`; losses have a budget of their own.
COSTS_AN_ATTEMPT = frozenset({Outcome.FAILED, Outcome.TIMED_OUT})


def is_final(state: State) -> bool:
    """Whether nothing can happen to it any more."""
    return state in FINAL


def may_become(before: State, after: State) -> bool:
    """Whether the published graph has this edge."""
    return after in TRANSITIONS[before]
