"""The transport of a test: it carries no hints, it only notes who has something to look at, and wakes whoever steps the roles."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from duly.adapters.sql.bell import Bell


class Alarm:
    """Wakes one who waits until an instant, or earlier when somebody rings."""

    def __init__(self) -> None:
        self._waiting: asyncio.Future[bool] | None = None
        self.has_rung = False

    def ring(self) -> None:
        """There is something to do."""
        self.has_rung = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(False)

    async def wait_until(self, when: float) -> None:
        """Wait until somebody rings, or the loop's clock shows `when`. What has rung before is forgotten."""
        loop = asyncio.get_running_loop()
        self.has_rung = False
        self._waiting = waiting = loop.create_future()
        timer = loop.call_at(when, self._end, waiting)
        try:
            await waiting
        finally:
            timer.cancel()
            self._waiting = None

    async def wait_for(self, waiting: asyncio.Future[bool]) -> bool:
        """Wait for that, or until somebody rings; whether it was that."""
        self._waiting = waiting
        try:
            return await waiting
        finally:
            self._waiting = None

    @staticmethod
    def _end(waiting: asyncio.Future[bool]) -> None:
        if not waiting.done():
            waiting.set_result(True)


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
