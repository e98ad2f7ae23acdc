"""What follows from the ends of steps. Values in, one value out; every join, skip and end of a run is decided here.

A step ends as SUCCEEDED, as failed (DEAD or CANCELLED) or as SKIPPED with the reason:

    upstream    a parent failed, or was itself skipped for that reason: the path is broken
    branch      a parent was skipped because its path was not taken
    condition   its own `when` did not hold
    unneeded    nothing failed that it would have handled or undone
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, assert_never

from duly.domain.lifecycle import State
from duly.domain.workflow.check import in_order
from duly.domain.workflow.conditions import holds
from duly.domain.workflow.step import Rule, Step


class Because(StrEnum):
    """Why a step was skipped."""

    UPSTREAM = "upstream"
    BRANCH = "branch"
    CONDITION = "condition"
    UNNEEDED = "unneeded"


@dataclass(frozen=True, slots=True)
class End:
    """How a step came to its end. `result` only where a condition or an input needs it."""

    state: State
    because: Because | None = None
    result: Any = None

    @property
    def has_failed(self) -> bool:
        """Whether the path is broken here: it failed itself, or something before it."""
        return self.state in (State.DEAD, State.CANCELLED) or self.because is Because.UPSTREAM


class Move(Enum):
    """What becomes of a step now."""

    WAIT = 0
    RUN = 1
    SKIP = 2


@dataclass(slots=True)
class Advance:
    """What follows: steps that run now, steps that are skipped, and whether nothing is left to wait for."""

    ready: list[str] = field(default_factory=list)
    skipped: dict[str, Because] = field(default_factory=dict)
    is_over: bool = False


class Graph:
    """The steps of one workflow version, with what is asked of them again and again."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self.place = {step.name: nth for nth, step in enumerate(steps)}
        self.by_name = {step.name: step for step in steps}
        self.order = tuple(step for step in in_order(steps) if step.compensates is None)
        self.children: dict[str, list[str]] = {step.name: [] for step in steps}
        for step in self.order:
            for parent in step.parents:
                self.children[parent].append(step.name)
        self.undoing = tuple(step for step in steps if step.compensates is not None)
        self._undone_first = {step.name: self._after(step) for step in self.undoing}

    def undone_first(self, step: Step) -> Sequence[str]:
        """What is undone before this one: what undoes steps that came later on the same path."""
        return self._undone_first[step.name]

    def _after(self, step: Step) -> list[str]:
        later: set[str] = set()
        stack = [str(step.compensates)]
        while stack:
            for child in self.children[stack.pop()]:
                if child not in later:
                    later.add(child)
                    stack.append(child)
        return [other.name for other in self.undoing if other.compensates in later]


def meets(rule: Rule, parents: Iterable[End | None]) -> tuple[Move, Because | None]:
    """Whether the ends of its parents (None: not yet) let a step run, keep it waiting or rule it out."""
    ends = list(parents)
    known = [end for end in ends if end is not None]
    complete = len(known) == len(ends)
    broken = any(end.has_failed for end in known)
    match rule:
        case Rule.ALL_SUCCEEDED:
            if broken:
                return Move.SKIP, Because.UPSTREAM
            if any(end.state is State.SKIPPED for end in known):
                # Should another parent still fail, the path was left before that.
                return Move.SKIP, Because.BRANCH
            return (Move.RUN if complete else Move.WAIT), None
        case Rule.ALL_DONE:
            return (Move.RUN if complete else Move.WAIT), None
        case Rule.ANY_SUCCEEDED:
            if any(end.state is State.SUCCEEDED for end in known):
                return Move.RUN, None
            return (Move.SKIP, Because.UPSTREAM if broken else Because.BRANCH) if complete else (Move.WAIT, None)
        case Rule.ANY_FAILED:
            if broken:
                return Move.RUN, None
            return (Move.SKIP, Because.UNNEEDED) if complete else (Move.WAIT, None)
        case _:
            assert_never(rule)


def judge(step: Step, ends: Mapping[str, End], payload: Any = None) -> tuple[Move, Because | None]:
    """One step: its rule, then its condition."""
    move, because = meets(step.rule, [ends.get(parent) for parent in step.parents])
    if move is Move.RUN and step.when is not None:
        known: dict[str, Any] = {"payload": payload}
        for parent in step.parents:
            end = ends.get(parent)
            known[parent] = None if end is None else {"state": end.state.name, "result": end.result}
        if not holds(step.when, known):
            return Move.SKIP, Because.CONDITION
    return move, because


def advance(graph: Graph, ends: Mapping[str, End], payload: Any = None) -> Advance:
    """All of a run, from all ends there are. What was ready before is ready again: to make it twice is nobody's harm."""
    known = dict(ends)
    found = Advance()
    is_open = False
    for step in graph.order:
        if step.name in known:
            continue
        move, because = judge(step, known, payload)
        if move is Move.SKIP:
            assert because is not None
            found.skipped[step.name] = because
            known[step.name] = End(State.SKIPPED, because)
        else:
            is_open = True
            if move is Move.RUN:
                found.ready.append(step.name)
    if not is_open:
        _undo(graph, known, found)
        found.is_over = not found.ready and all(step.name in known for step in graph.undoing)
    return found


def _undo(graph: Graph, known: dict[str, End], found: Advance) -> None:
    """When every step has ended: in a run that failed, what had succeeded is undone, the latest first."""
    failed = bool(failures(graph, known))
    for step in graph.undoing:
        if step.name not in known and not (failed and known[str(step.compensates)].state is State.SUCCEEDED):
            found.skipped[step.name] = Because.UNNEEDED
            known[step.name] = End(State.SKIPPED, Because.UNNEEDED)
    for step in graph.undoing:
        if step.name not in known and all(other in known for other in graph.undone_first(step)):
            found.ready.append(step.name)


def failures(graph: Graph, ends: Mapping[str, End]) -> list[str]:
    """The steps whose failure is the run's: those that failed, and that no step took care of.

    A step takes care of a failure when it comes after it by `all_done` or `any_failed`, and succeeded. What undoes takes care of nothing.
    """
    found: list[str] = []
    for step in graph.order:
        end = ends.get(step.name)
        if end is None or end.state not in (State.DEAD, State.CANCELLED):
            continue
        if not _is_handled(graph, step.name, ends):
            found.append(step.name)
    return found


def _is_handled(graph: Graph, name: str, ends: Mapping[str, End]) -> bool:
    """Along the path that broke: whoever was skipped for it passes it on."""
    seen = {name}
    stack = [name]
    while stack:
        for child in graph.children[stack.pop()]:
            end, step = ends.get(child), graph.by_name[child]
            if end is None or child in seen:
                continue
            seen.add(child)
            if step.rule in (Rule.ALL_DONE, Rule.ANY_FAILED) and end.state is State.SUCCEEDED:
                return True
            if end.because is Because.UPSTREAM:
                stack.append(child)
    return False


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ends: its state, the steps that are to blame, and the result: of the steps that nothing comes after, by name."""

    state: State
    failed: tuple[str, ...] = ()


def ending(graph: Graph, ends: Mapping[str, End], *, is_cancelled: bool = False) -> Ending:
    """What becomes of a run in which every step has ended, or which was asked to stop and has nothing live any more."""
    if is_cancelled:
        return Ending(State.CANCELLED)
    blamed = failures(graph, ends)
    return Ending(State.DEAD if blamed else State.SUCCEEDED, tuple(blamed))


def leaves(graph: Graph) -> list[str]:
    """The steps that nothing comes after: their results are the run's."""
    return [step.name for step in graph.order if not graph.children[step.name]]


def below(graph: Graph, names: Iterable[str]) -> set[str]:
    """These steps and all that come after them."""
    found = set(names)
    for step in graph.order:
        if any(parent in found for parent in step.parents):
            found.add(step.name)
    return found
