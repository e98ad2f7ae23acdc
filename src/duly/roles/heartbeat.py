"""The heartbeat: a worker's life, renewed from a thread that a busy handler cannot block.

The thread has its own event loop and its own way to the store: a heartbeat behind a slow finish
would let the worker expire while it works. Trust is counted in boottime from before the request,
and ends a margin before the store would give the worker's leases away.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from duly.domain.errors import Unavailable
from duly.domain.execution import WorkerId
from duly.domain.ids import ExecutionId
from duly.domain.instants import SECOND, Instant, Micros
from duly.ports.clock import Clock
from duly.ports.store import Liveness

log = logging.getLogger("duly.heartbeat")


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """How long a worker lives without a heartbeat, how often it sends one, and how much earlier it stops to trust itself."""

    ttl: Micros = 15 * SECOND
    every: Micros = 5 * SECOND
    margin: Micros = 2 * SECOND
    # How far the machine's clock must have moved against the store's before that is said anew.
    tells_skew_from: Micros = SECOND // 10


class Heartbeat:
    """The state of one worker's life. `beat` renews it; everybody may read it.

    `skew` tells how far the machine's clock is ahead of the store's, `told` is what the store knows of that; None: nobody measures it.
    """

    def __init__(
        self,
        worker: WorkerId,
        clock: Clock,
        settings: HeartbeatSettings,
        registered_at: Micros,
        skew: Callable[[], Micros] | None = None,
        told: Micros | None = None,
    ) -> None:
        self.worker = worker
        self._clock = clock
        self._settings = settings
        self._trusted_until = registered_at + settings.ttl - settings.margin
        self._lost = False
        self._skew = skew
        self._told = told
        self._stops: dict[ExecutionId, Instant | None] = {}

    async def beat(self, liveness: Liveness) -> bool:
        """Renew once; False when the worker is lost for good."""
        if not self.is_trusted:
            return False
        # Read the clock before the round trip: a slow answer must not lengthen our trust in it.
        asked = self._clock.boottime()
        skew = self._news_of_skew()
        stops = await liveness.renew(self.worker, self._clock.now(), self._settings.ttl, skew)
        if stops is None:
            self._lost = True
            return False
        self._told = self._told if skew is None else skew
        self._trusted_until = asked + self._settings.ttl - self._settings.margin
        self._stops = {stop.id: stop.kill_at for stop in stops}
        return True

    def _news_of_skew(self) -> Micros | None:
        """How far the clock is off, if that is news."""
        if self._skew is None:
            return None
        skew = self._skew()
        return None if self._told is not None and abs(skew - self._told) < self._settings.tells_skew_from else skew

    @property
    def is_trusted(self) -> bool:
        """Whether the worker may still believe that its leases are its own. Once it may not, it never may again:
        it has stopped its handlers by then, and a later renewal would keep leases alive that nobody works on."""
        if not self._lost and self._clock.boottime() >= self._trusted_until:
            self._lost = True
        return not self._lost

    def stops(self) -> dict[ExecutionId, Instant | None]:
        """Which of its executions were asked to stop, as of the last beat, and from when on each is killed (None: never)."""
        return self._stops


class Beating(Protocol):
    """A heart that beats until it is stopped or its worker is lost."""

    def stop(self) -> None:
        """Beat no more; returns at once."""

    def beat_now(self) -> None:
        """Beat at once: somebody may have asked for a stop. Asked several times before it is done, it is done once."""


StartBeating = Callable[[Heartbeat, float, Callable[[], None]], Beating]
"""Begins to beat every so many seconds, and calls back when there is news: a stop was asked for, or the worker is lost."""
OpenLiveness = Callable[[], Awaitable[tuple[Liveness, Callable[[], Awaitable[None]]]]]


async def keep_beating(
    heartbeat: Heartbeat, every: float, liveness: Liveness, is_due: Callable[[float], Awaitable[bool]], on_news: Callable[[], None]
) -> None:
    """Beat until the worker is lost or `is_due(seconds)`, which waits at most that long, answers that it is over. Says the end once."""
    try:
        pause = every
        while await is_due(pause):
            try:
                if not await heartbeat.beat(liveness):
                    break
                pause = every
            except Exception as error:
                # Whatever it is: a heart that stops beating costs the worker its life, so it goes on.
                log.warning("heartbeat: %s", error, exc_info=not isinstance(error, Unavailable))
                # The next beats come sooner: every second counts before trust runs out.
                pause = min(1.0, every)
            if heartbeat.stops() or not heartbeat.is_trusted:
                on_news()
    finally:
        on_news()


class HeartbeatThread:
    """Beats in a thread of its own, with its own event loop and its own way to the store."""

    def __init__(self, heartbeat: Heartbeat, every: float, on_news: Callable[[], None], open_liveness: OpenLiveness) -> None:
        self._heartbeat = heartbeat
        self._every = every
        self._open = open_liveness
        self._on_news = on_news
        self._is_stopped = False
        self._due = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="duly-heartbeat", daemon=True)

    @classmethod
    def starter(cls, open_liveness: OpenLiveness) -> StartBeating:
        """Begins threads that reach the store this way."""

        def start(heartbeat: Heartbeat, every: float, on_news: Callable[[], None]) -> Beating:
            beating = cls(heartbeat, every, on_news, open_liveness)
            beating._thread.start()
            return beating

        return start

    def stop(self) -> None:
        self._is_stopped = True
        self._due.set()

    def beat_now(self) -> None:
        self._due.set()

    async def _run(self) -> None:
        liveness, close = await self._open()
        try:
            await keep_beating(self._heartbeat, self._every, liveness, self._is_due, self._on_news)
        finally:
            await close()

    async def _is_due(self, seconds: float) -> bool:
        await asyncio.to_thread(self._due.wait, seconds)
        self._due.clear()
        return not self._is_stopped
