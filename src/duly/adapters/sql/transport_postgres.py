"""The store transport on PostgreSQL: coalesced NOTIFY as a wake-up, polling as the truth.

NOTIFY inside the submitting transaction takes a lock at commit and cut 16 committers from 9,200/s to
2,600/s; so it goes in a transaction of its own after the commit, and while one is under way the next
ones are gathered.

Behind a pooler that shares sessions nobody can listen: the session that listens is given to somebody else. Hints are sent
there all the same, for those who listen past the pooler, and whoever cannot hear polls: that costs latency, never work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Sequence
from typing import Any

import asyncpg

from duly.adapters.sql.bell import Bell
from duly.adapters.sql.engine_postgres import SCHEMA
from duly.adapters.sql.postgres.address import Pooler
from duly.adapters.sql.postgres.lines import CONNECT_TIMEOUT, Line, Way
from duly.domain.instants import Instant

log = logging.getLogger("duly.transport")

CHANNEL = f"{SCHEMA}_ready"
RECONNECT_EVERY = 2.0
# A line that hears nothing may be dead: a look this often, answered in this time, finds that within five seconds.
PROBE_EVERY = 1.5
PROBE_TIMEOUT = 2.0
_FAULTS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)


class PostgresTransport(Bell):
    """One connection listens and notifies. While it is away, hints are lost and everybody polls."""

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self._way = Way(dsn)
        self._connection: Line | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._sender: asyncio.Task[None] | None = None
        self._words_to_send: set[str] = set()
        self._due_to_send: Instant | None = None
        self._connected = asyncio.Event()

    async def announce(self, routes: Sequence[int]) -> None:
        self.ring()
        self._words_to_send.add("ready")
        self._send_soon()

    async def announce_cancel(self) -> None:
        self.ring_cancel()
        self._words_to_send.add("cancel")
        self._send_soon()

    async def announce_due(self, at: Instant) -> None:
        self.ring_due(at)
        self._due_to_send = at if self._due_to_send is None else min(at, self._due_to_send)
        self._send_soon()

    async def wait_ready(self, timeout: float) -> bool:
        self._keep()
        return await super().wait_ready(timeout)

    async def wait_flow(self, timeout: float) -> bool:
        self._keep()
        return await super().wait_flow(timeout)

    async def wait_cancel(self, timeout: float) -> bool:
        self._keep()
        return await super().wait_cancel(timeout)

    async def wait_due(self, until: Instant, timeout: float) -> list[Instant]:
        self._keep()
        return await super().wait_due(until, timeout)

    async def close(self) -> None:
        # The sender first: the keeper takes the connection with it.
        for task in (self._sender, self._keeper):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        if self._connection is not None:
            with contextlib.suppress(*_FAULTS):
                await self._connection.close(timeout=1.0)

    def _keep(self) -> None:
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep_listening(), name="duly-listen")

    def _send_soon(self) -> None:
        self._keep()
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send(), name="duly-notify")

    async def _send(self) -> None:
        while self._words_to_send or self._due_to_send is not None:
            due, self._due_to_send = self._due_to_send, None
            payload = " ".join([*sorted(self._words_to_send, reverse=True), *([] if due is None else [str(due)])])
            self._words_to_send.clear()
            try:
                # The first hint of a process comes before its connection does; the waiting is short, or the hint is lost.
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    await self._connected.wait()
                if self._connection is None:
                    return
                await self._connection.execute("SELECT pg_notify($1, $2)", CHANNEL, payload, timeout=PROBE_TIMEOUT)
            except Exception as error:
                # Whatever it is, a connection that is taken away in the middle included: whoever waits for a hint also polls.
                log.debug("a hint was lost: %s", error)
                return

    async def _keep_listening(self) -> None:
        """Stay connected. A connection that dies without a word is noticed by the probe."""
        while True:
            try:
                connection = await self._way.open("duly-listen", {})
                try:
                    if self._way.pooler is not Pooler.TRANSACTION:
                        await connection.add_listener(CHANNEL, self._heard)
                except BaseException:
                    # Also when we are told to stop in the middle of it: nobody else knows of the connection yet.
                    connection.terminate()
                    raise
            except Exception as error:
                # Whatever it is: without hints everybody polls, and we try again.
                log.debug("cannot listen: %s", error)
                await asyncio.sleep(RECONNECT_EVERY * (0.5 + random.random()))  # noqa: S311 only spreads a delay
                continue
            self._connection = connection
            self._connected.set()
            # What was announced while nobody listened is found by looking once.
            self.ring()
            self.ring_cancel()
            try:
                while not connection.is_closed():
                    await asyncio.sleep(PROBE_EVERY)
                    if self._sender is None or self._sender.done():
                        await connection.execute("SELECT 1", timeout=PROBE_TIMEOUT)
            except Exception as error:
                log.debug("no longer listening: %s", error)
            finally:
                self._connection = None
                self._connected.clear()
                connection.terminate()

    def _heard(self, connection: Any, pid: int, channel: str, payload: object) -> None:
        if pid == connection.get_server_pid():
            # Our own words: whoever is here was told when they were said.
            return
        for word in str(payload).split():
            if word == "ready":
                self.ring()
            elif word == "cancel":
                self.ring_cancel()
            elif word.isdigit():
                self.ring_due(int(word))
