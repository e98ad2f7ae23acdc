"""Refuses what cannot be a workflow: unknown and doubled steps, cycles, steps that can never run, graphs out of all proportion."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from duly.domain.errors import Invalid
from duly.domain.instants import DAY
from duly.domain.naming import NAME
from duly.domain.workflow.conditions import names_in, parse_condition
from duly.domain.workflow.inputs import source_of
from duly.domain.workflow.step import Rule, Step

STEP_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")
MOST_STEPS = 2_000
MOST_PARENTS = 1_000
DEEPEST = 1_000
WIDEST_MAP = 100_000
LONGEST_WAIT = 366 * DAY
# Names that stand for something else in inputs and conditions.
RESERVED = frozenset({"item", "payload", "steps", "and", "or", "not", "in", "True", "False", "None"})


def check_steps(steps: Sequence[Step]) -> None:
    """Raises Invalid, naming the step. What passes has an order in which every step comes after its parents."""
    if len(steps) > MOST_STEPS:
        raise Invalid("DULY-E155", f"has {len(steps):,} steps; at most {MOST_STEPS:,} fit.", field="steps")
    by_name: dict[str, Step] = {}
    for step in steps:
        if not STEP_NAME.match(step.name) or step.name in RESERVED:
            hint = "1 to 64 letters, digits, _ and -, starting with a letter."
            raise Invalid("DULY-E150", f"{step.name[:40]!r} is not the name of a step.", field="steps", hint=hint)
        if step.name in by_name:
            raise Invalid("DULY-E150", f"the step {step.name!r} stands twice in it.", field="steps", hint="Give one of them another name.")
        by_name[step.name] = step
    for step in steps:
        _check_names(step, by_name)
        _check_kind(step)
        _check_sense(step, by_name)
    depth = _depths(steps)
    if max(depth.values(), default=0) > DEEPEST:
        raise Invalid("DULY-E155", f"is {max(depth.values()):,} steps deep; at most {DEEPEST:,}.", field="steps")


def in_order(steps: Sequence[Step]) -> list[Step]:
    """Every step after its parents; among equals as they were declared. Raises Invalid (DULY-E152) for a cycle."""
    depth = _depths(steps)
    return sorted(steps, key=lambda step: depth[step.name])


def depths(steps: Sequence[Step]) -> dict[str, int]:
    """How many steps lie on the longest path to each."""
    return _depths(steps)


def _check_names(step: Step, by_name: Mapping[str, Step]) -> None:
    if len(step.parents) > MOST_PARENTS:
        told = f"the step {step.name!r} comes after {len(step.parents):,} others; at most {MOST_PARENTS:,}."
        raise Invalid("DULY-E155", told, field="steps", hint="Let one step with `map` take their place.")
    wanted = {"dependsOn": step.after, "map": (step.map,), "compensates": (step.compensates,)}
    for field, names in wanted.items():
        for name in names:
            if name is not None and name not in by_name:
                raise Invalid("DULY-E151", f"the step {step.name!r} names {name!r}, which is no step.", field=f"steps.{field}")
    if step.name in (*step.parents, step.compensates):
        raise Invalid("DULY-E152", f"the step {step.name!r} waits for itself.", field="steps.dependsOn")
    for argument, source in step.inputs.items():
        root, _ = source_of(source)
        if root not in (*step.parents, "payload", *(("item",) if step.map else ()), *((step.compensates,) if step.compensates else ())):
            hint = f"An input is a step that it comes after, or payload{', or item' if step.map else ''}."
            raise Invalid("DULY-E151", f"the step {step.name!r} takes {argument!r} from {source!r}.", field="steps.inputs", hint=hint)
    if step.when is not None:
        for name in names_in(parse_condition(step.when)):
            if name not in (*step.parents, "payload"):
                hint = "A condition looks at steps that it comes after, and at payload."
                raise Invalid("DULY-E154", f"the condition of {step.name!r} names {name!r}.", field="steps.when", hint=hint)


def _check_kind(step: Step) -> None:
    if step.workflow is not None and not NAME.match(step.workflow):
        raise Invalid("DULY-E114", f"{step.workflow[:40]!r} is not a job name.", field="steps.workflow")
    for name in step.approval.by if step.approval is not None else ():
        if not name.isprintable() or not name.strip():
            raise Invalid("DULY-E114", f"{name[:40]!r} is not a name for a key.", field="steps.approval.by")
    waits = [name for name in ("approval", "signal", "delay") if getattr(step, name) is not None]
    if step.target is not None and step.workflow is not None:
        raise Invalid("DULY-E156", f"the step {step.name!r} has both a target and a workflow.", field="steps.workflow")
    if len(waits) > 1:
        raise Invalid("DULY-E156", f"the step {step.name!r} waits for {waits[0]} and {waits[1]}.", field="steps", hint="Make it two steps.")
    if step.only_waits and not waits:
        hint = "It has a target, a workflow, or something to wait for: approval, signal or delaySec."
        raise Invalid("DULY-E156", f"the step {step.name!r} does nothing.", field="steps", hint=hint)
    if step.workflow is not None and waits:
        hint = "Let a step of its own wait, and this one come after it."
        raise Invalid("DULY-E156", f"the step {step.name!r} runs a workflow and waits.", field="steps", hint=hint)
    if step.map is not None and (step.only_waits or waits or step.workflow is not None):
        raise Invalid("DULY-E156", f"the step {step.name!r} is mapped, so it needs a target and waits for nobody.", field="steps.map")
    if step.max_parallel is not None and (step.map is None or not 1 <= step.max_parallel <= WIDEST_MAP):
        raise Invalid("DULY-E156", f"goes with map, and is between 1 and {WIDEST_MAP:,}.", field="steps.maxParallel")
    for limit in (step.delay, *(held.timeout for held in (step.approval, step.signal) if held is not None)):
        if limit is not None and not 0 < limit <= LONGEST_WAIT:
            raise Invalid("DULY-E156", f"the step {step.name!r} waits for more than 0 and at most 366 days.", field="steps")


def _check_sense(step: Step, by_name: Mapping[str, Step]) -> None:
    if step.rule in (Rule.ANY_SUCCEEDED, Rule.ANY_FAILED) and not step.parents:
        told = f"the step {step.name!r} can never run: {step.rule.value} of no steps."
        raise Invalid("DULY-E153", told, field="steps.trigger", hint="Let it come after something.")
    for parent in step.parents:
        if by_name[parent].compensates is not None:
            told = f"the step {step.name!r} can never run in its turn: {parent!r} only undoes."
            raise Invalid("DULY-E153", told, field="steps.dependsOn")
    if step.compensates is not None:
        if step.parents or step.when is not None or not step.target:
            told = f"the step {step.name!r} undoes {step.compensates!r}: it needs a target, and neither parents nor a condition."
            raise Invalid("DULY-E156", told, field="steps.compensates")
        if by_name[step.compensates].compensates is not None:
            raise Invalid(
                "DULY-E153", f"the step {step.name!r} can never run: {step.compensates!r} only undoes.", field="steps.compensates"
            )


def _depths(steps: Sequence[Step]) -> dict[str, int]:
    """By counting down parents, so that a long chain needs no deep stack. What is left over goes round in a circle."""
    waiting = {step.name: len(step.parents) for step in steps}
    children: dict[str, list[str]] = {step.name: [] for step in steps}
    for step in steps:
        for parent in step.parents:
            children[parent].append(step.name)
    depth = {name: 1 for name, count in waiting.items() if not count}
    free = list(depth)
    for name in free:
        for child in children[name]:
            depth[child] = max(depth.get(child, 0), depth[name] + 1)
            waiting[child] -= 1
            if not waiting[child]:
                free.append(child)
    if len(free) < len(steps):
        told = _cycle({step.name: step.parents for step in steps if step.name not in set(free)})
        raise Invalid("DULY-E152", f"steps wait for one another: {told}.", field="steps.dependsOn", hint="Take one of them away.")
    return depth


def _cycle(parents: Mapping[str, Sequence[str]]) -> str:
    """One circle among steps that wait for one another, in words."""
    name = min(parents)
    path: list[str] = []
    while name not in path:
        path.append(name)
        name = next(parent for parent in parents[name] if parent in parents)
    around = path[path.index(name) :]
    return " after ".join([*around[:8], *(["…"] if len(around) > 8 else []), name])
