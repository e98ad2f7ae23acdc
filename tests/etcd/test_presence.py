"""Who is there, told by a real etcd: what the port promises, and what becomes of it when etcd is not well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from duly.adapters.etcd.address import parse_address
from duly.adapters.etcd.client import Change
from duly.adapters.etcd.client import Etcd as Client
from duly.adapters.etcd.leases import TTL, EtcdPresence
from duly.adapters.system.clock import SystemClock
from duly.domain.errors import Unavailable
from duly.services.etcd import Etcd
from tests.etcd.conftest import client, there, until


async def test_dispatchers_know_of_one_another(etcd_server: Etcd, prefix: str) -> None:
    async with there(etcd_server, prefix, "a", "b") as (first, second):
        looks = [await first.look(), await second.look()]

    assert [(look.kind, look.is_reachable, look.members) for look in looks] == [("etcd", True, ("a", "b"))] * 2


async def test_who_comes_is_news(etcd_server: Etcd, prefix: str) -> None:
    async with there(etcd_server, prefix, "a") as (first,):
        waits = asyncio.create_task(first.changed())
        async with there(etcd_server, prefix, "b"), asyncio.timeout(30):
            await waits


async def test_who_stops_in_order_is_missed_at_once(etcd_server: Etcd, prefix: str) -> None:
    async with there(etcd_server, prefix, "a", "b") as (first, second):
        while first._news.is_set():
            await first.changed()

        await second.leave()

        async with asyncio.timeout(30):
            await first.changed()
        await until(lambda: first.left() == {"b"})


async def test_who_dies_is_missed_when_his_lease_ends(etcd_server: Etcd, prefix: str) -> None:
    async with there(etcd_server, prefix, "a", "b") as (first, second):
        assert second._life is not None
        second._life.cancel()

        took = await until(lambda: first.left() == {"b"})

        # etcd looks for leases that have ended every half second.
        assert took >= TTL - 0.6


async def test_a_living_one_whose_key_was_taken_away_is_back_at_once(etcd_server: Etcd, prefix: str) -> None:
    async with there(etcd_server, prefix, "a", "b") as (first, second):
        told: list[frozenset[str]] = []
        for _ in range(3):
            assert second._lease is not None
            before = second._lease

            await client(etcd_server).revoke(before)

            await until(lambda before=before: second._lease != before and "b" in first._roster.there)  # type: ignore[misc]
            told.append(first.left())

    assert told == [frozenset()] * 3


async def test_a_silent_etcd_tells_nothing_and_nobody_has_left_when_it_is_back(own_etcd: Etcd, prefix: str) -> None:
    async with there(own_etcd, prefix, "a", "b") as members:
        own_etcd.kill()

        assert not (await members[0].look()).is_reachable
        await until(lambda: all(member._heard_at == 0 for member in members))
        assert [member.left() for member in members] == [frozenset()] * 2

        own_etcd.start()
        await until(lambda: all(member._roster.there == {"a", "b"} for member in members))
        assert [member.left() for member in members] == [frozenset()] * 2


async def test_an_etcd_that_was_paused_beyond_every_lease_makes_nobody_leave(own_etcd: Etcd, prefix: str) -> None:
    async with there(own_etcd, prefix, "a", "b") as members:
        own_etcd.pause()
        try:
            await until(lambda: all(member._heard_at == 0 for member in members))
            look = await members[0].look()
        finally:
            own_etcd.resume()

        assert (look.is_reachable, look.trouble is not None) == (False, True)
        left: set[str] = set()

        def are_back() -> bool:
            left.update(*(member.left() for member in members))
            return all(member._roster.there == {"a", "b"} and member._heard_at for member in members)

        await until(are_back)
        assert left == set()


async def test_an_etcd_that_lost_everything_makes_nobody_leave(own_etcd: Etcd, prefix: str) -> None:
    async with there(own_etcd, prefix, "a", "b", "c") as members:
        own_etcd.kill()
        own_etcd.wipe()
        own_etcd.start()
        left: set[str] = set()

        def are_back() -> bool:
            left.update(*(member.left() for member in members))
            return all(member._roster.there == {"a", "b", "c"} and member._heard_at for member in members)

        await until(are_back)

        assert left == set()


async def test_a_ghost_is_there_and_harms_nobody(etcd_server: Etcd, prefix: str) -> None:
    async with there(etcd_server, prefix, "a") as (first,):
        other = client(etcd_server)
        await other.put(f"{prefix}/dispatchers/ghost", "ghost", await other.grant(60))

        await until(lambda: "ghost" in first._roster.there)

        assert first.left() == frozenset()


async def test_when_one_member_is_away_another_is_asked(etcd_server: Etcd, own_etcd: Etcd, prefix: str) -> None:
    own_etcd.kill()
    address = parse_address(f"etcd://127.0.0.1:{own_etcd.port},127.0.0.1:{etcd_server.port}/{prefix}")
    presence = EtcdPresence(Client(address), address.prefix, SystemClock())

    await presence.enter("a")

    await until(lambda: presence._roster.there == {"a"})
    await presence.leave()


class Failing(Client):
    """Its watch ends when it is told to, while a heartbeat is under way that takes a moment to notice that it is over."""

    is_slow = False

    def __init__(self, server: Etcd) -> None:
        super().__init__(parse_address(server.url))
        self.beats, self.fails, self.ending = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def keep_alive(self, lease: int) -> bool:
        if not self.is_slow:
            return await super().keep_alive(lease)
        self.beats.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ending.set()
            await asyncio.sleep(0.1)
        return True

    async def watch(self, prefix: str, revision: int) -> AsyncGenerator[list[Change], None]:
        yield []
        await self.fails.wait()
        raise Unavailable("DULY-E504", "gone")


async def test_who_leaves_while_etcd_fails_has_left(etcd_server: Etcd, prefix: str) -> None:
    failing = Failing(etcd_server)
    presence = EtcdPresence(failing, prefix, SystemClock())
    await presence.enter("a")
    await until(lambda: presence._heard_at > 0)
    failing.is_slow = True
    await failing.beats.wait()

    failing.fails.set()
    await failing.ending.wait()

    async with asyncio.timeout(10):
        await presence.leave()
