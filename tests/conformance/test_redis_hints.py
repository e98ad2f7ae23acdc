"""Hints over a real Redis: heard by everybody while it is there, sent over the store while it is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from duly.adapters.redis.hints import RedisHints
from duly.adapters.redis.link import RedisLink
from duly.adapters.sql.bell import Bell
from duly.domain.instants import HOUR
from tests.docs.redis_rights import rights
from tests.services.redis import Redis

AT = 1_772_366_400_000_000
TIMEOUT = 10.0


class Store(Bell):
    """A store's transport that notes what is sent over it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[object] = []

    async def announce(self, routes: object) -> None:
        self.sent.append(routes)

    async def announce_cancel(self) -> None:
        self.sent.append("cancel")

    async def announce_due(self, at: int) -> None:
        self.sent.append(at)


class Process:
    """One process's end of the hints."""

    def __init__(self, url: str, deadline: float = 5.0) -> None:
        self.store = Store()
        self.link = RedisLink(url, deadline=deadline)
        self.hints = RedisHints(self.link, self.store)
        self.connections = 0
        connect = self.link.connect

        def counted(*, timeout: float | None) -> object:
            self.connections += timeout is None
            return connect(timeout=timeout)

        self.link.connect = counted  # type: ignore[assignment]

    async def listens(self) -> None:
        """Until it has subscribed, which it shows by looking once."""
        assert await self.hints.wait_ready(TIMEOUT)
        assert await self.hints.wait_cancel(TIMEOUT)

    async def sends(self) -> None:
        """Until everything is sent."""
        assert self.hints._sender is not None
        await self.hints._sender


@pytest.fixture
async def processes() -> AsyncIterator[Callable[..., Process]]:
    async with AsyncExitStack() as stack:

        def open_process(url: str, deadline: float = 5.0) -> Process:
            process = Process(url, deadline)
            stack.push_async_callback(process.hints.close)
            return process

        yield open_process


async def test_every_kind_of_hint_is_heard_by_others_and_the_store_carries_none(redis_url: str, processes: Callable[..., Process]) -> None:
    here, there = processes(redis_url), processes(redis_url)
    await there.listens()

    await here.hints.announce([1, 2])
    await here.hints.announce_cancel()
    await here.hints.announce_due(AT)

    assert await there.hints.wait_ready(TIMEOUT)
    assert await there.hints.wait_cancel(TIMEOUT)
    assert await there.hints.wait_due(AT + HOUR, TIMEOUT) == [AT]
    assert await there.hints.wait_scheduled(TIMEOUT)
    await here.sends()
    assert here.store.sent == []


async def test_who_announces_hears_it_at_once_without_anybody(processes: Callable[..., Process]) -> None:
    alone = processes("redis://127.0.0.1:1/0")

    await alone.hints.announce([1])
    await alone.hints.announce_cancel()
    await alone.hints.announce_due(AT)

    assert await alone.hints.wait_ready(0)
    assert await alone.hints.wait_cancel(0)
    assert await alone.hints.wait_due(AT + HOUR, 0) == [AT]


async def test_while_redis_is_away_hints_go_over_the_store_and_afterwards_no_more(
    own_redis: Redis, processes: Callable[..., Process]
) -> None:
    here, there = processes(own_redis.url, 0.2), processes(own_redis.url)
    await there.listens()

    own_redis.kill()
    await here.hints.announce([7, 3])
    await here.hints.announce_cancel()
    await here.hints.announce_due(AT)
    await here.sends()
    assert here.store.sent == [[3, 7], "cancel", AT]

    own_redis.start()
    # What was said meanwhile is found by looking.
    await there.listens()
    async with asyncio.timeout(TIMEOUT):
        while here.link.is_away:
            await asyncio.sleep(0.01)
    await here.hints.announce([1])
    assert await there.hints.wait_ready(TIMEOUT)
    assert len(here.store.sent) == 3


async def test_a_connection_that_falls_silent_is_left(
    own_redis: Redis, processes: Callable[..., Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.adapters.redis.hints.PROBE_EVERY", 0.1)
    monkeypatch.setattr("duly.adapters.redis.hints.CONNECT_TIMEOUT", 0.3)
    process = processes(own_redis.url)
    await process.listens()

    own_redis.pause()
    async with asyncio.timeout(TIMEOUT):
        # Asked whether it is there, it does not answer; nor does the next one.
        while process.connections < 3:
            await asyncio.sleep(0.01)
    own_redis.resume()

    await process.listens()


async def test_what_is_no_hint_is_not_heard(redis_server: Redis, redis_url: str, processes: Callable[..., Process]) -> None:
    process = processes(redis_url)
    await process.listens()

    redis_server.ask("PUBLISH", "{duly}:hints", "nonsense -5 1e9 " + "9" * 30)
    redis_server.ask("PUBLISH", "{duly}:hints", "5")

    assert await process.hints.wait_due(AT, TIMEOUT) == [5]
    assert not await process.hints.wait_ready(0)


async def test_the_rights_in_the_handbook_are_enough(redis_server: Redis, redis_url: str, processes: Callable[..., Process]) -> None:
    redis_server.ask("ACL", "SETUSER", "duly", "reset", *rights(), ">secret")
    url = redis_url.replace("//", "//duly:secret@")
    here, there = processes(url), processes(url)
    await there.listens()

    await here.hints.announce_cancel()

    assert await there.hints.wait_cancel(TIMEOUT)
