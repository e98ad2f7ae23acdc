"""etcd under test: it tells the dispatchers who is there, and is killed, paused, emptied, and made to forget.

All of it is harmless by promise: the store's leases decide, so none of these faults excuses a late fire.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from duly.adapters.etcd.address import PREFIX, parse_address
from duly.adapters.etcd.client import Etcd as Client
from duly.services.etcd import Etcd
from duly.verify.engines.engine import Private
from duly.verify.faults import Kind
from duly.verify.links import Links
from duly.verify.stage import Stage

ETCD = "etcd"


class EtcdEngine(Private[Etcd]):
    """A private etcd of one member."""

    name = ETCD

    def __init__(self) -> None:
        super().__init__(Etcd)
        self.kinds: Sequence[Kind] = (
            Kind("etcd-kill", 4, self._kill, "etcd ends without warning and is started again, sometimes empty"),
            Kind("etcd-pause", 3, self._pause, "etcd is stopped for longer than its leases last (SIGSTOP)"),
            Kind("etcd-revoke", 4, self._revoke, "etcd forgets a dispatcher that lives"),
            Kind("etcd-ghost", 2, self._ghost, "etcd says of a dispatcher that is not there that it is"),
        )

    async def settings(self, node: str, kind: str, links: Links) -> dict[str, str]:
        if kind == "worker":
            return {}
        return {"DULY_LEASES": f"etcd://127.0.0.1:{await links.add(node, ETCD, self.server.address)}"}

    async def _kill(self, stage: Stage, chance: random.Random, seconds: float) -> None:
        is_wiped = chance.random() < 0.3
        async with self.turn, stage.broken("etcd-kill", [ETCD], harmless=True, wiped=is_wiped):
            await self.on_thread(self.server.kill)
            try:
                await stage.hold(seconds * chance.uniform(0, 3))
                if is_wiped:
                    await self.on_thread(self.server.wipe)
            finally:
                await self.on_thread(self.server.start)

    async def _pause(self, stage: Stage, chance: random.Random, seconds: float) -> None:
        async with self.turn, stage.broken("etcd-pause", [ETCD], harmless=True):
            self.server.pause()
            try:
                await stage.hold(seconds * chance.uniform(0.5, 3))
            finally:
                self.server.resume()

    async def _revoke(self, stage: Stage, chance: random.Random, seconds: float) -> None:
        async with self.turn, stage.broken("etcd-revoke", [ETCD], harmless=True) as fault:
            leases = await self._client().leases()
            fault.about["leases"] = len(leases)
            if leases:
                await self._client().revoke(chance.choice(leases))

    async def _ghost(self, stage: Stage, chance: random.Random, seconds: float) -> None:
        async with self.turn, stage.broken("etcd-ghost", [ETCD], harmless=True):
            client = self._client()
            lease = await client.grant(60)
            await client.put(f"{PREFIX}/dispatchers/ghost-{chance.randrange(1000)}", "ghost", lease)
            await stage.hold(seconds)
            await client.revoke(lease)

    def _client(self) -> Client:
        return Client(parse_address(self.server.url))
