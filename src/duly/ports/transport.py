"""The transport: tells workers that something is ready, and dispatchers that something comes up. A hint, never the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from duly.domain.instants import Instant


class Transport(Protocol):
    """May lose, repeat and delay; whoever waits on it also polls."""

    async def announce(self, routes: Sequence[int]) -> None:
        """Executions on these routes are ready. Called after the commit; never raises for a lost hint."""

    async def announce_due(self, at: Instant) -> None:
        """Something becomes due at this instant: dispatchers may want to look then."""

    async def announce_cancel(self) -> None:
        """Somebody asked a running execution to stop: workers may want to look. Called after the commit; never raises."""

    async def wait_cancel(self, timeout: float) -> bool:
        """Wait until somebody may have asked for a stop, at most `timeout` seconds; False when it ran out."""

    async def wait_ready(self, timeout: float) -> bool:
        """Wait until something may be ready, at most `timeout` seconds; False when it ran out."""

    async def wait_due(self, until: Instant, timeout: float) -> list[Instant]:
        """Wait at most `timeout` seconds, or until an instant before `until` is announced; answers all that were announced."""

    async def wait_scheduled(self, timeout: float) -> bool:
        """Wait until anybody announces an instant, near or far, at most `timeout` seconds; False when it ran out."""

    async def close(self) -> None:
        """Stop listening."""
