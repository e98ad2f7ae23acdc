"""The transport: tells workers that something is ready, and dispatchers that something comes up. A hint, never the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from duly.domain.announcements import Announcement
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

    async def wait_flow(self, timeout: float) -> bool:
        """The same for who begins runs of workflows: a ring that a worker heard is heard here as well."""

    async def wait_due(self, until: Instant, timeout: float) -> list[Instant]:
        """Wait at most `timeout` seconds, or until an instant before `until` is announced; answers all that were announced."""

    async def wait_scheduled(self, timeout: float) -> bool:
        """Wait until anybody announces an instant, near or far, at most `timeout` seconds; False when it ran out."""

    async def close(self) -> None:
        """Stop listening."""


class Courier(Protocol):
    """A transport that also carries which executions are ready, from whoever looks ahead (the crier) to one worker of many.

    What it brings is worth no more than any other hint: the worker asks the store for it.
    """

    async def post(self, pool: str, announcements: Sequence[Announcement]) -> None:
        """Say to the workers of a pool what is ready; each announcement goes to one of those that are alike. Never raises."""

    async def post_all(self, pool: str, announcement: Announcement) -> None:
        """Say it to as many of them as can be reached."""

    def listen(self, pool: str, alike: str) -> None:
        """Begin to receive what is said to this pool. Workers that serve the same (`alike`) share it, others hear it as well. To be called
        as often as one likes."""

    def received(self) -> list[Announcement]:
        """What has come since the last call, oldest first. Too much of it is forgotten: whoever waits for a hint also polls."""

    def settle(self) -> None:
        """Everything that was received is dealt with: it need not come again."""

    async def wait_mail(self, timeout: float) -> bool:
        """Wait until something may have come, at most `timeout` seconds; False when it ran out."""
