"""A real etcd, dispatchers' ends of it, and a way to wait for what must come."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from duly.adapters.etcd.address import parse_address
from duly.adapters.etcd.client import Etcd as Client
from duly.adapters.etcd.leases import EtcdPresence
from duly.adapters.system.clock import SystemClock
from duly.services.etcd import Etcd
from tests.services.etcd import etcd_server, own_etcd

__all__ = ["etcd_server", "own_etcd"]

_numbers = itertools.count(1)


@pytest.fixture
def prefix() -> str:
    """Keys of this test's own."""
    return f"test-{next(_numbers)}"


def client(server: Etcd) -> Client:
    return Client(parse_address(server.url))


@asynccontextmanager
async def there(server: Etcd, prefix: str, *names: str) -> AsyncIterator[list[EtcdPresence]]:
    """Dispatchers that have entered and know of one another."""
    made = [EtcdPresence(client(server), prefix, SystemClock()) for _ in names]
    try:
        for presence, name in zip(made, names, strict=True):
            await presence.enter(name)
        for presence in made:
            await until(lambda presence=presence: presence._roster.there >= set(names))  # type: ignore[misc]
        yield made
    finally:
        for presence in made:
            await presence.leave()


async def until(is_so: Callable[[], bool], seconds: float = 60.0) -> float:
    """Wait until it is so; how long that took."""
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(seconds):
        while not is_so():
            await asyncio.sleep(0.01)
    return asyncio.get_running_loop().time() - began
