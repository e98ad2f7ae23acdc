"""The transport of a test: it carries no hints, it only notes who has something to look at, and wakes whoever steps the roles."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from duly.adapters.sql.bell import Bell


class Alarm:
    """Tells who moves time that somebody has something to do at this instant."""

    __slots__ = ("has_rung", "is_heard")

    def __init__(self) -> None:
        self.has_rung = False
        # Whether everybody who was rung for has been seen to.
        self.is_heard = True

    def ring(self) -> None:
        """There is something to do."""
        self.has_rung = True
        self.is_heard = False


class Wake(asyncio.Event):
    """A worker's event that rings the alarm as well."""

    def __init__(self, alarm: Alarm) -> None:
        super().__init__()
        self._alarm = alarm

    def set(self) -> None:
        super().set()
        self._alarm.has_rung = True
        self._alarm.is_heard = False


class Switchboard(Bell):
    """Who was rung for since they were last looked at."""

    def __init__(self, ring: Callable[[], None]) -> None:
        super().__init__()
        self._ring = ring
        self.is_ready = self.is_flow = self.is_due = self.is_cancel = False
        # The only route that was rung for, if each ring has named it.
        self.route: int | None = None

    def ring(self) -> None:
        self.is_ready = self.is_flow = True
        self.route = None
        self._ring()

    async def announce(self, routes: Sequence[int]) -> None:
        is_the_only_one = len(routes) == 1 and (not self.is_ready or self.route == routes[0])
        self.ring()
        self.route = routes[0] if is_the_only_one else None

    def ring_cancel(self) -> None:
        self.is_cancel = True
        self._ring()

    def ring_scheduled(self) -> None:
        self.is_due = True
        self._ring()

    def ring_due(self, at: int) -> None:
        self.ring_scheduled()

    def silence(self) -> None:
        """Whoever was rung for has heard it."""
        self.is_ready = self.is_flow = self.is_due = self.is_cancel = False
        self.route = None
