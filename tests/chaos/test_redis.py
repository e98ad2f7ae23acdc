"""Redis is broken under a dispatcher that fires by the thousand: each fires once, none early, none later than the store's poll allows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from duly import config
from duly.compose import Node, Service, open_node
from duly.domain.access import Actor, Role
from duly.domain.instants import SECOND, Instant, to_rfc3339
from duly.ports.hot_index import Coming
from duly.services import ServiceFailed
from duly.wire.jobs import JobShape
from tests.conformance.ledger import raw
from tests.services.redis import Redis

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

ACTOR = Actor(1, "default", Role.ADMIN, "test")
SHARDS = 64
# A second until the dispatcher looks anyway, and what a busy machine needs to get through a herd.
LATEST = SECOND + 2 * SECOND

_INSTANTS = "return table.concat(redis.call('ZRANGEBYSCORE', KEYS[1], '(0', '+inf'), ' ')"

Fault = Callable[[Redis, "Fires"], Awaitable[None]]


class Fires:
    """Jobs that fire every second: a herd at the full second, and others each at its own moment."""

    def __init__(self, node: Node, herd: int, others: int, seconds: int) -> None:
        self.node = node
        chance = random.Random(7)
        # Far enough ahead for all of them to be made; and in their first round versions are read, which is not what is judged.
        first = node.clock.now() + (1 + (herd + others) // 500) * SECOND
        self.anchors = [first] * herd + [first + chance.randrange(SECOND) for _ in range(others)]
        self.warm: Instant = first + 2 * SECOND
        self.last: Instant = first + (2 + seconds) * SECOND

    @property
    def wanted(self) -> list[Instant]:
        """Every instant at which something is due, as often as it is."""
        return sorted(at for anchor in self.anchors for at in range(anchor, self.last + 1, SECOND))

    async def make(self) -> None:
        policies = {"overlap": "allow", "catchUp": {"policy": "all", "maxCount": 1000}, "endAt": to_rfc3339(self.last)}
        shapes = [
            {"name": f"job-{nth}", "target": {"handler": "work"}, "intervalSec": 1, "anchorAt": to_rfc3339(at), **policies}
            for nth, at in enumerate(self.anchors)
        ]
        await self.node.jobs.create(ACTOR, [msgspec.convert(shape, JobShape) for shape in shapes])

    async def until(self, at: Instant) -> None:
        await asyncio.sleep(max((at - self.node.clock.now()) / SECOND, 0))

    async def all_fired(self) -> None:
        """Until there are as many as there should be; what comes too late, or twice, is told by who counts them."""
        while len(await self.fired()) < len(self.wanted) and self.node.clock.now() < self.last + 2 * LATEST:
            await asyncio.sleep(0.1)

    async def fired(self) -> list[tuple[Instant, Instant]]:
        """When each was due and when it was written."""
        rows = await raw(self.node.engine, "SELECT due_at, created_at FROM executions")
        return [(row["due_at"], row["created_at"]) for row in rows]


async def flush(redis: Redis, fires: Fires) -> None:
    """FLUSHALL, again and again."""
    for _ in range(5):
        await asyncio.to_thread(redis.ask, "FLUSHALL")
        await asyncio.sleep(0.1)


async def kill(redis: Redis, fires: Fires) -> None:
    """It ends and comes back empty."""
    redis.kill()
    await asyncio.sleep(0.7)
    redis.start()


async def restore(redis: Redis, fires: Fires) -> None:
    """It ends and comes back as it was a while ago."""
    dump = await asyncio.to_thread(redis.keep_dump)
    await asyncio.sleep(0.7)
    redis.kill()
    await asyncio.to_thread(redis.start_from, dump)


async def pause(redis: Redis, fires: Fires) -> None:
    """It holds its connections and does not answer."""
    redis.pause()
    await asyncio.sleep(0.7)
    redis.resume()


async def be_slow(redis: Redis, fires: Fires) -> None:
    """It sleeps between two commands."""
    for _ in range(3):
        await asyncio.to_thread(redis.ask, "DEBUG", "SLEEP", "0.25")


async def lie(redis: Redis, fires: Fires) -> None:
    """Somebody writes into it by hand: instants at which nothing is due, other kinds of keys, and takes some away."""
    chance = random.Random(11)
    end = fires.node.clock.now() + SECOND
    while fires.node.clock.now() < end:
        key = f"{{duly}}:hot:{chance.randrange(SHARDS)}"
        soon = fires.node.clock.now() + chance.randrange(-SECOND, 2 * SECOND)
        match chance.randrange(5):
            case 0:
                words = ["ZADD", key, str(soon), "by hand", "inf", "infinite"]
            case 1:
                words = ["SET", key, "text"]
            case 2:
                words = ["DEL", key]
            case 3:
                words = ["ZREMRANGEBYSCORE", key, "(0", "+inf"]
            case _:
                words = ["PUBLISH", "{duly}:hints", f"ready cancel {soon} nonsense"]
        # It may meet a key of another kind that it made itself.
        with contextlib.suppress(ServiceFailed):
            await asyncio.to_thread(redis.ask, *words)
        await asyncio.sleep(0.01)


FAULTS: tuple[Fault, ...] = (flush, kill, restore, pause, be_slow, lie)
# Each strikes a little before a full second, when the herd fires, and has another one to mend.
EACH = 2


async def fire_under(faults: Sequence[Fault], redis: Redis, store: str, home: Path, herd: int, others: int) -> None:
    """Run a dispatcher on this Redis, break it, and demand that every fire came once and in time."""
    node = await open_node(config.load({"DULY_HOME": str(home), "DULY_STORE": store, "DULY_HOT_INDEX": redis.url}))
    try:
        fires = Fires(node, herd, others, EACH * len(faults))
        await fires.make()
        stop = asyncio.Event()
        running = asyncio.create_task(Service(node, ["dispatcher"]).run(stop))
        try:
            for nth, fault in enumerate(faults):
                await fires.until(fires.warm + EACH * nth * SECOND - SECOND // 5)
                await fault(redis, fires)
            await fires.until(fires.last)
            await fires.all_fired()
        finally:
            stop.set()
            await running
        fired = await fires.fired()
        assert sorted(due for due, _ in fired) == fires.wanted
        assert min(written - due for due, written in fired) >= 0
        assert max(written - due for due, written in fired if due >= fires.warm) <= LATEST
    finally:
        await node.close()


async def test_every_fire_comes_once_and_in_time_while_redis_is_broken(
    own_redis: Redis, postgres_store: str, tmp_path: Path, long_form: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "duly")
    if long_form:
        chance = random.Random(5)
        several = [fault for _ in range(5) for fault in chance.sample(FAULTS, len(FAULTS))]
        await fire_under(several, own_redis, f"sqlite:///{tmp_path / 'duly.db'}", tmp_path, 300, 50)
        await fire_under(several, own_redis, postgres_store, tmp_path, 1_500, 500)
    else:
        await fire_under(FAULTS, own_redis, postgres_store, tmp_path, 400, 100)

    # Of each time that it is away it says two words at most, and nothing of it is an error.
    about_redis = [record.getMessage() for record in caplog.records if record.name == "duly.redis"]
    assert len(about_redis) <= (120 if long_form else 12)
    assert [record for record in caplog.records if record.levelno > logging.WARNING] == []


async def test_afterwards_the_index_is_what_the_store_has(own_redis: Redis, postgres_store: str, tmp_path: Path) -> None:
    """Within two rounds of the hydrator, whatever somebody did to it."""
    node = await open_node(config.load({"DULY_HOME": str(tmp_path), "DULY_STORE": postgres_store, "DULY_HOT_INDEX": own_redis.url}))
    stop = asyncio.Event()
    running = asyncio.create_task(Service(node, ["dispatcher"]).run(stop))
    try:
        fires = Fires(node, 50, 200, 10)
        fires.anchors = [at + 10 * SECOND for at in fires.anchors]
        await fires.make()
        wanted = {Coming(at, shard) for at, shard in await _due(node)}

        own_redis.ask("FLUSHALL")

        async with asyncio.timeout(15):
            while _held(own_redis) != wanted:
                await asyncio.sleep(0.1)
    finally:
        stop.set()
        await running
        await node.close()


async def _due(node: Node) -> list[tuple[Instant, int]]:
    return [(row["next_fire_at"], row["shard"]) for row in await raw(node.engine, "SELECT next_fire_at, shard FROM schedules")]


def _held(redis: Redis) -> set[Coming]:
    held = set()
    for shard in range(SHARDS):
        found = redis.ask("EVAL", _INSTANTS, "1", f"{{duly}}:hot:{shard}")
        held |= {Coming(int(at), shard) for at in (found or "").split()}
    return held
