"""Why an execution stands where it stands: the reasons of its state."""

from __future__ import annotations

from typing import assert_never

from duly.domain.lifecycle import State
from duly.domain.why.answers import Answer
from duly.domain.why.ended import ended
from duly.domain.why.facts import ExecutionFacts
from duly.domain.why.running import running
from duly.domain.why.waiting import blocked, pending, scheduled


def why_execution(facts: ExecutionFacts) -> Answer:
    """Why this execution stands where it stands."""
    state = facts.execution.state
    match state:
        case State.SCHEDULED:
            reasons = scheduled(facts)
        case State.BLOCKED:
            reasons = blocked(facts)
        case State.PENDING:
            reasons = pending(facts)
        case State.RUNNING:
            reasons = running(facts)
        case State.SUCCEEDED | State.DEAD | State.CANCELLED | State.SKIPPED:
            reasons = ended(facts)
        case _:
            assert_never(state)
    return Answer(reasons)
