"""Where queues begin, as the last look has found it.

On PostgreSQL what was claimed stands at the head of its queue until vacuum comes, dead, and whoever begins there walks past all of it:
beside a million that wait, some ten thousand dead ones made a look fifty times as long as on an empty store. So a look that took long is
followed by some that begin where it found the first of each queue, and so do claims. What enters before that place (an urgent one, a retry)
is not seen by those: everything is looked at again after twenty times what that takes, at least every second.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from duly.domain.instants import SECOND, Micros
from duly.domain.trail import Place

Queue = tuple[int, int]
"""A route and a tenant."""

# What a look takes by itself, with some room: less is not worth remembering anything.
LONG: Micros = 500
# One long look may be a cold one, or somebody else's turn on the processor.
LONG_LOOKS = 2
WHOLE_LOOKS_IN = 20
LONGEST: Micros = SECOND
# Each place costs the next look a probe. Where more tenants share, what is dead is spread over all of them.
MOST_QUEUES = 16


class Heads:
    """One process's. Times are monotonic; what a look took is the server's own time, without the way there."""

    def __init__(self) -> None:
        self._places: dict[Queue, Place] = {}
        self._until: dict[int, Micros] = {}
        self._long_looks = 0

    def known(self, routes: Collection[int], now: Micros) -> dict[Queue, Place]:
        """Where to begin; a queue that is not among them begins at its head."""
        fresh = {route for route in routes if now < self._until.get(route, now)}
        return {queue: place for queue, place in self._places.items() if queue[0] in fresh} if fresh else {}

    def place(self, queue: Queue, now: Micros) -> Place | None:
        """The same for one queue; None: at its head."""
        return self._places.get(queue) if now < self._until.get(queue[0], now) else None

    def looked_at_all(self, routes: Collection[int], found: Mapping[Queue, Place], now: Micros, took: Micros) -> None:
        """Everything on these routes was looked at, and each queue that has anything begins there."""
        self._places = {queue: place for queue, place in self._places.items() if queue[0] not in routes}
        self._long_looks = self._long_looks + 1 if took >= LONG else 0
        is_worth_it = self._long_looks >= LONG_LOOKS and len(found) <= MOST_QUEUES
        self._until |= dict.fromkeys(routes, now + min(WHOLE_LOOKS_IN * took, LONGEST) if is_worth_it else now)
        if is_worth_it:
            self._places |= found

    def looked_on(self, known: Collection[Queue], found: Mapping[Queue, Place]) -> None:
        """A look began at these, and this is where it found the first of each."""
        # Who has nothing from his place on may have something before it: the next look begins at his head. And who is new is not remembered
        # before everything is looked at: there may be many of them.
        self.forget(known)
        self._places |= {queue: found[queue] for queue in known if queue in found}

    def forget(self, queues: Collection[Queue]) -> None:
        """The next look at them begins at their heads."""
        for queue in queues:
            self._places.pop(queue, None)
