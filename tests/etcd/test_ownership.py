"""Ownership with a real etcd on real stores: who is gone is replaced before his lease ends, and a wrong word harms nobody."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from duly.adapters.etcd.leases import EtcdPresence
from duly.adapters.sql.engine import Engine
from duly.adapters.sql.store import store_on
from duly.adapters.system.clock import SystemClock
from duly.domain.instants import SECOND
from duly.domain.shards import SHARDS
from duly.ports.store import Leases
from duly.roles.ownership import Ownership, OwnershipSettings
from duly.services.etcd import Etcd
from tests.conformance.conftest import opened, opener, sqlite_path, sqlite_template
from tests.etcd.conftest import client, until

__all__ = ["sqlite_path", "sqlite_template"]

# Longer than anybody here waits: what changes hands was not waited for until its lease ended.
LEASE = 120 * SECOND


@dataclass
class Dispatching:
    """A dispatcher as far as its shards go: it refreshes, and rests as long as it may or until there is news."""

    name: str
    leases: Leases
    presence: EtcdPresence
    clock: SystemClock
    ownership: Ownership = field(init=False)
    task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.ownership = Ownership(self.name, self.leases, self.clock, OwnershipSettings(ttl=LEASE, patience=LEASE), self.presence)

    async def start(self) -> None:
        await self.presence.enter(self.name)
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            await self.ownership.refresh(self.clock.now())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min((self.ownership.longest_rest() or 200_000) / 1e6, 0.2)):
                    await self.ownership.news()

    async def die(self) -> None:
        """As by `kill -9`: nothing is said to anybody."""
        for task in (self.task, self.presence._life):
            assert task is not None
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def stop(self) -> None:
        """In order: the shards first, then etcd is told."""
        assert self.task is not None
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        await self.ownership.leave(self.clock.now())
        await self.presence.leave()


@pytest.fixture(params=["sqlite", "postgres"])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    async with opened(opener(request.param, request)()) as found:
        yield found


@pytest.fixture
async def three(engine: Engine, etcd_server: Etcd, prefix: str) -> AsyncIterator[list[Dispatching]]:
    """Three that have shared the shards."""
    leases, clock = store_on(engine).leases, SystemClock()
    made = [Dispatching(f"d{n}", leases, EtcdPresence(client(etcd_server), prefix, clock), clock) for n in range(1, 4)]
    for one in made:
        await one.start()
    await until(lambda: _owned(made) == SHARDS and min(len(one.ownership.epochs()) for one in made) >= 8)
    yield made
    for one in made:
        if one.task is not None and not one.task.done():
            await one.die()
        await one.presence.leave()


def _owned(some: list[Dispatching]) -> int:
    return sum(len(one.ownership.epochs()) for one in some)


async def test_one_who_dies_while_nothing_is_due_is_replaced_before_his_lease_ends(three: list[Dispatching]) -> None:
    *heirs, dead = three
    before = dict(dead.ownership.epochs())

    await dead.die()
    await until(lambda: _owned(heirs) == SHARDS)

    after = heirs[0].ownership.epochs() | heirs[1].ownership.epochs()
    assert all(after[shard] > epoch for shard, epoch in before.items())


async def test_what_one_who_stops_gives_up_is_taken_at_once(three: list[Dispatching]) -> None:
    *heirs, leaver = three

    await leaver.stop()

    await until(lambda: _owned(heirs) == SHARDS)


async def test_believers_never_hold_one_epoch_twice_whatever_etcd_forgets(three: list[Dispatching], etcd_server: Etcd, prefix: str) -> None:
    other = client(etcd_server)
    for victim in itertools.islice(itertools.cycle(three), 6):
        if victim.presence._lease is not None:
            await other.revoke(victim.presence._lease)
        await other.put(f"{prefix}/dispatchers/ghost", "ghost", await other.grant(5))
        await asyncio.sleep(0)
        held = [(shard, epoch) for one in three for shard, epoch in one.ownership.epochs().items()]
        assert len(held) == len(set(held))

    await until(lambda: _owned(three) == SHARDS and min(len(one.ownership.epochs()) for one in three) >= 8)
    held = [(shard, epoch) for one in three for shard, epoch in one.ownership.epochs().items()]
    assert len(held) == len(set(held))
