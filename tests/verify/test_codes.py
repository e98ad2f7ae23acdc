"""The checker has written the product's numbers down a second time: whoever changes one must change both, knowingly."""

from __future__ import annotations

from duly.adapters.sql.rows import NEVER
from duly.domain.lifecycle import COSTS_AN_ATTEMPT, FINAL, TRANSITIONS, Outcome, SkipReason, State, Trigger
from duly.verify.checker import codes


def test_states_and_their_graph_are_the_published_ones() -> None:
    assert tuple(state.name for state in State) == codes.STATE_NAMES
    assert codes.FINAL == FINAL
    assert {before: after for before, after in codes.EDGES_OF_FLOWS.items() if before != codes.NEW} == {
        before: after for before, after in TRANSITIONS.items() if after
    }


def test_outcomes_triggers_and_reasons_are_the_published_ones() -> None:
    outcomes = {"FAILED", "TIMED_OUT", "WORKER_LOST", "RELEASED"}
    assert {name: getattr(codes, name) for name in outcomes} == {name: Outcome[name] for name in outcomes}
    assert codes.STOPPED == Outcome.CANCELLED
    assert codes.COSTS_AN_ATTEMPT == COSTS_AN_ATTEMPT
    assert list(Trigger) == [codes.BY_SCHEDULE, codes.BY_ENQUEUE, codes.BY_HAND, codes.BY_BACKFILL, codes.BY_REPLAY, codes.BY_STEP]
    assert list(SkipReason) == [codes.SKIP_OVERLAP, codes.SKIP_MISFIRE, codes.SKIP_ASKED, codes.SKIP_STEP, codes.SKIP_DEPENDENCY]


def test_never_is_never() -> None:
    assert codes.NEVER <= NEVER
