"""Every order of steps of the lease and fire protocol, to a fixed depth: nothing breaks, and each rule is what keeps it so.

The search is cut into slices, because all that can go wrong at once is more than a minute can hold. Each has two workers and two
dispatchers; what differs is how many fires there are, whose transactions go wrong, and how often.
"""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from tests.model.ledger import Rules
from tests.model.protocol import Bounds, start
from tests.model.search import never_ending, search, trace_to

DEPTH = 14
LESS_DEEP = 12

CALM = Bounds(depth=DEPTH, faults=0, cancels=0, checkpoints=0, registrations=2)

# What is looked at, and how many states it has at least: a search that sees fewer has lost some of its steps.
SLICES = {
    "two fires and a cancel": (replace(CALM, cancels=1), 29_000),
    "claims and finishes go wrong": (replace(CALM, depth=LESS_DEEP, faults=1, faulty=frozenset({"claim", "finish"})), 55_000),
    "dispatchers go wrong": (replace(CALM, depth=LESS_DEEP - 1, faults=1, faulty=frozenset({"fire", "take"})), 28_000),
    "two faults and a cancel": (replace(CALM, targets=1, cancels=1, faults=2, faulty=frozenset({"claim", "finish"})), 25_000),
    "checkpoints go wrong": (replace(CALM, targets=1, checkpoints=2, faults=1, faulty=frozenset({"checkpoint", "finish"})), 13_000),
    "heartbeats go wrong": (replace(CALM, targets=1, registrations=3, faults=1, faulty=frozenset({"renew"})), 29_000),
}

# Where a rule's counterexample lies, if one fire and a calm world are not enough for it.
ONE_FIRE = replace(CALM, targets=1)
HEARTBEATS = replace(ONE_FIRE, faults=1, faulty=frozenset({"renew"}))
CHECKPOINTS = replace(ONE_FIRE, checkpoints=2, faults=1, faulty=frozenset({"checkpoint"}))
WHERE = {
    "fire_compares_the_schedule": replace(ONE_FIRE, faults=1, faulty=frozenset({"fire"})),
    "take_compares_the_epoch": replace(ONE_FIRE, faults=1, faulty=frozenset({"take"})),
    "promotion_reads_the_wishes": replace(ONE_FIRE, cancels=1, faults=1, faulty=frozenset({"finish"})),
    "finish_checks_the_fence": replace(ONE_FIRE, faults=1, faulty=frozenset({"finish"})),
    "checkpoint_checks_the_fence": CHECKPOINTS,
    "checkpoints_only_grow": CHECKPOINTS,
    "burial_is_final": HEARTBEATS,
    "a_late_renewal_shortens_nothing": HEARTBEATS,
    "trust_counts_from_the_request": HEARTBEATS,
}

# What breaks without each rule, and after how many steps.
BREAKS = {
    "fire_compares_the_schedule": ("I2", 3),
    "fire_checks_the_epoch": ("I9", 2),
    "promotion_checks_the_epoch": ("I9", 6),
    "promotion_reads_the_wishes": ("I13", 7),
    "promotion_waits_for_its_time": ("I6", 4),
    "take_raises_the_epoch": ("I9", 1),
    "take_compares_the_epoch": ("I9", 3),
    "claim_takes_from_ready": ("I18", 2),
    "fences_only_grow": ("I4", 6),
    "finish_checks_the_fence": ("I5", 8),
    "finish_leaves_the_lease": ("I18", 3),
    "checkpoint_checks_the_fence": ("I5", 5),
    "checkpoints_only_grow": ("I15", 6),
    "loss_takes_the_lease_away": ("I18", 6),
    "loss_counts_on_its_own": ("I10", 6),
    "burial_is_final": ("T", 5),
    "burial_waits_for_the_expiry": ("T", 1),
    "a_late_renewal_shortens_nothing": ("T", 5),
    "trust_counts_from_the_request": ("T", 4),
    "trust_ends_before_the_lease": ("T", 3),
}
# These are a second wall: without them alone nothing breaks, and the tests below show what they are for.
SECOND_WALLS = {"fire_ids_are_computed", "unknown_claims_are_adopted"}


@pytest.mark.slow
@pytest.mark.parametrize("name", SLICES)
def test_the_protocol_holds_in_every_order_of_steps_and_always_comes_to_its_end(name: str) -> None:
    bounds, floor = SLICES[name]

    found = search(Rules(), bounds)

    assert found.broken is None, found.story()
    assert found.depth == bounds.depth
    assert found.states >= floor, f"only {found.states} states: the search has lost some of its steps"
    stuck = never_ending(found.parents, Rules(), bounds)
    assert stuck is None, f"never ends after {trace_to(found.parents, stuck)}"
    print(f"{name}: {found.states:,} states, {found.steps:,} steps, {found.depth} deep; {dict(found.kinds)}")


@pytest.mark.parametrize("rule", BREAKS)
def test_without_a_rule_the_search_finds_what_it_is_for(rule: str) -> None:
    found = search(replace(Rules(), **{rule: False}), WHERE.get(rule, ONE_FIRE))

    assert found.broken is not None, f"nothing breaks without {rule}"
    print(f"without {rule}: {found.story()}")
    assert (found.broken.split(":")[0], len(found.trace)) == BREAKS[rule], found.story()


def test_every_rule_is_shown_to_matter() -> None:
    assert {field.name for field in fields(Rules)} == BREAKS.keys() | SECOND_WALLS


def test_a_computed_id_stops_what_an_unguarded_schedule_would_fire_twice() -> None:
    unguarded = Rules(fire_compares_the_schedule=False)
    bounds = WHERE["fire_compares_the_schedule"]

    with_ids = search(unguarded, bounds)
    without = search(replace(unguarded, fire_ids_are_computed=False), bounds)

    assert with_ids.broken is not None
    assert "goes back" in with_ids.broken
    assert without.broken is not None
    assert "fires again" in without.broken


def test_a_claim_that_nobody_adopts_is_stuck_for_ever() -> None:
    bounds = replace(ONE_FIRE, depth=4, faults=1, faulty=frozenset({"claim"}))
    rules = Rules(unknown_claims_are_adopted=False)

    found = search(rules, bounds)
    stuck = never_ending(found.parents, rules, bounds)

    assert found.broken is None, found.story()
    assert stuck is not None
    assert trace_to(found.parents, stuck)[-1][-1] in ("answer lost", "late")


def test_the_first_state_is_sound_and_not_the_end() -> None:
    assert never_ending([start()], Rules(), CALM) is None
