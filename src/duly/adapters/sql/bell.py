"""The bell: wakes those who wait in this process. The part that every store transport shares."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from duly.domain.instants import Instant


class Bell:
    """Rings are kept until somebody has heard them, so none falls between a look and a wait."""

    def __init__(self) -> None:
        self._ready = asyncio.Event()
        self._flow = asyncio.Event()
        self._cancel = asyncio.Event()
        self._sooner = asyncio.Event()
        self._scheduled = asyncio.Event()
        self._announced: list[Instant] = []
        self._until: Instant | None = None

    def ring(self) -> None:
        """Something may be ready."""
        self._ready.set()
        self._flow.set()

    def ring_cancel(self) -> None:
        """Somebody may have asked for a stop."""
        self._cancel.set()

    def ring_scheduled(self) -> None:
        """Something may have been scheduled, nobody knows for when."""
        self._scheduled.set()

    def ring_due(self, at: Instant) -> None:
        """Something becomes due at this instant."""
        if len(self._announced) < 10_000:
            self._announced.append(at)
        self.ring_scheduled()
        if self._until is not None and at < self._until:
            self._sooner.set()

    async def announce(self, routes: Sequence[int]) -> None:
        self.ring()

    async def announce_due(self, at: Instant) -> None:
        self.ring_due(at)

    async def announce_cancel(self) -> None:
        self.ring_cancel()

    async def wait_cancel(self, timeout: float) -> bool:
        return await _heard(self._cancel, timeout)

    async def wait_ready(self, timeout: float) -> bool:
        return await _heard(self._ready, timeout)

    async def wait_flow(self, timeout: float) -> bool:
        return await _heard(self._flow, timeout)

    async def wait_scheduled(self, timeout: float) -> bool:
        return await _heard(self._scheduled, timeout)

    async def wait_due(self, until: Instant, timeout: float) -> list[Instant]:
        if not any(at < until for at in self._announced):
            self._until = until
            self._sooner.clear()
            try:
                await _heard(self._sooner, timeout)
            finally:
                self._until = None
        announced, self._announced = self._announced, []
        return announced

    async def close(self) -> None:
        """Nothing to let go of."""


async def _heard(event: asyncio.Event, timeout: float) -> bool:
    """Wait for a ring, and take it down."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            await event.wait()
    heard = event.is_set()
    event.clear()
    return heard
