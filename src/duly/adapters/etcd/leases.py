"""Who is there, by etcd: each dispatcher keeps a key under a lease of two seconds, and watches the keys of all.

A dispatcher that dies is missed by etcd when its lease ends, one that stops in order at once. While etcd is away, or does not
know us, it tells nothing, and whoever asks goes by the store's leases.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from typing import Any

from duly.adapters.etcd.client import Etcd
from duly.domain.errors import Unavailable
from duly.domain.instants import SECOND, Micros
from duly.domain.roster import Roster
from duly.ports.clock import Clock
from duly.ports.presence import LeaseService

# etcd grants no shorter lease than this with its usual election timeout.
TTL = 2
BEAT = 0.5
# What was heard this long ago may have changed since.
HEARD_FOR: Micros = 2 * SECOND
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0

log = logging.getLogger("duly.etcd")


class EtcdPresence:
    """Presence on a cluster of etcd."""

    def __init__(self, etcd: Etcd, prefix: str, clock: Clock) -> None:
        self._etcd = etcd
        self._keys = f"{prefix}/dispatchers/"
        self._clock = clock
        self._name = ""
        self._roster = Roster("")
        self._lease: int | None = None
        self._heard_at: Micros = 0
        self._news = asyncio.Event()
        self._is_missed = asyncio.Event()
        self._life: asyncio.Task[None] | None = None

    async def enter(self, name: str) -> None:
        self._name = name
        self._roster = Roster(name)
        self._etcd.keeps = True
        self._life = asyncio.create_task(self._live())

    async def leave(self) -> None:
        life, self._life = self._life, None
        if life is not None:
            life.cancel()
            await asyncio.wait([life])
        self._etcd.keeps = False
        lease, self._lease = self._lease, None
        if lease is not None:
            with contextlib.suppress(Unavailable):
                await self._etcd.revoke(lease)
        self._etcd.drop()

    def left(self) -> frozenset[str]:
        now = self._clock.boottime()
        return self._roster.left(now) if now - self._heard_at < HEARD_FOR else frozenset()

    async def changed(self) -> None:
        await self._news.wait()
        self._news.clear()

    async def look(self) -> LeaseService:
        try:
            keys, _ = await self._etcd.keys(self._keys)
        except Unavailable as error:
            self._etcd.use_next()
            return LeaseService("etcd", is_reachable=False, trouble=error.message)
        return LeaseService("etcd", is_reachable=True, members=tuple(key.removeprefix(self._keys) for key in keys))

    async def _live(self) -> None:
        """Be there and watch, both through one member: when either fails, both begin again, with the next one."""
        pause = 0.0
        while True:
            try:
                await _while_all_go_on(self._stay(), self._watch())
            except Unavailable as error:
                # Told once: while it stays away, nobody needs to read it again and again.
                level = logging.WARNING if self._heard_at or not pause else logging.DEBUG
                log.log(level, "the store's leases alone tell who is there: %s", error)
            except Exception:
                log.exception("the watch on etcd failed and starts again")
            pause = FIRST_PAUSE if self._heard_at else min(max(2 * pause, FIRST_PAUSE), LONGEST_PAUSE)
            self._roster.unheard()
            self._heard_at = 0
            self._etcd.use_next()
            await asyncio.sleep(pause)

    async def _stay(self) -> None:
        """Keep our key. When it is gone, whatever the reason, another one is there at once."""
        while True:
            self._is_missed.clear()
            self._lease = lease = await self._etcd.grant(TTL)
            await self._etcd.put(self._keys + self._name, self._name, lease)
            while await self._etcd.keep_alive(lease) and not self._is_missed.is_set():
                self._heard_at = self._clock.boottime()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(BEAT):
                        await self._is_missed.wait()
            log.info("etcd has lost us and is told again")

    async def _watch(self) -> None:
        keys, revision = await self._etcd.keys(self._keys)
        self._roster.seen(key.removeprefix(self._keys) for key in keys)
        async with contextlib.aclosing(self._etcd.watch(self._keys, revision + 1)) as changes:
            async for some in changes:
                for change in some:
                    name = change.key.removeprefix(self._keys)
                    if change.is_gone:
                        self._roster.went(name, self._clock.boottime())
                    else:
                        self._roster.came(name)
                    if name != self._name:
                        self._news.set()
                    elif change.is_gone:
                        self._is_missed.set()


async def _while_all_go_on(*work: Coroutine[Any, Any, None]) -> None:
    """Run them side by side until one ends or fails, and end the others with it.

    A task group would lose a cancellation that comes while it ends its tasks for a failure: whoever stops would wait for ever.
    """
    tasks = [asyncio.create_task(one) for one in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
