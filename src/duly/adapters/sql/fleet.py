"""The fleet: who owns which shard, and which workers live. The same text on both engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from duly.adapters.sql.engine import Action, Call, Engine, one
from duly.adapters.sql.rows import as_uuid, encode
from duly.domain.execution import Stop, WorkerId
from duly.domain.instants import HOUR, Instant, Micros
from duly.ports.store import DispatcherAbout, DispatcherRow, ShardLease, WorkerAbout


class SqlLeases:
    """The store's own leader leases."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def shards(self) -> list[ShardLease]:
        return [
            ShardLease(row["shard"], row["epoch"], row["owner"], row["lease_until"], row["progress_at"])
            for row in await self._engine.fetch("shards", {})
        ]

    async def glance(self, but: str, since: Instant, until: Instant) -> list[ShardLease]:
        return [
            ShardLease(row["shard"], row["epoch"], row["owner"], row["lease_until"], row["progress_at"], bool(row["is_late"]))
            for row in await self._engine.fetch("glance", {"but": but, "since": since, "until": until})
        ]

    async def announce_dispatcher(self, name: str, now: Instant, ttl: Micros, about: DispatcherAbout | None = None) -> list[str]:
        says = None if about is None else encode(about)

        def action() -> Action[list[str]]:
            yield Call("announce_dispatcher", {"name": name, "expires_at": now + ttl, "about": says})
            return [row["name"] for row in (yield Call("dispatchers", {"now": now, "beyond_sense": now + 2 * ttl}))]

        return await self._engine.run(action)

    async def dispatchers(self, now: Instant) -> list[DispatcherRow]:
        rows = await self._engine.fetch("dispatchers_about", {"now": now})
        return [DispatcherRow(row["name"], row["expires_at"], _about(row["about"])) for row in rows]

    async def take(self, seen: Sequence[ShardLease], owner: str, now: Instant, ttl: Micros, dead: Sequence[str] = ()) -> dict[int, int]:
        def action() -> Action[dict[int, int]]:
            epochs: dict[int, int] = {}
            for lease in seen:
                params = {"shard": lease.shard, "seen_epoch": lease.epoch, "seen_progress": lease.progress_at}
                row = one((yield Call("take_shard", params | {"owner": owner, "now": now, "lease_until": now + ttl})))
                if row is not None:
                    epochs[lease.shard] = int(row["epoch"])
            owners = {lease.owner for lease in seen if lease.owner is not None and lease.shard in epochs}
            for gone in sorted(owners.union(dead if epochs else ())):
                yield Call("drop_dispatchers", {"name": gone, "long_ago": now - HOUR})
            return epochs

        return await self._engine.run(action)

    async def stir(self, owner: str, shards: Sequence[int], now: Instant) -> None:
        def action() -> Action[None]:
            for shard in shards:
                yield Call("stir_shard", {"shard": shard, "owner": owner, "now": now})

        await self._engine.run(action)

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


def _about(text: str | None) -> DispatcherAbout | None:
    return None if text is None else msgspec.json.decode(text, type=DispatcherAbout)


def _give_up(owner: str, epochs: dict[int, int]) -> Action[None]:
    for shard, epoch in sorted(epochs.items()):
        yield Call("release_shard", {"shard": shard, "epoch": epoch, "owner": owner})


def registration(
    name: str, about: WorkerAbout, now: Instant, ttl: Micros, tenant: int | None, family: str | None
) -> dict[str, str | int | None]:
    """A new worker as it is written."""
    about_it = encode(replace(about, ttl=ttl))
    return {"name": name, "now": now, "expires_at": now + ttl, "about": about_it, "tenant": tenant, "family": family}


class SqlLiveness:
    """A worker's life."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def register(
        self, name: str, about: WorkerAbout, now: Instant, ttl: Micros, tenant: int | None = None, family: str | None = None
    ) -> WorkerId:
        row = one(await self._engine.fetch("register_worker", registration(name, about, now, ttl, tenant, family)))
        return int(row["id"])

    async def renew(self, worker: WorkerId, now: Instant, ttl: Micros, skew: Micros | None = None) -> list[Stop] | None:
        params = {"worker": worker, "now": now, "expires_at": now + ttl, "beyond_sense": now + 2 * ttl}
        if not await self._engine.fetch("renew_worker", params):
            return None
        if skew is not None:
            await self._engine.fetch("tell_skew", {"worker": worker, "skew": skew})
        return [Stop(as_uuid(row["id"]), row["kill_at"]) for row in await self._engine.fetch("cancels_of_worker", {"worker": worker})]

    async def drain(self, worker: WorkerId) -> None:
        await self._engine.fetch("drain_worker", {"worker": worker})

    async def retire(self, worker: WorkerId, now: Instant) -> None:
        await self._engine.fetch("retire_worker", {"worker": worker, "now": now})
