"""A fleet in which nothing goes wrong any more: where it gets to from any state shows whether something is stuck there."""

from __future__ import annotations

from duly.domain.lifecycle import Outcome
from tests.model import ledger as store
from tests.model.ledger import LOST, MARGIN, TTL, Rules
from tests.model.protocol import Bounds, World, adopted, arrived, claimed, finished, renewed, restarted, taken, ticked


def is_over(world: World, bounds: Bounds) -> bool:
    """Whether every target has been fired and every execution is final."""
    return world.ledger.next_target >= bounds.targets and all(run.outcomes for run in world.ledger.runs)


def heal(world: World, rules: Rules, bounds: Bounds) -> World:
    """The next step of a fleet in which nothing goes wrong any more: everybody does what they can, then the clock turns."""
    ledger = world.ledger
    if world.late is not None:
        return arrived(world, rules, bounds, world.late)[0]
    for nth, worker in enumerate(world.workers):
        if worker.trust == 0:
            return restarted(world, nth)
        if worker.trust < TTL - MARGIN:
            return renewed(world, rules, nth)
        if rules.unknown_claims_are_adopted and (adopting := adopted(world, nth)) is not world:
            return adopting
        for held in worker.held:
            return finished(world, rules, nth, held, held.report or Outcome.SUCCEEDED)[0]
    owner = next((epoch for epoch in world.epochs if epoch == ledger.epoch), None)
    if owner is None:
        return taken(world, rules, world.epochs[0], ledger.epoch)[0]
    if ledger.next_target <= ledger.clock:
        return world._replace(ledger=store.fire(ledger, rules, owner, ledger.next_target, ledger.clock, bounds.targets)[0])
    if any(row.due_in == 0 for row in ledger.timers):
        return world._replace(ledger=store.promote(ledger, rules, owner)[0])
    if any(life == 0 for life in ledger.lives):
        return world._replace(ledger=store.bury(ledger, rules))
    if any(ledger.lives[lease.worker] == LOST for lease in ledger.leases):
        return world._replace(ledger=store.lose(ledger, rules)[0])
    if ledger.ready:
        return claimed(world, rules, 0, len(ledger.ready))[0]
    return ticked(world, bounds)
