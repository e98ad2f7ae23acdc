"""The transport of a test: it carries no hints, it only notes who has something to look at, and wakes whoever steps the roles."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from duly.adapters.sql.bell import Bell


class Alarm:
    """Tells who moves time that somebody has something to do at this instant."""

    __slots__ = ("has_rung",)

    def __init__(self) -> None:
        self.has_rung = False

    def ring(self) -> None:
        """There is something to do."""
        self.has_rung = True


class Wake(asyncio.Event):
    """A worker's event that rings the alarm as well."""

    def __init__(self, alarm: Alarm) -> None:
        super().__init__()
        self._alarm = alarm

    def set(self) -> None:
        super().set()
        self._alarm.ring()


class Switchboard(Bell):
    """Who was rung for since they were last looked at."""

    def __init__(self, ring: Callable[[], None]) -> None:
        super().__init__()
        self._ring = ring
        self.is_ready = self.is_flow = self.is_due = self.is_cancel = False

    def ring(self) -> None:
        self.is_ready = self.is_flow = True
        self._ring()

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
