"""What must hold when a seed has ended: the ledger, the checker's invariants, and that everything due has come to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.verify.checker import check
from duly.verify.history import History
from tests.conformance.ledger import assert_ledger_is_sound

if TYPE_CHECKING:
    from tests.simulation.run import World


def judge(world: World, history: History) -> list[str]:
    """Every violation, in a sentence each."""
    from tests.simulation.run import DirectEngine, at_once

    found: list[str] = []
    try:
        at_once(assert_ledger_is_sound(DirectEngine(world.store.connection)))
    except AssertionError as error:
        found.append(f"ledger: {error}")
    if not world.ended_idle:
        left = [
            stands for stands in (history.final.executions if history.final else []) if stands.state in ("PENDING", "BLOCKED", "RUNNING")
        ]
        found.append(f"I1: {len(left)} executions have not ended, first {left[:2]}")
    found += [f"{finding.invariant}: {finding.says} {finding.run or finding.job or ''}" for finding in check(history).findings()]
    return found
