"""Who works in a test: workers, the places that they are hired for, and the chance by which they name what they make."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from duly.ports.clock import Entropy
from duly.roles.worker import Worker
from duly.sdk.app import App
from duly.testing.bells import Wake
from duly.testing.loop import Node


@dataclass(slots=True, eq=False)
class Hired:
    """A worker, and the process that it stands for."""

    worker: Worker
    node: Node
    wake: Wake


def places(app: App) -> list[tuple[str, dict[str, str]]]:
    """The pools and labels that workers need, so that every job that was declared has somebody who serves it."""
    found: list[tuple[str, dict[str, str]]] = []
    steps = [task for workflow in app.workflows.values() for task in workflow.tasks]
    for target in [task.spec.target for task in (*app.tasks.values(), *steps)]:
        for pool, labels in found:
            if pool == target.pool and all(labels.get(name, value) == value for name, value in target.requires.items()):
                labels.update(target.requires)
                break
        else:
            found.append((target.pool, dict(target.requires)))
    return found


def in_order(entropy: Entropy) -> Entropy:
    """Ids of one instant grow in the order in which they are made: much is made at one instant here."""
    numbers = count(step=64)
    return lambda bits: next(numbers) & 0x1FFFFFF if bits == 25 else entropy(bits)
