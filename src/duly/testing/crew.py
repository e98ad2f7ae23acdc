"""Who works in a test: workers, the places that they are hired for, and the chance by which they name what they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from duly.adapters.sql.engine import Rows
from duly.adapters.sql.sqlite.dispatch import SqliteSchedules
from duly.domain.instants import Instant
from duly.ports.awaited import AwaitedJobs
from duly.ports.clock import Clock, Entropy
from duly.ports.store import PromoteReport
from duly.ports.transport import Transport
from duly.roles.worker import Worker
from duly.sdk.app import App
from duly.testing.bells import Wake
from duly.testing.database import VirtualEngine
from duly.testing.loop import Node
from duly.usecases.conduct.dependents import Dependents

_NOTHING = PromoteReport(0, 0, ())


@dataclass(slots=True, eq=False)
class Hired:
    """A worker, and the process that it stands for."""

    worker: Worker
    node: Node
    wake: Wake
    # Those that it has looked at.
    routes: Rows | None = None


class TestDependents(Dependents):
    """Those who wait for a job. Every success of a test is more than a second after the last look: it is heard of where somebody waits."""

    __test__ = False

    def __init__(self, awaited: AwaitedJobs, transport: Transport, clock: Clock, anybody_waits: Callable[[], bool]) -> None:
        super().__init__(awaited, transport, clock)
        self._anybody_waits = anybody_waits

    @property
    def wants_to_hear(self) -> bool:
        return self._anybody_waits() and super().wants_to_hear


class TestSchedules(SqliteSchedules):
    """What a dispatcher reads and writes. While it is known that there is no timer and no gate, nobody looks for one that is due."""

    __test__ = False

    def __init__(self, engine: VirtualEngine) -> None:
        super().__init__(engine)
        self._known = engine

    async def promote(self, epochs: dict[int, int], now: Instant, limit: int) -> PromoteReport:
        return _NOTHING if self._known.has_no_timer else await super().promote(epochs, now, limit)


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
