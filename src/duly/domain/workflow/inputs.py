"""What a step is given: its own payload or the run's, and what its inputs take of an item, the payload and its parents' results."""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps, loads
from typing import Any

from duly.domain.workflow.step import Step

# A result that is longer is not copied into every payload that uses it: the step gets the id of the execution that has it.
LARGEST_COPY = 65_536
REFERENCE = "$result"


def reference_in(value: Any) -> str | None:
    """The execution whose result this stands for, as its id is written; None: it stands for itself."""
    named = value.get(REFERENCE) if isinstance(value, dict) else None
    return named if isinstance(named, str) else None


def source_of(source: str) -> tuple[str, list[str]]:
    """`load.rows` as the name it begins with and the path into it."""
    root, *path = source.split(".")
    return root, path


def payload_for(step: Step, run_payload: str | None, item: Any, results: Mapping[str, Any]) -> str | None:
    """The payload of a step's execution, as JSON; None: that of its version.

    Without inputs it is the item of a mapped step, or the step's own payload, or the run's. With inputs it is an object: the step's own
    payload, and every input on top of it. What the run's payload does not have is left out, so that a handler's default counts.
    """
    if not step.inputs:
        if step.map is not None:
            return dumps(item)
        return None if step.payload is not None else run_payload
    base = {} if step.payload is None else loads(step.payload)
    filled = dict(base) if isinstance(base, dict) else {}
    known = {"item": item, "payload": None if run_payload is None else loads(run_payload), **results}
    for argument, source in step.inputs.items():
        root, path = source_of(source)
        value = known.get(root)
        for part in path:
            value = _within(value, part)
        if value is not _NOTHING:
            filled[argument] = value
        elif root != "payload":
            filled[argument] = None
    return dumps(filled)


_NOTHING = object()


def _within(value: Any, part: str) -> Any:
    if isinstance(value, dict):
        return value.get(part, _NOTHING)
    if isinstance(value, list) and part.isdigit() and int(part) < len(value):
        return value[int(part)]
    return _NOTHING
