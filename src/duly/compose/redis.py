"""Redis, where one is configured: the hot index of the dispatcher, and the way of the hints."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from duly import config
from duly.adapters.memory.hot_index import MemoryHotIndex
from duly.domain.errors import Invalid
from duly.ports.hot_index import HotIndex

if TYPE_CHECKING:
    from duly.adapters.redis.hints import RedisHints, StoreTransport
    from duly.adapters.redis.link import RedisLink

SETTING = "DULY_HOT_INDEX"


def open_redis(settings: config.Settings) -> RedisLink | None:
    """The way to the Redis that DULY_HOT_INDEX names, not yet gone; None without one.

    Raises Invalid when it is not installed (DULY-E612) or the address cannot be read (DULY-E601).
    """
    if settings.hot_index == config.MEMORY:
        return None
    if find_spec("redis") is None:
        raise Invalid("DULY-E612", "Redis needs an extra.", field=SETTING, hint="pip install 'duly[redis]'")
    from duly.adapters.redis.link import RedisLink

    try:
        return RedisLink(settings.hot_index)
    except ValueError as error:
        raise Invalid("DULY-E601", f"{error}.", field=SETTING) from error


def hints_over(redis: RedisLink, transport: StoreTransport) -> RedisHints:
    """Hints over Redis while it is there, over the store while it is not."""
    from duly.adapters.redis.hints import RedisHints

    return RedisHints(redis, transport)


def hot_index_on(redis: RedisLink | None) -> HotIndex:
    """The index in Redis, or in memory where there is none."""
    if redis is None:
        return MemoryHotIndex()
    from duly.adapters.redis.hot_index import RedisHotIndex

    return RedisHotIndex(redis)
