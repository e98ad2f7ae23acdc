"""Many executions at once: which ones are meant, and which of them an action can be done to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, assert_never
from uuid import UUID

from duly.domain.causes import cause_of
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant
from duly.domain.lifecycle import FINAL, Outcome, State, is_final


class BulkAction(StrEnum):
    """What is done to each."""

    CANCEL = "cancel"
    RETRY = "retry"
    REPLAY = "replay"
    DISCARD = "discard"

    @property
    def makes_executions(self) -> bool:
        """Whether new executions come of it, so that a rate and canaries make sense."""
        return self in (BulkAction.RETRY, BulkAction.REPLAY)

    @property
    def states(self) -> frozenset[State]:
        """Where it looks when nobody names a state."""
        match self:
            case BulkAction.CANCEL:
                return frozenset(State) - FINAL
            case BulkAction.RETRY:
                return frozenset({State.SCHEDULED, State.DEAD})
            case BulkAction.REPLAY | BulkAction.DISCARD:
                return frozenset({State.DEAD})
            case _:
                assert_never(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which executions are meant: those for which all that is given holds."""

    job_id: JobId | None = None
    state: State | None = None
    cause: str | None = None
    created_before: Instant | None = None
    created_after: Instant | None = None
    batch: UUID | None = None
    ids: tuple[ExecutionId, ...] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it means everything."""
        return self == Match()


class Candidate(NamedTuple):
    """An execution that may be meant, as far as that matters. `settled`: somebody has replayed or discarded it."""

    id: ExecutionId
    job_id: JobId
    state: State
    created_at: Instant
    batch: UUID | None
    last_outcome: Outcome | None
    error: dict[str, Any]
    settled: bool
    payload: str | None

    @property
    def cause(self) -> str:
        """The key of the group that it belongs to as a dead letter."""
        return cause_of(self.job_id, self.error.get("type"), self.error.get("message")).key


def fits(match: Match, states: frozenset[State], candidate: Candidate) -> bool:
    """Whether the execution is meant. A dead letter that is settled is never meant again."""
    return (
        candidate.state in (states if match.state is None else {match.state})
        and not candidate.settled
        and (match.job_id is None or candidate.job_id == match.job_id)
        and (match.batch is None or candidate.batch == match.batch)
        and (match.ids is None or candidate.id in match.ids)
        and (match.created_before is None or candidate.created_at < match.created_before)
        and (match.created_after is None or candidate.created_at >= match.created_after)
        and (match.cause is None or (candidate.state is State.DEAD and candidate.cause == match.cause))
    )


def can(action: BulkAction, candidate: Candidate) -> bool:
    """Whether the action can be done to it, as it stands."""
    match action:
        case BulkAction.CANCEL:
            return not is_final(candidate.state)
        case BulkAction.RETRY:
            return candidate.state is State.DEAD or is_waiting_retry(candidate.state, candidate.last_outcome)
        case BulkAction.REPLAY:
            return is_final(candidate.state)
        case BulkAction.DISCARD:
            return candidate.state is State.DEAD
        case _:
            assert_never(action)


def is_waiting_retry(state: State, last_outcome: Outcome | None) -> bool:
    """Whether it waits for another attempt, not for its first."""
    return state is State.SCHEDULED and last_outcome is not None
