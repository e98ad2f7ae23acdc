"""The small ports, made unreliable: a transport that loses, repeats, delays and reorders, a hot index that forgets."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from duly.adapters.memory.hot_index import MemoryHotIndex
from duly.adapters.sql.bell import Bell
from duly.domain.instants import Instant
from tests.simulation.loop import Node, SimulatedLoop


@dataclass(slots=True)
class Air:
    """What carries the hints of the fleet. Chances are per message and listener."""

    loop: SimulatedLoop
    chance: random.Random
    # Whether nothing is ready at this moment: a message that comes now comes after the work is done.
    is_idle: Callable[[], bool]
    delay: float = 0.002
    loses: float = 0.0
    repeats: float = 0.0
    lags: float = 0.0
    bells: dict[Node, Bell] = field(default_factory=dict)
    met: Counter[str] = field(default_factory=Counter)

    def say(self, ring: Callable[[Bell], None]) -> None:
        """Tell everybody, each in his own time, if at all."""
        draw = self.chance.random
        for node, bell in self.bells.items():
            if self.loses and draw() < self.loses:
                self.met["message lost"] += 1
                continue
            wait = self.delay * draw() + (self.lags * draw() if self.lags else 0.0)
            self.loop.add_timer(node, self.loop.now + wait, ring, (bell,))
            if self.repeats and draw() < self.repeats:
                self.loop.add_timer(node, self.loop.now + wait + 5 * draw(), self._repeat, (bell, ring))

    def _repeat(self, bell: Bell, ring: Callable[[Bell], None]) -> None:
        self.met["message repeated"] += 1
        if self.is_idle():
            self.met["redelivered after completion"] += 1
        ring(bell)


class SimulatedTransport(Bell):
    """One node's end of it: what it announces goes through the air, what it hears comes from there."""

    def __init__(self, air: Air, node: Node) -> None:
        super().__init__()
        self._air = air
        air.bells[node] = self

    async def announce(self, routes: Sequence[int]) -> None:
        self._air.say(Bell.ring)

    async def announce_due(self, at: Instant) -> None:
        self._air.say(lambda bell: bell.ring_due(at))

    async def announce_cancel(self) -> None:
        self._air.say(Bell.ring_cancel)


class ForgetfulIndex(MemoryHotIndex):
    """Forgets everything, or the later half, when it is told to."""

    def forget(self, share: float) -> None:
        """What remains are the earliest instants."""
        kept = sorted(self._heap)[: round(len(self._heap) * (1 - share))]
        self._heap = kept
        self._known = set(kept)
