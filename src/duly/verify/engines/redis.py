"""`duly verify --with redis`: a private Redis as hot index and way of hints, which is emptied, killed, stopped and set back in time.

Redis only carries hints, so none of this excuses anything: what is due while it is broken must come as on a calm day.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from duly.services.redis import Redis
from duly.verify.engines.engine import Private
from duly.verify.faults import Kind
from duly.verify.links import Links
from duly.verify.stage import Stage

REDIS = "redis"


class RedisEngine(Private[Redis]):
    """A private Redis, reached by every node through a link of its own."""

    name = REDIS

    def __init__(self) -> None:
        super().__init__(Redis)
        self.kinds: Sequence[Kind] = (
            Kind("redis-flush", 6, self._flush, "Redis is emptied (FLUSHALL)"),
            Kind("redis-kill", 5, self._kill, "Redis ends without warning and comes back empty"),
            Kind("redis-restore", 4, self._restore, "Redis comes back from an older dump"),
            Kind("redis-pause", 5, self._pause, "Redis is stopped (SIGSTOP): it holds its connections and does not answer"),
        )

    async def settings(self, node: str, kind: str, links: Links) -> dict[str, str]:
        return {"DULY_HOT_INDEX": f"redis://127.0.0.1:{await links.add(node, REDIS, ('127.0.0.1', self.server.port))}/0"}

    async def _flush(self, stage: Stage, chance: random.Random, seconds: float) -> None:
        async with self.turn, stage.broken("redis-flush", [REDIS], harmless=True):
            for _ in range(chance.choice((1, 1, 5))):
                await self.on_thread(lambda: self.server.ask("FLUSHALL"))
                await stage.hold(chance.uniform(0, 0.5))

    async def _kill(self, stage: Stage, chance: random.Random, seconds: float) -> None:
        async with self.turn, stage.broken("redis-kill", [REDIS], harmless=True):
            await self.on_thread(self.server.kill)
            try:
                await stage.hold(seconds * chance.uniform(0, 2))
            finally:
                await self.on_thread(self.server.start)

    async def _restore(self, stage: Stage, chance: random.Random, seconds: float) -> None:
        """It ends, and is back with what it held a while ago."""
        async with self.turn:
            dump = await self.on_thread(self.server.keep_dump)
            await stage.hold(seconds * chance.uniform(1, 4))
            async with stage.broken("redis-restore", [REDIS], harmless=True):
                await self.on_thread(self.server.kill)
                await self.on_thread(lambda: self.server.start_from(dump))

    async def _pause(self, stage: Stage, chance: random.Random, seconds: float) -> None:
        async with self.turn, stage.broken("redis-pause", [REDIS], harmless=True):
            self.server.pause()
            try:
                await stage.hold(seconds * chance.uniform(0.1, 3))
            finally:
                self.server.resume()
