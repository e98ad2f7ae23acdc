"""What a worker asks for before it has looked who has work. That saves the look before the claim.

An idle worker that serves one tenant asks where it found work last. It is a guess, and only one: whether it was right or wrong, the
worker looks at everything before it guesses again, so whatever else is ready waits for one claim at most.

Where several tenants have had work lately, it assumes what its last look has shown, and one execution of each queue that had some before:
they share as if a look had shown that. When the claim finds more or less than was shown, somebody else has work than was
assumed, and everybody is looked at before the next claim.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from duly.domain.fairness import Ask, Work
from duly.domain.instants import Micros
from duly.roles.neighbours import NEIGHBOUR_FOR

# Each queue that is asked for costs a probe, and gets its part of the room.
MOST_QUEUES = 4
# Of a queue in which the last look has found nothing.
ASSUMED = 1
ROOM_FOR_ASSUMED = 4


class Habit:
    """One worker's."""

    def __init__(self) -> None:
        self._usual: list[tuple[int, int]] = []
        self._may_guess = False
        # What each queue has shown when it had something lately, and when; and which of them had something at the last look.
        self._queues: dict[tuple[int, int], tuple[Work, Micros]] = {}
        self._shown: set[tuple[int, int]] = set()
        self._must_look = True

    def looked(self, work: Sequence[Work], now: Micros) -> bool:
        """Everything was looked at, and this was found. Only who has found nothing may guess. True: some of it in a queue that is new."""
        if work:
            self._usual = [(item.route, item.tenant) for item in work]
        self._may_guess = not work
        found = {(item.route, item.tenant): item for item in work}
        self._queues = {key: (item, at) for key, (item, at) in self._queues.items() if now - at < NEIGHBOUR_FOR}
        is_new = not found.keys() <= self._queues.keys()
        self._queues |= {key: (item, now) for key, item in found.items()}
        self._shown = set(found)
        self._must_look = False
        return is_new

    def assume(self, room: int, routes: Collection[int], tenants: Collection[int]) -> list[Work]:
        """What is ready, as far as it can be known without a look where several tenants have had work lately. Nothing: look."""
        self._queues = {key: seen for key, seen in self._queues.items() if key[0] in routes and key[1] in tenants}
        is_known = {tenant for _, tenant in self._queues} == set(tenants)
        # What is only assumed takes its part of the room: no large one.
        has_room = len(self._queues) <= MOST_QUEUES and len(self._queues.keys() - self._shown) * ROOM_FOR_ASSUMED <= room
        if self._must_look or len(tenants) < 2 or not is_known or not has_room:
            return []
        return [item if key in self._shown else replace(item, depth=ASSUMED) for key, (item, _) in self._queues.items()]

    def was_right(self, asks: Sequence[Ask], found: int) -> bool:
        """Whether it was as assumed: something was found, all that had been shown and nothing else."""
        shown = sum(ask.quota for ask in asks if (ask.route, ask.tenant) in self._shown)
        self._must_look = not found or found != shown
        return not self._must_look

    def guess(self, room: int, routes: Collection[int], tenants: Collection[int]) -> list[Ask]:
        """What to ask for before looking: nothing, unless it is idle and serves one tenant. `tenants` have had work lately."""
        usual = [(route, tenant) for route, tenant in self._usual if route in routes and tenant in tenants]
        if not self._may_guess or len(tenants) != 1 or not 0 < len(usual) <= min(MOST_QUEUES, room):
            return []
        self._may_guess = False
        return [Ask(route, tenant, room // len(usual)) for route, tenant in usual]
