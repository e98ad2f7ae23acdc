"""The fleet: who owns which shard, and which workers live. The same text on both engines."""

from __future__ import annotations

from dataclasses import replace

from duly.adapters.sql.engine import Action, Call, Engine, one
from duly.adapters.sql.rows import as_uuid, encode
from duly.domain.execution import Stop, WorkerId
from duly.domain.instants import HOUR, Instant, Micros
from duly.ports.store import ShardLease, WorkerAbout


class SqlLeases:
    """The store's own leader leases."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def shards(self) -> list[ShardLease]:
        return [
            ShardLease(row["shard"], row["epoch"], row["owner"], row["lease_until"], row["progress_at"])
            for row in await self._engine.fetch("shards", {})
        ]

    async def announce_dispatcher(self, name: str, now: Instant, ttl: Micros) -> list[str]:
        def action() -> Action[list[str]]:
            yield Call("announce_dispatcher", {"name": name, "expires_at": now + ttl})
            return [row["name"] for row in (yield Call("dispatchers", {"now": now, "beyond_sense": now + 2 * ttl}))]

        return await self._engine.run(action)

    async def take(self, shard: int, seen_epoch: int, owner: str, now: Instant, ttl: Micros, patience: Micros) -> int | None:
        params = {
            "shard": shard,
            "seen_epoch": seen_epoch,
            "owner": owner,
            "now": now,
            "lease_until": now + ttl,
            "no_progress_since": now - patience,
            "beyond_sense": now + 2 * ttl,
        }
        row = one(await self._engine.fetch("take_shard", params))
        return None if row is None else int(row["epoch"])

    async def renew(self, owner: str, epochs: dict[int, int], now: Instant, ttl: Micros) -> list[int]:
        if not epochs:
            return []
        rows = await self._engine.fetch("renew_shards", {"owner": owner, "now": now, "lease_until": now + ttl})
        return [row["shard"] for row in rows if epochs.get(row["shard"]) == row["epoch"]]

    async def hand_over(self, owner: str, epochs: dict[int, int]) -> None:
        await self._engine.run(lambda: _give_up(owner, epochs))

    async def release(self, owner: str, epochs: dict[int, int], now: Instant) -> None:
        def action() -> Action[None]:
            yield from _give_up(owner, epochs)
            yield Call("drop_dispatchers", {"name": owner, "long_ago": now - HOUR})

        await self._engine.run(action)


def _give_up(owner: str, epochs: dict[int, int]) -> Action[None]:
    for shard, epoch in sorted(epochs.items()):
        yield Call("release_shard", {"shard": shard, "epoch": epoch, "owner": owner})


class SqlLiveness:
    """A worker's life."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def register(
        self, name: str, about: WorkerAbout, now: Instant, ttl: Micros, tenant: int | None = None, family: str | None = None
    ) -> WorkerId:
        about_it = encode(replace(about, ttl=ttl))
        params = {"name": name, "now": now, "expires_at": now + ttl, "about": about_it, "tenant": tenant, "family": family}
        row = one(await self._engine.fetch("register_worker", params))
        return int(row["id"])

    async def renew(self, worker: WorkerId, now: Instant, ttl: Micros) -> list[Stop] | None:
        params = {"worker": worker, "now": now, "expires_at": now + ttl, "beyond_sense": now + 2 * ttl}
        if not await self._engine.fetch("renew_worker", params):
            return None
        return [Stop(as_uuid(row["id"]), row["kill_at"]) for row in await self._engine.fetch("cancels_of_worker", {"worker": worker})]

    async def drain(self, worker: WorkerId) -> None:
        await self._engine.fetch("drain_worker", {"worker": worker})

    async def retire(self, worker: WorkerId, now: Instant) -> None:
        await self._engine.fetch("retire_worker", {"worker": worker, "now": now})
