"""Breadth first over every order of steps, so that the first counterexample is a shortest one."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.model.checks import of_state, of_step
from tests.model.healing import heal, is_over
from tests.model.ledger import Rules
from tests.model.protocol import Bounds, Label, World, canonical, start, steps

Parents = dict[World, tuple[World, Label] | None]


@dataclass
class Found:
    """What a search saw: how many states and steps, how often each kind of step, and the counterexample if there is one."""

    states: int = 0
    steps: int = 0
    depth: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    broken: str | None = None
    trace: list[Label] = field(default_factory=list)
    parents: Parents = field(default_factory=dict)

    def story(self) -> str:
        """The counterexample as people read it."""
        lines = [f"  {nth:2}. {' '.join(str(part) for part in label)}" for nth, label in enumerate(self.trace, 1)]
        return "\n".join([f"{self.broken}, after {len(self.trace)} steps:", *lines])


@contextmanager
def no_collection() -> Iterator[None]:
    """States are tuples without cycles: looking for garbage among a million of them would be half of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@no_collection()
def search(rules: Rules, bounds: Bounds) -> Found:
    """Look at every state within the bounds; stop at the first that is wrong."""
    found = Found()
    first = start()
    found.parents[first] = None
    frontier = [first]
    while frontier and found.depth < bounds.depth:
        found.depth += 1
        reached: list[World] = []
        for world in frontier:
            for label, after, events in steps(world, rules, bounds):
                if after == world:
                    continue
                found.steps += 1
                if events and (wrong := next(of_step(world.ledger, events, after.ledger), None)):
                    return _broken(found, wrong, world, label)
                after = canonical(after, bounds)
                if after in found.parents:
                    continue
                found.kinds[_kind(label)] += 1
                found.parents[after] = (world, label)
                reached.append(after)
                if wrong := next(of_state(after), None):
                    return _broken(found, wrong, world, label)
        frontier = reached
    found.states = len(found.parents)
    return found


def _kind(label: Label) -> str:
    """The step and what went wrong with it, without whom it is about."""
    last = label[-1]
    return f"{label[0]}, {last}" if isinstance(last, str) and last.islower() and len(label) > 1 else str(label[0])


def _broken(found: Found, wrong: str, world: World, label: Label) -> Found:
    found.states = len(found.parents)
    found.broken = wrong
    found.trace = [*trace_to(found.parents, world), label]
    return found


def trace_to(parents: Parents, world: World) -> list[Label]:
    """The steps that led to a state."""
    trace: list[Label] = []
    while (came := parents[world]) is not None:
        world, label = came
        trace.append(label)
    return trace[::-1]


@no_collection()
def never_ending(worlds: Iterable[World], rules: Rules, bounds: Bounds, patience: int = 200) -> World | None:
    """A state from which a fleet without faults does not come to the end of everything; None when there is none."""
    good: set[World] = set()
    for world in worlds:
        path = []
        while world not in good and not is_over(world, bounds):
            path.append(world)
            if len(path) > patience:
                return path[0]
            world = canonical(heal(world, rules, bounds), bounds)
        good.update(path)
    return None
