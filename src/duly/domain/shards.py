"""Shards: slices of the schedules, shared among live dispatchers by rendezvous hashing."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from uuid import UUID

SHARDS = 64


def shard_of(job: UUID, count: int = SHARDS) -> int:
    """The shard of a job; its schedule and its timers live there for ever."""
    return int.from_bytes(blake2b(job.bytes, digest_size=4).digest(), "big") % count


def preferred_owner(shard: int, dispatchers: Sequence[str]) -> str | None:
    """Who should own a shard: the dispatcher with the highest hash. When one comes or goes, only its own shards move."""
    return max(dispatchers, key=lambda name: (_weight(shard, name), name), default=None)


def heirs_of(shard: int, dispatchers: Sequence[str]) -> list[str]:
    """Who should own a shard, who if that one does not come, and so on."""
    return sorted(dispatchers, key=lambda name: (_weight(shard, name), name), reverse=True)


def _weight(shard: int, dispatcher: str) -> int:
    return int.from_bytes(blake2b(f"{shard}/{dispatcher}".encode(), digest_size=8).digest(), "big")
