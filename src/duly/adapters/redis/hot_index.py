"""The hot index in Redis: a sorted set for each shard, instants as scores.

A set also says who filled it and when: a member that carries the filler's stamp, with a score below zero (minus the time of the
filling). It stands in the same key as the instants on purpose: whoever loses the key, by FLUSHALL, eviction, expiry or a restart from
an older dump, loses the stamp with it, and the next look notices. Every filling has a new stamp, and two who overlap for a moment,
as when a shard changes hands, do not take each other's away.

Only scores are believed, and only to decide when to look: a wrong one costs a look at the store, or one that comes with the poll.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from duly.adapters.redis.link import RedisLink
from duly.domain.instants import SECOND, Instant, Micros
from duly.ports.hot_index import Coming

if TYPE_CHECKING:
    from redis.asyncio import Redis

# Of each shard at most so many; the farthest are forgotten first.
MOST = 5_000
# A call carries no more than this, so that none holds Redis up for others.
CHUNK = 2_000
# Of each shard a take removes no more than this; what remains has passed and is asked for no longer.
REMOVED = 1_000
# An index that nobody fills any more goes away by itself, and so does a stamp of somebody who is gone.
LIFE: Micros = 600 * SECOND
# Nobody puts instants in from farther ahead.
HORIZON: Micros = 120 * SECOND
PROBE = "probe"

# Puts instants in; with a stamp, says who has filled the sets. A key of another kind is somebody's mistake.
PUT = """
local most, life, now, stale, stamp, before = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local nth = 7
for _, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'zset' and kind ~= 'none' then redis.call('DEL', key) end
  local last = nth + tonumber(ARGV[nth])
  for at = nth + 1, last do redis.call('ZADD', key, ARGV[at], ARGV[at]) end
  nth = last + 1
  if stamp ~= '' then
    redis.call('ZREM', key, before)
    redis.call('ZREMRANGEBYSCORE', key, '-' .. stale, '(0')
    redis.call('ZADD', key, '-' .. now, stamp)
  end
  redis.call('ZREMRANGEBYRANK', key, most, -1)
  redis.call('PEXPIRE', key, life)
end
return 1
"""

# Takes what has passed, so many of each set at most; answers how many sets lack the stamp, and the soonest instant that remains.
TAKE = """
local until_, horizon, most, stamp = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local gaps, soonest = 0, false
for _, key in ipairs(KEYS) do
  local filled = redis.pcall('ZSCORE', key, stamp)
  if type(filled) == 'table' then
    redis.call('DEL', key)
    filled = false
  end
  if not filled then gaps = gaps + 1 end
  local passed = redis.call('ZCOUNT', key, '(0', until_)
  if passed > 0 then
    local stamps = redis.call('ZCOUNT', key, '-inf', '0')
    redis.call('ZREMRANGEBYRANK', key, stamps, stamps + math.min(passed, most) - 1)
  end
  local first = redis.call('ZRANGEBYSCORE', key, '(' .. until_, horizon, 'WITHSCORES', 'LIMIT', 0, 1)
  if first[2] and (not soonest or tonumber(first[2]) < tonumber(soonest)) then soonest = first[2] end
end
return {gaps, soonest}
"""


class RedisHotIndex:
    """Shared by all dispatchers: whoever takes a shard over finds its instants there. While Redis is away it knows nothing."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._name = secrets.token_hex(8)
        self._fillings = 0
        self._stamp = ""
        self._gap = asyncio.Event()
        link.probes.append(self._probe)
        link.when_back.append(self._gap.set)

    async def add(self, coming: Iterable[Coming]) -> None:
        found = sorted(coming)
        for start in range(0, len(found), CHUNK):
            await self._put((), found[start : start + CHUNK], 0, "")

    async def fill(self, shards: Collection[int], coming: Iterable[Coming], now: Instant) -> None:
        found = sorted(coming)
        # The stamp goes with the last piece: until then it is no whole filling.
        last = max(len(found) - 1, 0) // CHUNK * CHUNK
        await self.add(found[:last])
        self._fillings += 1
        stamp = f"{self._name}:{self._fillings}"
        if await self._put(shards, found[last:], now, stamp):
            self._stamp = stamp

    async def take(self, shards: Collection[int], until: Instant) -> Instant | None:
        keys = [self._key(shard) for shard in shards]
        words = (str(until), str(until + HORIZON), str(REMOVED), self._stamp)

        async def call(redis: Redis) -> Any:
            return await redis.eval(TAKE, len(keys), *keys, *words)

        answer = await self._link.ask(call)
        if answer is None:
            return None
        gaps, soonest = answer
        if gaps:
            self._gap.set()
        # As somebody wrote it by hand, it may have a fraction; later by less than a microsecond is not early.
        return None if soonest is None else int(float(soonest))

    async def wait_gap(self, timeout: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._gap.wait()
        is_gap = self._gap.is_set()
        self._gap.clear()
        return is_gap

    async def _put(self, shards: Collection[int], coming: Collection[Coming], now: Instant, stamp: str) -> bool:
        by_shard: dict[int, list[str]] = {shard: [] for shard in shards}
        for one in coming:
            by_shard.setdefault(one.shard, []).append(str(one.at))
        keys = [self._key(shard) for shard in by_shard]
        words = [str(MOST), str(LIFE // 1000), str(now), str(now - LIFE), stamp, self._stamp]
        for instants in by_shard.values():
            words += [str(len(instants)), *instants]

        async def call(redis: Redis) -> Any:
            return await redis.eval(PUT, len(keys), *keys, *words)

        return await self._link.ask(call) is not None

    async def _probe(self, redis: Redis) -> None:
        """As a filling writes: one that is full, read-only or lets us do too little is no use."""
        words = ("2", "10000", "2", "1", PROBE, "", "1", "1")
        await redis.eval(PUT, 1, f"{self._link.prefix}:{PROBE}", *words)

    def _key(self, shard: int) -> str:
        return f"{self._link.prefix}:hot:{shard}"
