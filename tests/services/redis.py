"""The real Redis of tests: the one that `duly verify` starts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from duly.services import ServiceMissing
from duly.services.redis import Redis
from tests.services.missing import service_missing

__all__ = ["Redis", "own_redis", "redis_server", "redis_url"]


def started(**settings: str) -> Redis:
    """A server of one's own, for tests that stop, break or restore it."""
    try:
        server = Redis(settings)
    except ServiceMissing as exc:
        service_missing("Redis", str(exc))
    server.start()
    return server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Redis]:
    """One real Redis per test process, started when a test first asks."""
    with started() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: Redis) -> str:
    """The URL of an empty Redis."""
    redis_server.ask("FLUSHALL")
    return redis_server.url


@pytest.fixture
def own_redis() -> Iterator[Redis]:
    """A Redis that this test alone has, to do with as it likes."""
    with started() as server:
        yield server
