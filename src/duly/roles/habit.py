"""Where an idle worker asks first when it is woken: where it found work last. That saves the look before the claim.

It is a guess, and only one: whether it was right or wrong, the worker looks at everything before it guesses again, so whatever else is
ready waits for one claim at most. Where several tenants have work nobody guesses: who comes first is decided by a look at all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from duly.domain.fairness import Ask, Work

# Each queue that is asked for costs a probe, and gets its part of the room.
MOST_QUEUES = 4


class Habit:
    """One worker's."""

    def __init__(self) -> None:
        self._usual: list[tuple[int, int]] = []
        self._may_guess = False

    def looked(self, work: Sequence[Work]) -> None:
        """Everything was looked at, and this was found. Only who has found nothing may guess."""
        if work:
            self._usual = [(item.route, item.tenant) for item in work]
        self._may_guess = not work

    def guess(self, room: int, routes: Collection[int], tenants: Collection[int]) -> list[Ask]:
        """What to ask for before looking: nothing, unless it is idle and serves one tenant. `tenants` have had work lately."""
        usual = [(route, tenant) for route, tenant in self._usual if route in routes and tenant in tenants]
        if not self._may_guess or len(tenants) != 1 or not 0 < len(usual) <= min(MOST_QUEUES, room):
            return []
        self._may_guess = False
        return [Ask(route, tenant, room // len(usual)) for route, tenant in usual]
