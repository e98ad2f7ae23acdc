"""Hints over Redis: published to whoever listens, while Redis is there; over the store's own transport while it is not.

So PostgreSQL is spared the NOTIFYs, and hints pass where a pooler swallows LISTEN. Who waits does so at the store's transport: what is
heard from Redis rings its bell, and what comes over the store rings it as well. A hint that is lost between the two costs a poll.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from duly.adapters.redis.link import CONNECT_TIMEOUT, RedisLink
from duly.domain.instants import Instant
from duly.ports.transport import Transport

if TYPE_CHECKING:
    from redis.asyncio import Redis

log = logging.getLogger("duly.redis")

RECONNECT_EVERY = 1.0
PROBE_EVERY = 5.0
LONGEST_HINT = 1_000


class StoreTransport(Transport, Protocol):
    """The store's own transport, whose bell we ring in this process."""

    def ring(self) -> None:
        """Something may be ready."""

    def ring_cancel(self) -> None:
        """Somebody may have asked for a stop."""

    def ring_due(self, at: Instant) -> None:
        """Something becomes due at this instant."""


class RedisHints:
    """One connection listens, the link's publishes. While one hint is on its way the next ones are gathered."""

    def __init__(self, link: RedisLink, store: StoreTransport) -> None:
        self._link = link
        self._store = store
        self._channel = f"{link.prefix}:hints"
        self._keeper: asyncio.Task[None] | None = None
        self._sender: asyncio.Task[None] | None = None
        self._routes: set[int] = set()
        self._is_ready = self._is_cancel = False
        self._due: Instant | None = None
        link.probes.append(lambda redis: redis.publish(self._channel, ""))

    async def announce(self, routes: Sequence[int]) -> None:
        self._store.ring()
        self._routes.update(routes)
        self._is_ready = True
        self._send_soon()

    async def announce_cancel(self) -> None:
        self._store.ring_cancel()
        self._is_cancel = True
        self._send_soon()

    async def announce_due(self, at: Instant) -> None:
        self._store.ring_due(at)
        self._due = at if self._due is None else min(at, self._due)
        self._send_soon()

    async def wait_ready(self, timeout: float) -> bool:
        self._keep()
        return await self._store.wait_ready(timeout)

    async def wait_flow(self, timeout: float) -> bool:
        self._keep()
        return await self._store.wait_flow(timeout)

    async def wait_cancel(self, timeout: float) -> bool:
        self._keep()
        return await self._store.wait_cancel(timeout)

    async def wait_due(self, until: Instant, timeout: float) -> list[Instant]:
        self._keep()
        return await self._store.wait_due(until, timeout)

    async def wait_scheduled(self, timeout: float) -> bool:
        self._keep()
        return await self._store.wait_scheduled(timeout)

    async def close(self) -> None:
        for task in (self._sender, self._keeper):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        await self._link.close()
        await self._store.close()

    def _send_soon(self) -> None:
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send(), name="duly-redis-publish")

    async def _send(self) -> None:
        while self._is_ready or self._is_cancel or self._due is not None:
            is_ready, is_cancel, due, routes = self._is_ready, self._is_cancel, self._due, sorted(self._routes)
            self._is_ready, self._is_cancel, self._due = False, False, None
            self._routes.clear()
            words = [*(["ready"] if is_ready else ()), *(["cancel"] if is_cancel else ()), *([] if due is None else [str(due)])]

            async def call(redis: Redis, text: str = " ".join(words)) -> int:
                return int(await redis.publish(self._channel, text))

            if await self._link.ask(call) is not None:
                continue
            if is_ready:
                await self._store.announce(routes)
            if is_cancel:
                await self._store.announce_cancel()
            if due is not None:
                await self._store.announce_due(due)

    def _keep(self) -> None:
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep_listening(), name="duly-redis-listen")

    async def _keep_listening(self) -> None:
        """Stay subscribed. Whether Redis is away is said by the link; here it is only tried again."""
        while True:
            redis = self._link.connect(timeout=None)
            try:
                async with redis.pubsub() as subscription:
                    await self._listen(subscription)
            except Exception as error:
                log.debug("not listening to Redis: %s", error)
            finally:
                with contextlib.suppress(Exception):
                    await redis.aclose()
            await asyncio.sleep(RECONNECT_EVERY)

    async def _listen(self, subscription: Any) -> None:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            await subscription.subscribe(self._channel)
        # What was announced while nobody listened is found by looking once.
        self._store.ring()
        self._store.ring_cancel()
        is_asked = False
        while True:
            message = await subscription.get_message(timeout=CONNECT_TIMEOUT if is_asked else PROBE_EVERY)
            if message is not None:
                is_asked = False
                if message["type"] == "message":
                    self._hear(message["data"])
            elif is_asked:
                # It was asked whether it is there and did not answer: a connection that died without a word.
                raise TimeoutError("no answer from Redis")
            else:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    await subscription.ping()
                is_asked = True

    def _hear(self, text: bytes) -> None:
        for word in text[:LONGEST_HINT].split():
            if word == b"ready":
                self._store.ring()
            elif word == b"cancel":
                self._store.ring_cancel()
            elif word.isdigit() and len(word) < 20:
                self._store.ring_due(int(word))
