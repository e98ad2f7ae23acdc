"""Why an execution stands where it stands, and why a job did not run at a time.

Facts in, an answer out: the facts are a snapshot of the store, and the reasons follow from the same functions that decided.
The first reason is the one that matters most, and its sentence is the summary.
"""

from __future__ import annotations

from typing import assert_never

from duly.domain.lifecycle import State
from duly.domain.why.answers import MEANINGS, Answer, Reason, WhyCode
from duly.domain.why.ended import ended
from duly.domain.why.facts import ExecutionFacts, FireFacts
from duly.domain.why.fires import job_reasons, why_fire
from duly.domain.why.running import running
from duly.domain.why.waiting import blocked, pending, scheduled

__all__ = ["MEANINGS", "Answer", "ExecutionFacts", "FireFacts", "Reason", "WhyCode", "job_reasons", "why_execution", "why_fire"]


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
