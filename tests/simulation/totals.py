"""What many seeds came to, and whether they went where it hurts."""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tests.simulation.database import database
from tests.simulation.plan import Plan, plan_of
from tests.simulation.run import Outcome, run_seed

# Per 1,000 seeds: a simulation that never comes here is blind.
FLOORS = {
    "stale completion refused": 200,
    "two believing leaders": 100,
    "shards seized within their lease": 50,
    "a living one was said to have left": 30,
    "lease service answered late": 200,
    "commit unknown": 500,
    "sweeper raced a completion": 100,
    "redelivered after completion": 100,
    "catch-up of more than ten": 50,
}

COLLECT_EVERY = 10


@dataclass(slots=True)
class Totals:
    """Sums over seeds; they add up over processes."""

    seeds: int = 0
    steps: int = 0
    events: int = 0
    fires: int = 0
    effects: int = 0
    virtual_seconds: float = 0.0
    seconds: float = 0.0
    modes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[Plan, list[str]]] = field(default_factory=list)
    digests: dict[int, int] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        """Count one seed."""
        self.seeds += 1
        self.steps += outcome.steps
        self.events += len(outcome.history.events)
        self.fires += outcome.fires
        self.effects += len(outcome.history.effects)
        self.virtual_seconds += outcome.seconds
        self.modes[outcome.plan.mode] += 1
        self.faults.update(outcome.faults)
        self.reached.update(outcome.reached)
        self.digests[outcome.plan.seed] = outcome.digest
        if outcome.findings:
            self.failed.append((outcome.plan, outcome.findings))

    def merge(self, other: Totals) -> None:
        """Count another process's seeds."""
        for name in ("seeds", "steps", "events", "fires", "effects", "virtual_seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.modes.update(other.modes)
        self.faults.update(other.faults)
        self.reached.update(other.reached)
        self.failed += other.failed
        self.digests |= other.digests

    def unreached(self) -> list[str]:
        """The states that were met too seldom for so many seeds."""
        return [
            f"{name}: {self.reached[name]}, at least {floor * self.seeds // 1000} were expected"
            for name, floor in FLOORS.items()
            if self.reached[name] * 1000 < floor * self.seeds
        ]

    def as_json(self) -> dict[str, Any]:
        """For a report."""
        return {
            "seeds": self.seeds,
            "violations": len(self.failed),
            "failedSeeds": [plan.seed for plan, _ in self.failed],
            "steps": self.steps,
            "events": self.events,
            "fires": self.fires,
            "effects": self.effects,
            "virtualSeconds": round(self.virtual_seconds),
            "seconds": round(self.seconds, 1),
            "modes": dict(sorted(self.modes.items())),
            "faults": dict(sorted(self.faults.items())),
            "reached": dict(sorted(self.reached.items())),
            "floorsPerThousand": FLOORS,
            "unreached": self.unreached(),
        }


@cache
def _settle() -> None:
    """What is there before the first seed stays to the end: no collection need look through it again."""
    database()
    gc.collect()
    gc.freeze()


def run_many(seeds: range) -> Totals:
    """Run these, one after the other. Rubbish is collected between seeds: a quarter of the time is saved."""
    totals = Totals()
    _settle()
    before = gc.isenabled()
    gc.disable()
    try:
        for nth, seed in enumerate(seeds, 1):
            totals.add(run_seed(plan_of(seed)))
            if nth % COLLECT_EVERY == 0:
                gc.collect()
    finally:
        if before:
            gc.enable()
    return totals
